"""The http engine against a real server on this machine, which the operator has allowed."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from aiohttp import web

from handlers.model import Handler
from runner.http_engine import after_ms
from runner.limits import ContextLimits
from runner.outcome import Stopped
from runner.plain import PlainLauncher
from runner.runner import Runner, RunnerSettings
from tests.support.engines import Run, jobs, run
from tests.support.http_target import Target, open_target
from vocabulary.new_job import NewJob

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1"))


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    async with open_target() as made:
        yield made


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    limits = replace(ContextLimits(), result_bytes=100_000)
    made = Runner(PlainLauncher(), RunnerSettings(limits=limits, http_allowed=LOOPBACK))
    yield made
    await made.close()


async def call(runner: Runner, target: Target, *payloads: bytes | str, **more: float) -> Run:
    return await run(runner, Handler("http", target.url, **more), jobs(*payloads))  # type: ignore[arg-type]


async def test_a_batch_is_one_post_and_one_line_per_job(runner: Runner, target: Target) -> None:
    target.says('200 {"a":1}\n100\n404 no such thing\n')
    seen = await call(runner, target, "one", "two", "three")
    assert target.bodies == [b"one\ntwo\nthree\n"]
    assert [(one.code, one.exitcode, one.result) for one in seen.stopped] == [
        ("ok", 200, b'{"a":1}'),
        ("retry", 100, b""),
        ("failed", 404, b"no such thing"),
    ]
    assert target.headers[0]["Functory-Type"] == "test"
    assert target.headers[0]["Functory-Jobs"] == "3"


async def test_a_bad_line_spoils_its_job_and_all_after_it(runner: Runner, target: Target) -> None:
    """Nobody knows which job the line was meant for: a guess would give a job its neighbour's status."""
    target.says("200\nrubbish\r\n200 fine\r\n")
    seen = await call(runner, target, "a", "b", "c")
    assert seen.exitcodes == [200, 500, 500]
    assert b"not a status line: 'rubbish'" in seen.results[1]
    assert b"an earlier line" in seen.results[2]
    target.says("200\nJ: no separator\n404\n201\n")
    assert (await call(runner, target, "a", "b", "c")).exitcodes == [200, 500, 500]


async def test_comments_and_blank_lines_belong_to_no_job(runner: Runner, target: Target) -> None:
    target.says("# a comment\n200\n#\n404\n\n201")
    assert (await call(runner, target, "a", "b", "c")).exitcodes == [200, 404, 201]
    target.says("# a comment\n404 no\n")
    assert (await call(runner, target, "a")).exitcodes == [404]


@pytest.mark.parametrize(
    ("answer", "new_jobs"),
    [
        ("404 no\n", 0),
        ("\n404 no\n", 0),
        ("\r\n404 no\r\n\r\n", 0),
        ("J: mail|x\n\n# why\n404 no\n", 1),
        ("404 no\n# trace 17\n\n", 0),
        ("C: x\r\n404 no\r\n# trace 17\r\n", 0),
    ],
)
async def test_an_answer_means_the_same_for_one_job_as_for_several(
    runner: Runner, target: Target, answer: str, new_jobs: int
) -> None:
    for count in (1, 2):
        target.says(answer * count)
        seen = await call(runner, target, *"ab"[:count])
        assert (seen.exitcodes, seen.results) == ([404] * count, [b"no"] * count)
        assert [len(one.new_jobs) for one in seen.stopped] == [new_jobs] * count


@pytest.mark.parametrize("answer", ["404 no\nbut more of it\n", "\nsome\n404 text", "# a heading\n", "200 a\n200 b\n"])
async def test_a_text_that_is_no_status_line_is_the_result_of_one_job(
    runner: Runner, target: Target, answer: str
) -> None:
    target.says(answer)
    seen = await call(runner, target, "a")
    assert (seen.exitcodes, seen.results) == ([200], [answer.encode()])


async def test_missing_lines_are_errors_and_extra_ones_are_ignored(runner: Runner, target: Target) -> None:
    target.says("200\n")
    assert (await call(runner, target, "a", "b", "c")).exitcodes == [200, 500, 500]
    target.says("200\n201\n202\n")
    assert (await call(runner, target, "a", "b")).exitcodes == [200, 201]


@pytest.mark.parametrize("status", [200, 204, 400, 404, 500, 503])
async def test_a_batch_of_one_takes_the_http_status_itself(runner: Runner, target: Target, status: int) -> None:
    target.says("" if status == 204 else "some text", status)
    seen = await call(runner, target, "a")
    assert seen.exitcodes == [status]
    assert seen.results == [b"" if status == 204 else b"some text"]


