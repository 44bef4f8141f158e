"""While any single hostile request or job runs, nobody waits for it.

Each act below is one request or one set of jobs of one tenant, made to keep the daemon busy. While it runs, `/healthz`
is asked again and again, and the event loop's steps are timed in processor time (`tests/support/loop_steps.py`).
"""

import asyncio
import gzip
import http.client
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.loop_steps import LoopSteps, pace, watched_steps
from tests.support.served_daemon import Client, served_daemon

LIMIT_S: Final = 0.1
"""The rule: no longer than this, for one step and for one answer of /healthz, in processor time."""
SLACK: Final = 5.0
"""For what changes while a test runs: on two cores with five times the work that they can do, the longest was three
times the limit. Attacks that this was written for took 8 s and more. A machine that is slow at the moment is given
more in proportion (`pace`)."""

MIB: Final = 1 << 20
JSON: Final = {"Content-Type": "application/json"}
NDJSON: Final = {"Content-Type": "application/x-ndjson"}


def packed(body: bytes, **headers: str) -> tuple[bytes, dict[str, str]]:
    return gzip.compress(body, 9), {"Content-Encoding": "gzip", **headers}


def many(element: bytes, size_bytes: int = 16 * MIB) -> bytes:
    """As an array of about this size."""
    return b"[" + b",".join([element] * ((size_bytes - 2) // (len(element) + 1))) + b"]"


def post(body: Callable[[], bytes], query: str = "", headers: dict[str, str] | None = None) -> Callable[[Client], None]:
    def act(client: Client) -> None:
        data, named = packed(body(), **(headers or {}))
        client.ask("POST", f"/acme/job/x/add{query}", data, named)

    return act


def ask(method: str, path: str, body: Callable[[], bytes]) -> Callable[[Client], None]:
    def act(client: Client) -> None:
        data, named = packed(body(), **JSON)
        client.ask(method, path, data, named)

    return act


def job(body: str, count: int = 1) -> Callable[[Client], None]:
    def act(client: Client) -> None:
        reply = client.run(body, b"x\n" * count)
        assert json.loads(reply.body)["state"] in {"archived", "deferred", "waiting"}, reply.body[:500]

    return act


def waited_for(body: str, count: int) -> Callable[[Client], None]:
    """Added and waited for in one request."""

    def act(client: Client) -> None:
        assert client.register(body).status < 300
        jobs = json.loads(client.add(b"x\n" * count, query="?wait_s=60").body)["jobs"]
        assert len(jobs) == count

    return act


def numbered(count: int, **more: str) -> bytes:
    """Jobs that differ in each of these fields."""
    return json.dumps(
        [{"payload": "x", **{name: f"{text}{number}" for name, text in more.items()}} for number in range(count)]
    ).encode()


def diff(before: str, after: str) -> Callable[[Client], None]:
    def act(client: Client) -> None:
        assert client.register(before).status < 300
        assert client.register(after).status < 300
        reply = client.ask("GET", "/ui/t/acme/type/x/version/2", None, {"Cookie": client.cookie})
        assert reply.status == 200
        assert b"removed" in reply.body

    return act


def repeated(count: int, *, among: bool) -> str:
    """A hundred lines again and again, alone or among lines that occur once: difflib takes half a minute for both."""
    lines = [f"a{number % 100}=1" for number in range(count)]
    if among:
        lines = [line for number, some in enumerate(lines[: count // 2]) for line in (some, f"b{number}=1")]
    return "\n".join(lines)


def taken(count: int, patterns: list[str]) -> Callable[[Client], None]:
    """By a worker, with patterns that are slow to compare, among types with names that are almost alike."""

    def act(client: Client) -> None:
        for number in range(count):
            name = f"{'a' * 100}{number}"
            assert client.register("", name, lang="worker").status < 300
            assert client.add(b"x", name).status == 200
        reply = client.ask("POST", "/acme/work/take", json.dumps({"types": patterns, "limit": 1000}).encode(), JSON)
        assert json.loads(reply.body)["jobs"]

    return act


def reported(what: dict[str, object]) -> Callable[[Client], None]:
    """As many jobs of a worker as one request may have, each with this."""

    def act(client: Client) -> None:
        assert client.register("", lang="worker").status < 300
        client.add(b"x\n" * 1000)
        order = json.dumps({"types": ["x"], "limit": 1000, "wait_s": 30}).encode()
        jobs = json.loads(client.ask("POST", "/acme/work/take", order, JSON).body)["jobs"]
        reports = [{"id": job["id"], "token": job["token"], **what} for job in jobs]
        data, named = packed(json.dumps({"reports": reports}).encode(), **JSON)
        reply = client.ask("POST", "/acme/work/report", data, named)
        assert reply.status == 200, reply.body[:500]

    return act


DEAR: Final = b"2.2250738585072011123456789e-308"
"""A number that takes the decoder a thousand times as long as others."""
DEAR_JOB: Final = b'{"type":"y","payload":0,"delay_s":1e-310}'
NAMES: Final = {f"a{number}": "b" for number in range(480_000)}
BIG_RESULT: Final = "return '\\x01' * (16 * 1024 * 1024 // 6 - 100)"
WIDE_RESULT: Final = "return 'ß' * 7_000_000"

ACTS: Final[dict[str, Callable[[Client], None]]] = {
    "tiny objects": post(lambda: many(b"{}"), headers=JSON),
    "tiny numbers": post(lambda: many(b"0"), headers=JSON),
    "tiny jobs": post(lambda: many(b'{"payload":0}'), headers=JSON),
    "as many jobs as may be": post(lambda: many(b'{"payload":0}', 14 * 100_000), headers=JSON),
    "as many as may be, large": post(lambda: many(b'{"payload":"%b"}' % (b"x" * 140), 158 * 99_000), headers=JSON),
    "jobs with options": post(lambda: many(b'{"payload":0,"delay_s":5,"priority":0}', 39 * 100_000), headers=JSON),
    "different options": post(lambda: numbered(100_000, dt="180000"), headers=JSON),
    "unique jobs": post(lambda: numbered(100_000, unique="u"), headers=JSON),
    "as many unique jobs as may be": post(lambda: numbered(1000, unique="u"), headers=JSON),
    "under a key": post(lambda: many(b'{"payload":0}', 14 * 100_000), "?idempotency_key=k", headers=JSON),
    "ndjson": post(lambda: b'{"payload":0}\n' * 100_000, headers=NDJSON),
    "ndjson, too many": post(lambda: b'{"payload":0}\n' * 1_100_000, headers=NDJSON),
    "ndjson, blank": post(lambda: b"\n" * (16 * MIB), headers=NDJSON),
    "ndjson, bad at the end": post(lambda: b'{"payload":0}\n' * 99_000 + b"{", headers=NDJSON),
    "deep payload": post(lambda: b'{"payload":' + b"[" * (8 * MIB - 10) + b"]" * (8 * MIB - 10) + b"}", headers=JSON),
    "wide payload": post(lambda: b'{"payload":' + many(b"[]", 16 * MIB - 20) + b"}", headers=JSON),
    "wide options": post(lambda: b'{"payload":0,"options":{"a":' + many(b"[]", 15 * MIB) + b"}}", headers=JSON),
    "dear numbers in options": post(
        lambda: b'{"payload":0,"options":{"a":' + many(DEAR, 14 * MIB) + b"}}", headers=JSON
    ),
    "dear numbers again and again": post(lambda: b'{"payload":0' + b',"delay_s":1e-310' * 480_000 + b"}", headers=JSON),
    "dear numbers of jobs": post(lambda: many(b'{"payload":0,"delay_s":1e-310,"dt":1e300}', 42 * 99_000), headers=JSON),
    "dear numbers of a job": post(lambda: many(b'{"payload":0' + b',"delay_s":1e-310' * 500 + b"}"), headers=JSON),
    "many options": post(lambda: b'{"payload":0,"options":' + json.dumps(NAMES).encode() + b"}", headers=JSON),
    "a long number": post(lambda: b'{"payload":0,"delay_s":' + b"9" * (15 * MIB) + b"}", headers=JSON),
    "blank payload": post(lambda: b'{"payload":[' + b" " * (16 * MIB - 20) + b"]}", headers=JSON),
    "escaped payload": post(lambda: b'{"payload":"' + b"\\u00e9" * (2 * MIB) + b'"}', headers=JSON),
    "blank lines": post(lambda: b"\n" * (16 * MIB)),
    "lines": post(lambda: b"x\n" * 100_000),
    "lines, as many and as large as may be": post(lambda: (b"x" * 150 + b"\n") * 100_000),
    "lines with options": post(lambda: b"x\n" * 100_000, "?delay_s=60&domain=d"),
    "lines that are no text": post(lambda: (b"\xff" * 100 + b"\n") * 100_000),
    "lines under a key": post(lambda: b"x\n" * 100_000, "?idempotency_key=k"),
    "lines with one name": post(lambda: b"x\n" * 100_000, "?unique=u"),
    "queue": ask("POST", "/jobber/queue", lambda: b'{"type":"x","payload":' + many(b"[]", 16 * MIB - 40) + b"}"),
    "invoke": ask("POST", "/acme/handler/x/invoke", lambda: b'{"payload":' + many(b"[]", 16 * MIB - 40) + b"}"),
    "handler": ask("PUT", "/acme/handler/x", lambda: b'{"lang":"sh","env":' + many(b"[]", 16 * MIB - 40) + b"}"),
    "dear numbers of a handler": ask("PUT", "/acme/handler/x", lambda: b'{"lock":' + many(DEAR, 14 * MIB) + b"}"),
    "handler with many names": ask("PUT", "/acme/handler/x", lambda: json.dumps({"lang": "sh", "env": NAMES}).encode()),
    "dear numbers of new jobs": ask("POST", "/acme/jobs", lambda: b'{"jobs":' + many(DEAR_JOB) + b"}"),
    "replay": ask("POST", "/acme/replay", lambda: b'{"codes":' + many(b'"ok"', 16 * MIB - 40) + b"}"),
    "a result of control characters": job(BIG_RESULT),
    "a wide result": job(WIDE_RESULT),
    "wide results that are waited for": waited_for(WIDE_RESULT, 3),
    "as many jobs on the straight way as may be": waited_for("return payload", 100),
    "errors of a long line": job("raise ValueError('x' * 8000)", 500),
    "errors of many frames": job("raise ValueError('x' + '\\nat y' * 2000)", 500),
    "slow patterns of a worker": taken(60, [f"*{'a' * 60}{number}" + "b" for number in range(19)] + ["*"]),
    "reports of a worker": reported({"outcome": "ok", "result": "x" * 10_000}),
    "new jobs of a worker": reported({"outcome": "ok", "new_jobs": [{"type": "y", "payload": "x"}] * 100}),
    "words of a worker": reported({"log": "x\n" * 3000, "progress": ["x"] * 300}),
    "many new jobs": job("for n in range(900): print('J: y|x')", 100),
    "a diff of few lines in many places": diff(repeated(4000, among=False), repeated(4000, among=True)),
    "a diff of nothing in common": diff(
        "\n".join(f"a{n}=1" for n in range(20_000)), "\n".join(f"b{n}=1" for n in range(20_000))
    ),
    "a diff of one long line": diff("a='" + "x" * 500_000 + "'", "a='" + "y" * 500_000 + "'"),
    "a diff of codes": diff("#" + "\x1b]" * 200_000, "##" + "\x1b[0;" * 100_000),
}


def keep_asking(port: int, steps: LoopSteps, is_over: threading.Event) -> list[float]:
    """How much the event loop did for others between each question and its answer."""
    waits: list[float] = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    while not is_over.is_set():
        before_s = steps.total_s
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        waits.append(steps.total_s - before_s)
    connection.close()
    return waits


@pytest.mark.parametrize("name", ACTS)
async def test_nobody_waits(tmp_path: Path, name: str) -> None:
    async with served_daemon(tmp_path) as served:
        client = await served.signed_in() if name.startswith("a diff") else served.client
        is_over = threading.Event()
        before = pace()
        with watched_steps() as steps:
            asking = asyncio.create_task(asyncio.to_thread(keep_asking, served.listener.port, steps, is_over))
            try:
                await asyncio.to_thread(ACTS[name], client)
            finally:
                is_over.set()
                waits = await asking
    limit_s = LIMIT_S * SLACK * max(before, pace())
    assert steps.longest_s <= limit_s, f"{steps.longest_s:.3f} s in {steps.longest}"
    assert max(waits) <= limit_s, f"/healthz waited for {max(waits):.3f} s of steps"
