"""The command line against the service: what comes from files, arguments and standard input, whatever is in it."""

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from functory.cli.arguments import per_second
from functory.cli.main import main
from functory.vault.vault import Vault
from functory.wire.base import from_wire
from tests.support.command_line import clean_environ
from tests.support.terminal import Terminal, at_terminal, given_input
from tests.support.web import Site

ODD = b"a\xffb"


async def payload_of(site: Site, job_id: str) -> bytes:
    job = (await site.get(f"/acme/job/{job_id}")).json
    return from_wire(job["payload"], job["payload_encoding"])


async def test_payloads_are_bytes_wherever_they_come_from(site: Site, terminal: Terminal) -> None:
    await site.call("PUT", "/acme/handler/thumb?lang=sh", data=b"cat")
    async with given_input(ODD + b"\n"):
        job_id = (await terminal.run("job", "add", "thumb")).strip()
    assert await payload_of(site, job_id) == ODD
    job_id = (await terminal.run("job", "add", "thumb", os.fsdecode(ODD))).strip()
    assert await payload_of(site, job_id) == ODD
    await site.intake.flush()
    await terminal.run("job", "update", job_id, os.fsdecode(b"\xfe"))
    assert await payload_of(site, job_id) == b"\xfe"


async def test_input_that_is_no_text_is_said_to_be_so(terminal: Terminal, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    await asyncio.to_thread(odd.write_bytes, ODD)
    assert "are not JSON" in await terminal.run("job", "create", str(odd), status=2)
    assert "odd is not UTF-8 text" in await terminal.run("secret", "set", "A", "--file", str(odd), status=2)
    assert "odd is not UTF-8 text" in await terminal.run("job", "list", "--key-file", str(odd), status=2)
    assert "the key has characters" in await terminal.run("job", "list", "--key", "a\nb", status=2)
    assert "no password" in await terminal.run("job", "list", "--url", "http://a:b@127.0.0.1:1", status=2)
    for url in ("127.0.0.1:1", "localhost:1", "ftp://127.0.0.1:1"):
        assert "begins with http:// or https://" in await terminal.run("job", "list", "--url", url, status=2)
    assert "leave out what follows" in await terminal.run("job", "list", "--url", "http://127.0.0.1:1/ui/", status=2)
    for deep in (900, 100_000):
        text = f'{{"type": "thumb", "options": {"[" * deep}{"]" * deep}}}'
        async with given_input(text.encode()):
            await terminal.run("job", "create", status=2)


async def test_a_folder_and_a_module_are_no_handler_in_one_file(terminal: Terminal, tmp_path: Path) -> None:
    folder, file = tmp_path / "greeter", tmp_path / "greet.mjs"
    await asyncio.to_thread(folder.mkdir)
    await asyncio.to_thread(file.touch)
    for more in ((), ("--lang", "python")):
        for command in (("handler", "put", "greet"), ("invoke",)):
            told = await terminal.run(*command, str(folder), *more, status=2)
            assert "greeter is a folder: `functory test` runs it here, `functory deploy` registers it" in told
    assert "make a folder with main.mjs" in await terminal.run("handler", "put", "greet", str(file), status=2)


async def test_a_folder_that_does_not_exist_is_a_missing_file(terminal: Terminal, tmp_path: Path) -> None:
    for command in ("deploy", "test", "dev"):
        assert "there is no folder" in await terminal.run(command, str(tmp_path / "greeeter"), status=8)
    await asyncio.to_thread((tmp_path / "file").touch)
    assert "is not a folder" in await terminal.run("deploy", str(tmp_path / "file"), status=2)


async def test_a_folder_whose_name_is_no_type_is_told_of_the_flag(terminal: Terminal, tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "my greeter").mkdir)
    await asyncio.to_thread((tmp_path / "my greeter" / "main.py").write_text, "return 1")
    assert "Name one with --type." in await terminal.run("deploy", str(tmp_path / "my greeter"), status=2)