async def test_a_status_line_for_one_job_counts_too(runner: Runner, target: Target) -> None:
    target.says("J: mail|hello\n403 no\n")
    seen = await call(runner, target, "a")
    assert (seen.exitcodes, seen.results) == ([403], [b"no"])
    assert seen.stopped[0].new_jobs == (NewJob("mail", b"hello"),)


async def test_new_jobs_belong_to_the_job_whose_line_follows(runner: Runner, target: Target) -> None:
    target.says("200\nJ: mail|one\n#J: mail|two\n200\n")
    seen = await call(runner, target, "a", "b")
    assert [one.new_jobs for one in seen.stopped] == [(), (NewJob("mail", b"one"), NewJob("mail", b"two"))]


async def test_an_answer_makes_no_jobs_if_its_handler_prints_none(runner: Runner, target: Target) -> None:
    target.says("J: mail|x\n#J: mail|y\nJ: nonsense\n200 a\n201 b\n")
    made = Handler("http", target.url, options={"printed_jobs": 0})
    stopped = (await run(runner, made, jobs("x", "y"))).stopped
    assert [(one.exitcode, one.new_jobs) for one in stopped] == [(200, ()), (201, ())]


async def test_an_error_answer_is_the_status_of_every_job(runner: Runner, target: Target) -> None:
    target.says("gone away", 503)
    assert (await call(runner, target, "a", "b")).exitcodes == [503, 503]


async def test_too_many_requests_asks_to_come_again(runner: Runner, target: Target) -> None:
    target.says("", 429, **{"Retry-After": "7"})
    seen = await call(runner, target, "a", "b")
    assert [(one.code, one.retry_after_ms) for one in seen.stopped] == [("retry", 7000)] * 2


@pytest.mark.parametrize(
    ("text", "wanted_ms"),
    [
        ("120", 120_000),
        ("9999999", 2**31),
        ("99999999", None),
        ("Sun, 06 Nov 1994 08:51:37 GMT", 120_000),
        ("Sunday, 06-Nov-94 08:51:37 GMT", 120_000),
        ("Sun Nov  6 08:51:37 1994", 120_000),
        ("Sun, 06 Nov 1994 08:49:36 GMT", 0),
        ("Sun, 06 Nov 9994 08:49:37 GMT", 2**31),
        ("Sun, 36 Nov 1994 08:49:36 GMT", None),
        ("soon", None),
        ("", None),
    ],
)
async def test_retry_after_is_a_number_of_seconds_or_a_date(text: str, wanted_ms: int | None) -> None:
    now_s = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT
    assert after_ms({"retry-after": text}, now_s) == wanted_ms


async def test_a_date_to_come_again_at_is_kept_to(runner: Runner, target: Target) -> None:
    target.says("", 429, **{"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"})
    seen = await call(runner, target, "a")
    assert [(one.code, one.retry_after_ms) for one in seen.stopped] == [("retry", 2**31)]


async def test_a_payload_with_a_newline_goes_alone(runner: Runner, target: Target) -> None:
    target.says("200\n200\n")
    seen = await call(runner, target, "a", "two\nlines", "b")
    assert target.bodies == [b"a\nb\n", b"two\nlines\n"]
    assert sorted(seen.exitcodes) == [200, 200, 200]


async def test_too_big_an_answer(runner: Runner, target: Target) -> None:
    target.says(b"x" * 200_000)
    assert (await call(runner, target, "a")).exitcodes == [413]


async def test_timeout(runner: Runner, target: Target) -> None:
    release = asyncio.Event()

    async def never(_request: web.Request, _body: bytes) -> web.Response:
        await release.wait()
        return web.Response()

    target.answer = never
    seen = await call(runner, target, "a", timeout_s=0.2)
    release.set()
    assert seen.exitcodes == [504]


async def test_nobody_there(runner: Runner, target: Target) -> None:
    seen = await run(runner, Handler("http", "http://127.0.0.1:9/"), jobs("a", "b"))
    assert seen.exitcodes == [502, 502]
    assert b"could not be called" in seen.results[0]


async def test_redirects_are_followed_and_counted(runner: Runner, target: Target) -> None:
    async def once(request: web.Request, _body: bytes) -> web.Response:
        if request.path == "/jobs":
            return web.Response(status=307, headers={"Location": "/moved"})
        return web.Response(text="200 moved\n")

    target.answer = once
    assert (await call(runner, target, "a")).results == [b"moved"]
    target.says("", 307, Location="/jobs")
    assert (await call(runner, target, "a")).exitcodes == [502]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_posts_the_jobs_again(runner: Runner, target: Target, status: int) -> None:
    """Also where a browser would make a GET of it."""
    posted = []

    async def answer(request: web.Request, body: bytes) -> web.Response:
        posted.append((request.method, request.path, body))
        if request.path == "/jobs":
            return web.Response(status=status, headers={"Location": "/elsewhere"})
        return web.Response(text="201 moved\n")

    target.answer = answer
    seen = await call(runner, target, "a")
    assert (seen.exitcodes, seen.results) == ([201], [b"moved"])
    assert posted == [("POST", "/jobs", b"a\n"), ("POST", "/elsewhere", b"a\n")]


