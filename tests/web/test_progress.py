"""The steps of a request while packages are got: as events, to the client, on the command line and in the editor."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict

from functory.cli.main import main
from functory.cli.progress import StepLine
from functory.client import Client, ClientError
from functory.client.events import EventReader
from functory.web.http.answers import json_answer
from functory.web.http.edge import Edge
from functory.web.http.metrics import RequestCounts
from functory.web.http.progress import MOST_STEPS, STEP_CHARS, ProgressEvents, Steps, Work, wants_progress
from runner.errors import PackagesMissingError, PackagesRefusedError
from tests.support.pages import visitor
from tests.support.told_sandbox import ToldSandbox, packages
from tests.support.web import Site, open_site
from tests.support.wheels import asking_for

TEXT = asking_for("a", code="return 1")
ACCEPT = {"Accept": "text/event-stream"}
PUT = "/acme/handler/thumb?lang=python"

NO_REQUEST: Any = None

Events = list[tuple[str, Any]]


@pytest.fixture
def told() -> ToldSandbox:
    return ToldSandbox()


@pytest.fixture
async def site(tmp_path: Path, told: ToldSandbox) -> AsyncIterator[Site]:
    shelf = packages(told, tmp_path / "packages")
    async with open_site(tmp_path, packages=shelf) as running:
        yield running
    await shelf.close()


def events_in(body: bytes) -> Events:
    blocks = [block.split("\n") for block in body.decode().split("\n\n") if block.startswith("event: ")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


async def put(site: Site, text: str = TEXT, path: str = PUT, method: str = "PUT", **more: Any) -> Events:
    answer = await site.call(method, path, data=text.encode(), headers=ACCEPT, **more)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    assert answer.headers["X-Request-Id"]
    return events_in(answer.body)


class Stream:
    """A request whose events are read one by one."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self._events = EventReader(response.content.iter_any()).__aiter__()

    async def next(self) -> tuple[str, Any]:
        async with asyncio.timeout(30):
            name, data = await anext(self._events)
        return name, json.loads(data)


async def begin(site: Site, text: str = TEXT) -> Stream:
    headers = {**ACCEPT, "Authorization": f"Bearer {site.keys['acme']}"}
    return Stream(await site.session.put(site.url + PUT, data=text.encode(), headers=headers))


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not met():  # noqa: ASYNC110 (several tasks bring it about: no one event)
            await asyncio.sleep(0)


async def test_steps_come_while_it_waits_and_at_last_the_answer(site: Site, told: ToldSandbox) -> None:
    told.gate.clear()
    stream = await begin(site)
    assert await stream.next() == ("progress", "resolving")
    assert await stream.next() == ("progress", "installing")
    told.tell("fetched a")
    assert await stream.next() == ("progress", "fetched a")
    told.gate.set()
    name, last = await stream.next()
    assert (name, last["status"]) == ("done", 200)
    assert last["answer"] == (await site.get("/acme/handler/thumb")).json
    assert last["answer"]["packages"] == {"state": "ready", "text": ""}
    with pytest.raises(StopAsyncIteration):
        await stream.next()


@pytest.mark.parametrize(("method", "path"), [("PUT", PUT), ("POST", "/acme/handler/add/thumb/add?method=python")])
async def test_what_takes_no_time_has_one_event(site: Site, method: str, path: str) -> None:
    ((name, last),) = await put(site, "return 1", path, method)
    plain = await site.call(method, path, data=b"return 1")
    assert (name, last) == ("done", {"status": 200, "answer": plain.json})
    assert plain.headers["Content-Type"] == "application/json"


async def test_a_folder_has_steps_too(site: Site) -> None:
    import_a = {"Content-Type": "application/zip", **ACCEPT}
    answer = await site.call("PUT", "/acme/handler/thumb", data=b"no zip", headers=import_a)
    ((name, last),) = events_in(answer.body)
    assert (name, last["status"], last["error"]["code"]) == ("error", 422, "handler_invalid")


async def test_an_error_is_the_last_event_with_its_status(site: Site, told: ToldSandbox) -> None:
    told.trouble = PackagesRefusedError("only a==1 is available")
    *_, (name, last) = await put(site)
    plain = await site.call("PUT", PUT, data=TEXT.encode())
    assert (name, last) == ("error", {"status": 422, **plain.json})
    told.trouble = PackagesMissingError("the index does not answer")
    *_, (_, last) = await put(site, TEXT + " ")
    assert (last["status"], last["error"]["code"], last["retry_after_s"] > 0) == (503, "packages_unavailable", True)
    ((_, last),) = await put(site, "syntax error")
    assert last["error"]["detail"] == {"field": "body", "line": 3, "column": 7}
    assert (await site.get("/acme/handler/thumb")).status == 404


async def test_what_is_refused_before_the_work_begins_is_a_plain_answer(site: Site) -> None:
    assert (await site.call("PUT", PUT, data=b"x", headers=ACCEPT, key=None)).status == 401
    assert (await site.call("PUT", PUT, data=b"x", headers=ACCEPT, key="other")).status == 403
    assert (await site.call("PUT", f"{PUT}&nonsense=1", data=b"x", headers=ACCEPT)).status == 422


