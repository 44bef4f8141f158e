"""functory.sync over connections that break: what is asked again, when, and what is never asked twice."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from functory.errors import UNREADABLE
from functory.sync import ClientError, Conflict, InvalidInput, Jobs, NotEndedYet, OverLimit, ServerUnreachable
from functory.sync.server import pause_after
from tests.support.clocks import FakeTime
from tests.support.command_line import clean_environ
from tests.support.egress import certificate
from tests.support.fake_server import FakeServer, Say, Seen, Step, cut, fake_server, say

ADDED = say(body=b'{"count": 1, "ids": ["j1"]}')
ONE_PROCESS = """
import os, sys
from functory.sync import Jobs

jobs = Jobs(sys.argv[1], key="k", tenant="acme")
jobs.get("before")
child = os.fork()
if not child:
    jobs.get("child")
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
jobs.get("parent")
"""
HEAVY = ("aiohttp", "asyncio", "motor", "apsw", "jinja2", "functory.client", "functory.queue", "functory.web", "store")


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    made = FakeTime()
    for module in ("jobs", "server", "connections"):
        monkeypatch.setattr(f"functory.sync.{module}.time", made)
    return made


def jobs_of(server: FakeServer, **more: Any) -> Jobs:
    return Jobs(server.url, key="k", tenant="acme", **more)


def refused(status: int, code: str = "some_code", **headers: str) -> Step:
    return say(status, json.dumps({"error": {"code": code, "message": "not now"}}).encode(), **headers)


def a_job(seen: Seen, state: str = "archived") -> Say:
    """The one that is asked for."""
    name = seen.path.rpartition("/")[2]
    job = {"id": name, "type": "x", "state": state, "priority": 500, "attempts": 1, "due_ms": 0, "created_ms": 0}
    return Say(body=json.dumps(job | {"code": "ok"}).encode())


def still_runs(seen: Seen) -> Say:
    return a_job(seen, "running")


def hang_up(seen: Seen) -> Say:
    return a_job(seen)._replace(hangs_up=True)


def head_cut(seen: Seen) -> Say:
    return a_job(seen)._replace(has_head=False)


def half(seen: Seen) -> Say:
    return a_job(seen)._replace(cut_after=20)


def test_calls_share_a_connection() -> None:
    with fake_server(a_job) as server, jobs_of(server) as jobs:
        assert [jobs.get(name).id for name in "abc"] == ["a", "b", "c"]
        assert [seen.connection for seen in server.seen] == [1, 1, 1]
        assert server.seen[0].headers["Authorization"] == "Bearer k"
        jobs.close()
        assert jobs.get("d").id == "d"
        assert server.seen[3].connection == 2


def test_a_kept_connection_that_was_closed_is_opened_again_silently(time: FakeTime) -> None:
    with fake_server(hang_up, a_job) as server, jobs_of(server) as jobs:
        assert [jobs.get(name).id for name in "ab"] == ["a", "b"]
        assert [seen.connection for seen in server.seen] == [1, 2]
    assert time.pauses == []


def test_a_connection_that_was_idle_for_long_is_not_used_again(time: FakeTime) -> None:
    with fake_server(a_job) as server, jobs_of(server) as jobs:
        jobs.get("a")
        time.now_s += 29
        jobs.get("b")
        time.now_s += 31
        jobs.get("c")
        assert [seen.connection for seen in server.seen] == [1, 1, 2]


@pytest.mark.parametrize(
    "broken", [cut, head_cut, half, refused(503), say(502, b"<html>"), say(500, b"<html>"), refused(429)]
)
def test_what_was_not_answered_is_sent_again_as_it_was(time: FakeTime, broken: Step) -> None:
    with fake_server(broken, broken, ADDED) as server, jobs_of(server) as jobs:
        assert jobs.add("mail", {"to": "bob"}, delay_s=5) == "j1"
        assert jobs.add("mail", {"to": "bob"}, delay_s=5) == "j1"
        first, second, third, other = server.seen
    assert (first.method, first.path, first.body) == ("POST", "/acme/job/mail/add", b'{"to":"bob"}')
    assert (first.target, first.body) == (second.target, second.body) == (third.target, third.body)
    assert first.query["delay_s"] == "5"
    assert len(first.query["idempotency_key"]) == 32
    assert first.query["idempotency_key"] != other.query["idempotency_key"]
    assert len(time.pauses) == 2


@pytest.mark.parametrize("payload", ["", "two\nlines", b"#\xff"])
def test_a_payload_that_travels_as_json_has_its_key_too(time: FakeTime, payload: object) -> None:
    with fake_server(cut, ADDED) as server, jobs_of(server) as jobs:
        jobs.add("mail", payload, priority=0)
        first, second = server.seen
    assert (first.target, first.body) == (second.target, second.body)
    assert (list(first.query), first.headers["Content-Type"]) == (["idempotency_key"], "application/json")


@pytest.mark.parametrize("verb", ["unique", "invoke"])
def test_what_is_not_repeatable_is_sent_once_over_a_connection_of_its_own(time: FakeTime, verb: str) -> None:
    with fake_server(a_job, cut, ADDED) as server, jobs_of(server) as jobs:
        jobs.get("a")
        with pytest.raises(ServerUnreachable, match="did not answer, and may have done what was asked"):
            jobs.add("mail", "x", unique="daily") if verb == "unique" else jobs.invoke("mail", "x")
        assert [seen.connection for seen in server.seen] == [1, 2]
        assert server.seen[1].query == ({"unique": "daily"} if verb == "unique" else {})
    assert time.pauses == []


@pytest.mark.parametrize(("status", "is_repeated"), [(429, True), (503, False), (502, False)])
@pytest.mark.parametrize("verb", ["unique", "invoke"])
def test_what_is_not_repeatable_is_repeated_only_if_nothing_was_done(
    time: FakeTime, status: int, verb: str, is_repeated: bool
) -> None:
    invoked = {
        "code": "ok",
        "exitcode": 200,
        "result": "7",
        "log": "",
        "duration_ms": 1,
        "isolation": "",
        "new_jobs": [],
    }
    texts = {"result_encoding": "text", "log_encoding": "text"}
    answer = ADDED if verb == "unique" else say(body=json.dumps(invoked | texts).encode())

    def ask() -> object:
        return jobs.add("mail", "x", unique="a") if verb == "unique" else jobs.invoke("mail", "x").check().value()

    with fake_server(refused(status), answer) as server, jobs_of(server) as jobs:
        if is_repeated:
            assert ask() == ("j1" if verb == "unique" else 7)
        else:
            with pytest.raises(ClientError, match="not now") as caught:
                ask()
            assert caught.value.status == status
        assert len(server.seen) == 1 + is_repeated


def test_what_the_server_cannot_have_is_sent_again_whatever_it_is(
    time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, sleep = FakeServer(ADDED), time.sleep

    def start(seconds: float) -> None:
        sleep(seconds)
        server.listen()

    monkeypatch.setattr(time, "sleep", start)
    try:
        with jobs_of(server) as jobs:
            assert jobs.add("mail", "x", unique="a") == "j1"
    finally:
        server.close()
    assert len(server.seen) == len(time.pauses) == 1


def test_a_server_that_is_away_is_asked_until_the_time_is_up(time: FakeTime) -> None:
    server = FakeServer(ADDED)  # it does not listen
    try:
        with pytest.raises(ServerUnreachable) as caught:
            jobs_of(server, timeout_s=20).add("mail", "x")
    finally:
        server.close()
    assert str(caught.value).startswith(f"{server.url} cannot be reached, does a daemon listen there? ")
    assert 10 < len(time.pauses) < 40
    assert 15 < sum(time.pauses) <= 20


def test_a_pause_is_as_long_as_the_server_asks_for(time: FakeTime) -> None:
    with fake_server(refused(503, Retry_After="7"), ADDED) as server, jobs_of(server) as jobs:
        assert jobs.add("mail", "x") == "j1"
    (pause_s,) = time.pauses
    assert 7 <= pause_s < 8


def test_one_that_would_be_too_long_is_not_made(time: FakeTime) -> None:
    with fake_server(refused(429, "quota_exceeded", Retry_After="60")) as server, jobs_of(server) as jobs:
        with pytest.raises(OverLimit, match=r"not now \(quota_exceeded\)") as caught:
            jobs.add("mail", "x")
        assert (caught.value.retry_after_s, len(server.seen), time.pauses) == (60, 1, [])


def test_pauses_grow_and_differ() -> None:
    assert [pause_after(failures, None, 1.0) for failures in (0, 1, 2, 3, 9, 5000)] == [0.1, 0.2, 0.4, 0.8, 2.0, 2.0]
    assert pause_after(0, None, 0.0) == 0.05
    assert pause_after(0, 3.0, 0.5) == 3.025


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, InvalidInput), (401, ClientError), (409, Conflict), (413, OverLimit), (422, InvalidInput)],
)
def test_what_is_refused_is_not_asked_again(time: FakeTime, status: int, kind: type[Exception]) -> None:
    with fake_server(refused(status)) as server, jobs_of(server) as jobs:
        with pytest.raises(kind, match="not now"):
            jobs.add("mail", "x")
        assert (len(server.seen), time.pauses) == (1, [])


def test_a_body_that_is_refused_before_it_has_arrived_is_told(time: FakeTime) -> None:
    with fake_server(refused(413)) as server, jobs_of(server) as jobs:
        server.is_deaf = True
        with pytest.raises(OverLimit, match="not now"):
            jobs.add("mail", b"x" * 50_000_000)
        assert (len(server.seen), time.pauses) == (1, [])


@pytest.mark.parametrize("step", [say(200, b"<html>"), say(200, b'{"ids": 7}'), say(302, b"", Location="/elsewhere")])
def test_an_answer_of_somebody_else_is_told(time: FakeTime, step: Step) -> None:
    with fake_server(step) as server, jobs_of(server) as jobs:
        with pytest.raises(ClientError, match="something else than its own JSON") as caught:
            jobs.add("mail", "x")
        assert (caught.value.error_code, len(server.seen)) == (UNREADABLE, 1)


def test_a_wait_asks_again_for_what_is_left_of_its_time(time: FakeTime) -> None:
    def after(seconds: float, then: Step) -> Step:
        def step(seen: Seen) -> Say | None:
            time.now_s += seconds
            return then(seen)

        return step

    with fake_server(after(30, still_runs), after(11, cut), after(3, a_job)) as server, jobs_of(server) as jobs:
        assert jobs.wait("a", timeout_s=50).is_over
        assert [seen.query["wait_s"] for seen in server.seen] == ["30.0", "20.0", "9.0"]
    with fake_server(after(5, still_runs)) as server, jobs_of(server) as jobs:
        with pytest.raises(NotEndedYet, match="job a of type x has not ended within 5 s: it is running") as caught:
            jobs.wait("a", timeout_s=5)
        assert caught.value.detail == {"id": "a", "state": "running"}


def test_threads_share_one(time: FakeTime) -> None:
    """All of them ask at the same time, and each gets its own answer."""
    many = 20
    together = threading.Barrier(many)

    def meet(seen: Seen) -> Say:
        together.wait(30)
        return a_job(seen)

    with fake_server(meet) as server, jobs_of(server) as jobs, ThreadPoolExecutor(many) as threads:
        for _ in range(3):
            names = [f"job{number}" for number in range(many)]
            assert [job.id for job in threads.map(jobs.get, names)] == names
        assert len({seen.connection for seen in server.seen}) < 3 * many, "some are kept"


def test_a_forked_process_has_connections_of_its_own() -> None:
    with fake_server(a_job) as server:
        command = (sys.executable, "-c", ONE_PROCESS, server.url)
        subprocess.run(command, env=clean_environ(), check=True, timeout=60)
        assert [(seen.path, seen.connection) for seen in server.seen] == [
            ("/acme/job/before", 1),
            ("/acme/job/child", 2),
            ("/acme/job/parent", 1),
        ]


def test_a_server_with_tls_must_be_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: FakeTime) -> None:
    text, context = certificate("localhost", tmp_path)
    server = FakeServer(a_job)
    server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
    server.listen()
    url = server.url.replace("http://127.0.0.1", "https://localhost")
    try:
        with pytest.raises(ServerUnreachable, match=f"{url}: its certificate is not trusted"):
            Jobs(url, key="k", tenant="acme").get("a")
        assert time.pauses == [], "that will not be better later"
        (tmp_path / "trusted.pem").write_text(text)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
        with Jobs(f"{url}/prefix/", key="k", tenant="acme") as jobs:
            assert [jobs.get(name).id for name in "ab"] == ["a", "b"]
    finally:
        server.close()
    assert [seen.path for seen in server.seen] == ["/prefix/acme/job/a", "/prefix/acme/job/b"]


def test_it_imports_nothing_heavy() -> None:
    code = f"import sys, functory.sync\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, check=True, env=clean_environ(), timeout=60
    )
    assert done.stdout == "[]\n"


def test_what_is_not_given_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "KEY", "TENANT"):
        monkeypatch.delenv(f"FUNCTORY_{name}", raising=False)
    with pytest.raises(InvalidInput, match=r"No key. Set FUNCTORY_KEY, or give key=."):
        Jobs()
    monkeypatch.setenv("FUNCTORY_KEY", "k")
    with pytest.raises(InvalidInput, match=r"No tenant. Set FUNCTORY_TENANT, or give tenant=."):
        Jobs()
    monkeypatch.setenv("FUNCTORY_TENANT", "acme")
    with fake_server(a_job) as server:
        monkeypatch.setenv("FUNCTORY_URL", server.url)
        with Jobs() as jobs:
            assert jobs.get("a").id == "a"
        assert server.seen[0].path == "/acme/job/a"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"url": "127.0.0.1:8484"}, "begins with http:// or https://"),
        ({"url": "ftp://host"}, "begins with http:// or https://"),
        ({"url": "http://me:secret@host"}, "no user and no password"),
        ({"url": "http://host/ui"}, "address of a page"),
        *(
            ({"url": url}, "is not the URL of a server")
            for url in ("http://", "http://h:x", "http://[::1", "http://a b")
        ),
        *(
            ({"url": url}, "is not the URL of a server")
            for url in ("http://a\n", "http://h/?a=1", "http://h/ä", "http://h:99999")
        ),
        ({"key": "a\r\nX: y"}, "the key has characters that no key has"),
        ({"key": "ä"}, "the key has characters that no key has"),
        *(({"tenant": name}, "is not the name of a tenant") for name in ("a/b", "..", "a b", "ä", "A\n")),
        *(({"timeout_s": wrong}, "timeout_s must be a number") for wrong in (-1, float("nan"), float("inf"), "5")),
    ],
)
def test_what_no_request_could_carry_is_refused_at_once(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        Jobs(**{"url": "http://127.0.0.1:1", "key": "k", "tenant": "acme", **wrong})


@pytest.mark.parametrize(
    ("arguments", "options", "told"),
    [
        (("bad type", 1), {}, "'bad type' is not a type"),
        (("mail", {1, 2}), {}, "the payload cannot be written as JSON"),
        (("mail", float("nan")), {}, "the payload cannot be written as JSON"),
        (("mail", "\ud800"), {}, "lone surrogate"),
        (("mail", 1), {"delay_s": -1}, "delay_s must be from 0"),
        (("mail", 1), {"unique": ""}, "unique is empty"),
        (("mail", 1), {"idempotency_key": "\ud800"}, "lone surrogate"),
    ],
)
def test_a_job_that_cannot_be_said_is_not_sent(arguments: Any, options: Any, told: str) -> None:
    with fake_server(ADDED) as server, jobs_of(server) as jobs:
        with pytest.raises(InvalidInput, match=told):
            jobs.add(*arguments, **options)
        assert server.seen == []