async def test_a_redirect_to_a_page_is_not_followed(runner: Runner, target: Target) -> None:
    target.says("200\n", 303, Location="/elsewhere")
    seen = await call(runner, target, "a")
    assert (seen.exitcodes, len(target.bodies)) == ([500], 1)


async def test_a_redirect_with_an_account_in_it_is_refused(runner: Runner, target: Target) -> None:
    target.says("200\n", 307, Location=target.url.replace("://", "://name:password@"))
    seen = await call(runner, target, "a")
    assert (seen.exitcodes, len(target.bodies)) == ([403], 1)


async def test_cookies_are_forgotten(runner: Runner, target: Target) -> None:
    """All tenants share a client."""
    target.says("200\n", 200, **{"Set-Cookie": "session=acme; Path=/"})
    for _ in range(2):
        assert (await call(runner, target, "a")).exitcodes == [200]
    assert [headers.get("Cookie") for headers in target.headers] == [None, None]


async def test_no_proxy_of_the_daemons_environment_is_used(
    runner: Runner, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would call what the rules on addresses refuse."""
    target.says("200\n")
    monkeypatch.setenv("http_proxy", target.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    seen = await run(runner, Handler("http", "http://127.0.0.1:1/"), jobs("a"))
    assert (seen.exitcodes, target.bodies) == ([502], [])


async def test_an_answer_carries_data_on(runner: Runner, target: Target) -> None:
    target.says('C: {"last": 17}\n200 one\n200 two\n')
    seen = await run(runner, Handler("http", target.url), jobs("a", "b"))
    assert [(one.result, one.carried) for one in seen.stopped] == [(b"one", b'{"last": 17}'), (b"two", None)]


@pytest.mark.parametrize("payloads", [("a",), ("a", "b")])
async def test_a_cancelled_job_breaks_off_a_post_that_it_does_not_share(
    runner: Runner, target: Target, payloads: tuple[str, ...]
) -> None:
    batch = jobs(*payloads)
    arrived, may_answer = asyncio.Event(), asyncio.Event()

    async def answer(_request: web.Request, _body: bytes) -> web.Response:
        arrived.set()
        await may_answer.wait()
        return web.Response(text="200\n200\n")

    target.answer = answer
    seen = Run()
    running = asyncio.create_task(runner.run_jobs("acme-test", batch, Handler("http", target.url), seen.hear))
    await arrived.wait()
    was_asked = runner.cancel("acme", batch[0].id)
    assert was_asked == (len(payloads) == 1)
    if was_asked:
        await running
        may_answer.set()
    else:
        may_answer.set()
        await running
    assert [one.code for one in seen.stopped] == ["cancelled", "ok"][: len(payloads)]


async def test_a_job_that_is_cancelled_before_its_own_post_is_not_posted(runner: Runner, target: Target) -> None:
    """It was posted and then reported as cancelled; and the post of one of several could not be broken off."""
    first, second, third, fourth = batch = jobs("a\n1", "b\n2", "c\n3", "d\n4")
    arrived, may_answer = asyncio.Semaphore(0), asyncio.Event()

    async def answer(_request: web.Request, body: bytes) -> web.Response:
        arrived.release()
        if body.startswith(b"c"):
            await may_answer.wait()
        return web.Response(text="200")

    target.answer = answer
    seen = Run()

    def hear(stopped: Sequence[Stopped]) -> None:
        if not seen.stopped:
            assert not runner.cancel("acme", second.id)
        seen.hear(stopped)

    running = asyncio.create_task(runner.run_jobs("acme-test", batch, Handler("http", target.url), hear))
    for _ in (first, third):
        await arrived.acquire()
    assert runner.cancel("acme", third.id)
    await running
    may_answer.set()
    assert [(one.id, one.code) for one in seen.stopped] == [
        (first.id, "ok"),
        (second.id, "cancelled"),
        (third.id, "cancelled"),
        (fourth.id, "ok"),
    ]
    assert target.bodies == [b"a\n1\n", b"c\n3\n", b"d\n4\n"]


async def test_nothing_is_posted_for_jobs_that_may_not_start(runner: Runner, target: Target) -> None:
    """Their lease has lapsed, and another daemon may have them."""
    target.says("200\n200\n")
    heard: list[object] = []
    batch = jobs("one", "two")
    handler = Handler("http", target.url)
    given_back = await runner.run_jobs("acme-test", batch, handler, heard.extend, lambda: False)
    assert (given_back, heard, target.bodies) == ([job.id for job in batch], [], [])