async def test_a_client_that_leaves_ends_nothing(site: Site, told: ToldSandbox) -> None:
    told.gate.clear()
    stream = await begin(site)
    assert await stream.next() == ("progress", "resolving")
    stream.response.close()
    await until(lambda: told.now > 0)
    told.gate.set()
    async with asyncio.timeout(30):
        while (await site.get("/acme/handler/thumb")).status != 200:
            pass


async def test_work_goes_on_when_its_stream_has_ended() -> None:
    gate, ended = asyncio.Event(), asyncio.Event()

    async def work(tell: Callable[[str], None]) -> web.StreamResponse:
        tell("first")
        await gate.wait()
        ended.set()
        return json_answer({})

    events = ProgressEvents(NO_REQUEST, "acme", Edge(RequestCounts())).of(work)
    await anext(events)
    leaving = asyncio.create_task(events.aclose())
    await asyncio.wait([leaving], timeout=0)
    gate.set()
    await leaving
    assert ended.is_set()


async def test_a_try_that_nobody_waits_for_is_ended(site: Site) -> None:
    site.trial_runs.is_stuck = True
    headers = {**ACCEPT, "Authorization": f"Bearer {site.keys['acme']}"}
    body = {"payload": "x", "handler": {"lang": "python", "body": TEXT}}
    response = await site.session.post(f"{site.url}/acme/handler/thumb/invoke", json=body, headers=headers)
    async with asyncio.timeout(30):
        await site.trial_runs.started.wait()
        response.close()
        await site.trial_runs.cancelled.wait()


@pytest.mark.parametrize("times", [1, 70_000])
async def test_a_try_ends_with_its_result_however_large(site: Site, times: int) -> None:
    payload = "\n\x01é" * times
    async with Client(site.url, site.keys["acme"], "acme") as acme:
        steps: list[str] = []
        handler = {"lang": "python", "body": TEXT}
        streamed = await acme.invoke("thumb", payload, handler=handler, tell=steps.append)
        assert streamed.result == f"echo {payload}"
        assert streamed == await acme.invoke("thumb", payload, handler=handler)
        assert set(steps) <= {"resolving", "installing", "running"}


async def test_the_client_hears_the_steps_and_raises_what_was_refused(site: Site, told: ToldSandbox) -> None:
    steps: list[str] = []
    told.gate.clear()

    def tell(step: str) -> None:
        steps.append(step)
        if step == "installing":
            told.gate.set()

    async with Client(site.url, site.keys["acme"], "acme") as acme:
        handler = await acme.put_handler("thumb", "python", TEXT, tell=tell)
        assert handler == await acme.get_handler("thumb")
        assert steps == ["resolving", "installing"]
        told.trouble = PackagesMissingError("the index does not answer")
        with pytest.raises(ClientError, match="the index does not answer") as refused:
            await acme.put_handler("thumb", "python", TEXT, upgrade=True, tell=tell)
        assert (refused.value.status, refused.value.error_code) == (503, "packages_unavailable")
        assert refused.value.retry_after_s


async def test_one_key_has_only_so_many_streams_and_they_are_given_back(site: Site, told: ToldSandbox) -> None:
    told.gate.clear()
    site.trial_runs.is_stuck = True
    body = {"payload": "x", "handler": {"lang": "python", "body": "return 1"}}
    headers = {**ACCEPT, "Authorization": f"Bearer {site.keys['acme']}"}
    path = f"{site.url}/acme/handler/thumb/invoke"
    streams = [await site.session.post(path, json=body, headers=headers) for _ in range(20)]
    assert {stream.status for stream in streams} == {200}
    refused = await site.post("/acme/handler/thumb/invoke", json=body, headers=ACCEPT)
    assert (refused.status, refused.code) == (503, "not_ready_yet")
    either = {"Accept": "text/event-stream, application/json"}
    plain = await site.call("PUT", PUT, data=b"return 1", headers=either)
    assert (plain.status, plain.json["version"]) == (200, 1), "who takes both gets what there is"
    async with Client(site.url, site.keys["acme"], "acme") as acme:
        assert (await acme.put_handler("thumb", "python", "return 2", tell=print)).version == 2
    for stream in streams:
        stream.close()
    site.trial_runs.is_stuck = False
    async with asyncio.timeout(30):
        while (await site.post("/acme/handler/thumb/invoke", json=body, headers=ACCEPT)).status == 503:
            pass


async def sent_by(work: Work, gap_s: float, read: Callable[[], None]) -> list[Any]:
    """The events of a request that does this; `read` is called for each of them."""
    sent = []
    async for event in ProgressEvents(NO_REQUEST, "acme", Edge(RequestCounts()), gap_s=gap_s).of(work):
        sent.append(event)
        read()
    return [event for event in sent if event]


async def test_steps_are_bounded_in_number() -> None:
    was_read = asyncio.Event()

    async def work(tell: Callable[[str], None]) -> web.StreamResponse:
        for number in range(MOST_STEPS + 50):
            was_read.clear()
            tell(f"step {number}")
            await was_read.wait()
        return json_answer({})

    assert len(await sent_by(work, 0, was_read.set)) == MOST_STEPS + 1