async def test_a_result_that_goes_to_a_type_without_a_handler_is_told(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "thumb.py"
    await asyncio.to_thread(file.write_text, "return 1")
    put = ("handler", "put", "thumb", str(file), "--then", "thumb", "--on-failure")
    told = await terminal.run(*put, "typpo")
    assert told.splitlines()[1:] == ["Type typpo has no handler yet: jobs that are made for it wait until it has one."]
    assert "has no handler yet" not in await terminal.run(*put, "thumb")


async def test_settings_that_are_not_said_again_stay_and_are_named(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "thumb.py"
    await asyncio.to_thread(file.write_text, "return 1")
    first = await terminal.run("handler", "put", "thumb", str(file), "--timeout-s", "20", "--option", "max_attempts=3")
    assert first == "thumb: version 1 is active\n"
    await asyncio.to_thread(file.write_text, "return 2")
    again = await terminal.run("handler", "put", "thumb", str(file), "--timeout-s", "30")
    assert again == "thumb: version 2 is active (as before: options)\n"
    shown = json.loads(await terminal.run("handler", "get", "thumb", "--json"))["handler"]
    assert (shown["body"], shown["timeout_s"], shown["options"]) == ("return 2", 30.0, {"max_attempts": 3})
    assert await terminal.run("handler", "put", "thumb", str(file), "--reset") == "thumb: version 3 is active\n"
    shown = json.loads(await terminal.run("handler", "get", "thumb", "--json"))["handler"]
    assert (shown["timeout_s"], shown["options"]) == (60.0, {})


async def test_a_handler_that_is_saved_and_put_again_is_the_same_version(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    for body in ("return payload", "return payload\n", "\nreturn 'ä'\n\n"):
        await asyncio.to_thread(file.write_text, body)
        first = await terminal.run("handler", "put", "thumb", str(file))
        saved = await terminal.run("handler", "get", "thumb")
        assert saved == body
        await asyncio.to_thread(file.write_text, saved)
        assert await terminal.run("handler", "put", "thumb", str(file)) == first


def test_a_module_that_cannot_be_one_is_said_to_be_so(capsys: pytest.CaptureFixture[str]) -> None:
    for name in (":x", "..x", ".:x"):
        assert main(["worker", name]) == 2
        assert "is not MODULE:NAME" in capsys.readouterr().err


async def test_jobs_of_a_file_may_have_any_character(site: Site, terminal: Terminal) -> None:
    jobs = [{"type": "thumb", "payload": f"a{mark}b"} for mark in "\u2028\u2029\x85 "]
    async with given_input("\n".join(json.dumps(job, ensure_ascii=False) for job in jobs).encode()):
        ids = (await terminal.run("job", "create")).split()
    assert [(await payload_of(site, job_id)).decode() for job_id in ids] == [job["payload"] for job in jobs]


async def test_a_job_that_is_taken_is_one_line(site: Site, terminal: Terminal) -> None:
    await site.call("PUT", "/acme/handler/thumb", json={"lang": "worker", "body": ""})
    await site.post("/acme/job/thumb/add", json=[{"payload": "one\ntwo"}])
    await site.intake.flush()
    lines = (await terminal.run("work", "take", "thumb")).splitlines()
    assert (len(lines), "one\\ntwo" in lines[-1]) == (3, True), "the names of the columns, a rule, and the job"


async def test_a_name_that_may_be_mistyped_is_told(site: Site, terminal: Terminal) -> None:
    await site.call("PUT", "/acme/handler/thumb", json={"lang": "worker"})
    assert "Type thmb has no handler: is its name right?" in await terminal.run("type", "pause", "thmb")
    assert "no handler" not in await terminal.run("type", "pause", "thumb")
    told = await terminal.run("job", "list", "--tenant", "acne", status=3)
    assert "'acne' is not the tenant of the key, which is acme" in told


async def test_what_a_run_before_left_is_labelled(site: Site, terminal: Terminal) -> None:
    (job_id,) = await site.add("x")
    await site.run()
    ended = await terminal.run("job", "get", job_id)
    assert "log:" not in await terminal.run("job", "retry", job_id), "what holds now"
    again = await terminal.run("job", "get", job_id)
    for name in ("code", "started", "ended", "took", "log:"):
        assert any(line.startswith(name) for line in ended.splitlines())
        assert any(line.startswith(f"last {name}") for line in again.splitlines())
        assert not any(line.startswith(name) for line in again.splitlines())


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_what_was_added_before_an_error_is_told(site: Site, terminal: Terminal) -> None:
    async with given_input(b"\n".join([b"good"] * 1000 + [b"x" * 2_000_000])):
        shown = await terminal.run("job", "add", "thumb", status=6)
    assert "already added: 1,000 jobs. Every id is printed." in shown
    ids = await site.run(2000)
    assert len(ids) == 1000
    assert set(ids) < set(shown.split())


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_payloads_that_are_too_large_for_one_request_go_in_several(
    site: Site, terminal: Terminal, tmp_path: Path
) -> None:
    async with given_input(b"\n".join([b"x" * 900_000] * 20)):
        await terminal.run("job", "add", "thumb")
    file = tmp_path / "lines"
    await asyncio.to_thread(file.write_bytes, b"x\n" * 450_000)
    await terminal.run("job", "add", "thumb", *["--file", str(file)] * 15)
    options = json.dumps({"a": "x" * 16_370})
    await terminal.run("job", "add", "thumb", *["x" * 20_000] * 400, "--options", options)
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 20 + 15 + 400


async def test_nothing_is_added_if_an_idempotency_key_is_for_too_many(site: Site, terminal: Terminal) -> None:
    async with given_input(b"x\n" * 1001):
        shown = await terminal.run("job", "add", "thumb", "--idempotency-key", "k", status=2)
    assert "Nothing was added" in shown
    await site.intake.flush()
    assert await site.run(2000) == []


async def test_jobs_that_are_not_kept_are_shown_as_ended(
    site: Site, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()

    async def end_all() -> None:
        ids = await site.run(10)
        assert (await site.call("DELETE", f"/acme/job/{ids[0]}")).status == 200

    async def before_it_waits(*_: object) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(end_all(), loop))

    monkeypatch.setattr("functory.cli.job_adding._hint_at_handler", before_it_waits)
    shown = await terminal.run("job", "add", "thumb", "1", "2", "3", "--wait")
    assert (shown.count("archived"), shown.count("ended, not kept")) == (2, 1)


async def test_who_reads_from_a_terminal_can_be_interrupted() -> None:
    async with at_terminal("job", "add", "greet") as person:
        await person.says(b"Ctrl-D ends.\n")
        person.process.send_signal(signal.SIGINT)
        assert await person.end() == (130, b"")


async def test_who_is_asked_for_a_secret_can_be_interrupted() -> None:
    async with at_terminal("secret", "set", "API_KEY") as person:
        await person.says(b"Value (not shown): ")
        person.process.send_signal(signal.SIGINT)
        assert await person.end() == (130, b"\n")
        assert person.shows_what_is_typed()


async def test_a_secret_is_not_shown_while_it_is_typed(site: Site) -> None:
    async with at_terminal("secret", "set", "API_KEY", url=site.url, key=site.keys["acme"]) as person:
        await person.says(b"Value (not shown): ")
        assert not person.shows_what_is_typed()
        await person.types(b"pre\x04cious\n")  # Ctrl-D hands over what was typed so far, and ends nothing
        assert await person.end() == (0, b"\n")
        assert person.shows_what_is_typed()
    assert isinstance(site.service.vault, Vault)
    assert dict((await site.service.vault.read("acme", ("API_KEY",))).values) == {"API_KEY": "precious"}


@pytest.mark.parametrize(("closed", "status"), [("<&-", 2), (">&-", 0)])
async def test_a_closed_stream_is_no_traceback(site: Site, closed: str, status: int) -> None:
    environ = {"FUNCTORY_URL": site.url, "FUNCTORY_KEY": site.keys["acme"], "FUNCTORY_TENANT": "acme"}
    payload = "" if closed == "<&-" else "x"
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", f'exec "$0" -m functory job add thumb {payload} {closed}', sys.executable),
        stderr=asyncio.subprocess.PIPE,
        env=clean_environ() | environ,
    )
    _, told = await process.communicate()
    assert (process.returncode, b"Traceback" in told) == (status, False), told.decode()


async def test_a_rate_may_be_said_by_the_minute_hour_or_day(terminal: Terminal) -> None:
    shown = {
        "5": "5/s",
        "5/s": "5/s",
        "1200": "1200/s",
        "90/m": "1.5/s",
        "30/m": "30/m",
        "120/m": "2/s",
        "7/h": "7/h",
        "1/d": "1/d",
    }
    shown |= {"0.1": "6/m", "0.123456": "0.123456/s", "1e3": "1000/s", "0.000001": "1e-06/s"}
    for said, told in shown.items():
        assert await terminal.run("rate", "set", "mail", said) == f"mail: {told}, burst 1\n"
        assert f"mail    {told} " in await terminal.run("rate", "list")


@pytest.mark.parametrize("said", ["10/x", "m", "10/", "/m", "ten"])
def test_another_rate_is_refused(said: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"is not a rate: 5 or 5/s, or another number a minute"):
        per_second(said)