async def test_steps_are_bounded_in_rate() -> None:
    was_read = asyncio.Event()

    async def work(tell: Callable[[str], None]) -> web.StreamResponse:
        tell("first")
        await was_read.wait()
        for number in range(50):
            tell(f"step {number}")
            await asyncio.sleep(0)
        return json_answer({})

    first, last = await sent_by(work, 3600, was_read.set)
    assert (events_in(first), events_in(last)) == (
        [("progress", "first")],
        [("done", {"status": 200, "answer": {}})],
    )


async def test_a_slow_reader_has_the_last_step_and_none_is_long() -> None:
    steps = Steps()
    for number in range(10_000):
        steps.tell(f"{number} " + "x" * 1000)
    last = await steps.next(30)
    assert last.startswith("9999 ")
    assert len(last) == STEP_CHARS
    steps.tell(f"9999 {'x' * 1000}")
    assert await steps.next(0) == "", "the same step again is none"


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("text/event-stream", True),
        ("application/json, Text/Event-Stream;q=0.9", True),
        ("*/*", False),
        ("application/json", False),
        ("text/event-streams", False),
        ("", False),
    ],
)
def test_only_who_says_so_gets_events(accept: str, *, wanted: bool) -> None:
    request: Any = type("Request", (), {"headers": CIMultiDict(Accept=accept)})
    assert wants_progress(request) is wanted


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_events_are_read_however_they_are_cut(size: int) -> None:
    said = b': hello\n\nevent: progress\ndata: "a"\n\n: still here\n\nevent: done\ndata: {"b": 1}\n\n'

    async def parts() -> AsyncIterator[bytes]:
        for at in range(0, len(said), size):
            yield said[at : at + size]

    assert [tuple(event) async for event in EventReader(parts())] == [("progress", b'"a"'), ("done", b'{"b": 1}')]


# The command line


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_last_step_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "20")
    with StepLine() as line:
        line.show("resolving")
        line.show("fetched \x1b[2Ja-package-with-a-long-name")
    assert screen.getvalue() == "\r\x1b[Kresolving\r\x1b[Kfetched [2Ja-packag\r\x1b[K"


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("command", ["put", "deploy", "invoke"])
async def test_commands_draw_steps_on_a_terminal_only(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, *, is_terminal: bool
) -> None:
    folder = tmp_path / "thumb"
    await asyncio.to_thread(folder.mkdir)
    await asyncio.to_thread((folder / "main.py").write_text, TEXT)
    screen = Screen() if is_terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    for name, value in {"URL": site.url, "TENANT": "acme", "KEY": site.keys["acme"]}.items():
        monkeypatch.setenv(f"FUNCTORY_{name}", value)
    words = {
        "put": ["handler", "put", "thumb", str(folder / "main.py")],
        "deploy": ["deploy", str(folder)],
        "invoke": ["handler", "invoke", "thumb", "--file", str(folder / "main.py")],
    }
    assert await asyncio.to_thread(main, words[command]) == 0
    drawn = screen.getvalue()
    if is_terminal:
        assert drawn.startswith("\r\x1b[Kresolving\r\x1b[K")
        assert drawn.endswith("\r\x1b[K")
    else:
        assert drawn == ""


# The editor


async def test_the_editor_has_the_steps_and_then_the_page_or_where_to_go(site: Site, told: ToldSandbox) -> None:
    form = {"lang": "python", "body": TEXT, "payload": "p", "more": "{}"}
    edit = "/ui/t/acme/type/thumb/edit"
    async with visitor(site, "acme") as acme:
        *steps, (name, tried) = events_in((await acme.post(edit, {**form, "do": "try"}, **ACCEPT)).text.encode())
        assert steps[0] == ("progress", "resolving")
        assert (name, tried["status"]) == ("done", 200)
        assert "echo p" in tried["answer"]["html"]
        *_, (name, wrong) = events_in(
            (await acme.post(edit, {**form, "body": "syntax error", "do": "save"}, **ACCEPT)).text.encode()
        )
        assert (name, wrong["status"]) == ("done", 422)
        assert "Line 3, column 7" in wrong["answer"]["html"]
        *_, (name, saved) = events_in((await acme.post(edit, {**form, "do": "save"}, **ACCEPT)).text.encode())
        assert (name, saved) == ("done", {"status": 303, "answer": {"location": "/ui/t/acme/type/thumb?note=saved"}})
        site.trial_runs.refusal = RuntimeError("a defect")
        *_, (name, broken) = events_in(
            (await acme.post(edit, {**form, "body": "return 2", "do": "save"}, **ACCEPT)).text.encode()
        )
        assert (name, broken["status"]) == ("error", 500)
        assert "a defect" not in broken["html"]
        assert "the log has it" in broken["html"]
        no_token = await acme.post(edit, {**form, "do": "save", "token": "x"}, **ACCEPT)
        assert no_token.status == 403
    assert told.resolved == ["acme"]
