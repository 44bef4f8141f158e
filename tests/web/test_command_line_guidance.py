"""The command line against the service: it leads a newcomer to the next step."""

import asyncio
import re
from pathlib import Path

import pytest

from functory.cli.main import main
from functory.workers.values import Delivery
from handlers.errors import HandlerSyntaxError, InvalidHandlerError
from tests.support.terminal import Terminal
from tests.support.web import Site


async def test_a_type_that_workers_serve_needs_no_file(site: Site, terminal: Terminal) -> None:
    told = await terminal.run("job", "add", "resize", "x")
    assert "Register one: functory handler put resize FILE" in told
    assert "If workers serve it: functory handler put resize --lang worker" in told
    assert "resize: version 1 is active\n" in await terminal.run("handler", "put", "resize", "--lang", "worker")
    stored = (await site.get("/acme/handler/resize")).json["handler"]
    assert (stored["lang"], stored["body"]) == ("worker", "")
    assert "no handler" not in await terminal.run("job", "add", "resize", "x")
    await site.call("PUT", "/acme/handler/resize", json={"lang": "worker", "body": "a name"})
    put = ("handler", "put", "resize", "--lang", "worker")
    await terminal.run(*put, "--timeout-s", "90")
    stored = (await site.get("/acme/handler/resize")).json["handler"]
    assert (stored["body"], stored["timeout_s"]) == ("a name", 90)
    await terminal.run(*put, "--reset")
    stored = (await site.get("/acme/handler/resize")).json["handler"]
    assert (stored["body"], stored["timeout_s"]) == ("", 0)


@pytest.mark.parametrize("options", [(), ("--lang", "python"), ("--lang", "http")])
async def test_another_handler_does(terminal: Terminal, options: tuple[str, ...]) -> None:
    told = await terminal.run("handler", "put", "resize", *options, status=2)
    assert "No FILE: give the code of the handler, or --lang worker if workers serve the type" in told


async def test_a_mistake_names_the_file(site: Site, terminal: Terminal, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.py", tmp_path / "good.py"
    await asyncio.to_thread(bad.write_text, "a syntax error")
    await asyncio.to_thread(good.write_text, "return payload")
    mistake = f"functory: {bad}: line 3, column 7: invalid syntax"
    assert mistake in await terminal.run("handler", "put", "thumb", str(bad), status=2)
    assert mistake in await terminal.run("handler", "invoke", "thumb", "--file", str(bad), status=2)
    site.trial_runs.refusal = HandlerSyntaxError("beforeEach", "invalid syntax", line=3, column=7)
    put = ("handler", "put", "thumb", str(good), "--before-each", str(bad))
    assert mistake in await terminal.run(*put, status=2)
    site.trial_runs.refusal = InvalidHandlerError("beforeEach", "is too long")
    assert "functory: beforeEach: is too long" in await terminal.run(*put, status=2)


async def test_a_mistake_in_a_folder_is_one_of_its_entry(terminal: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "thumb"
    await asyncio.to_thread(folder.mkdir)
    await asyncio.to_thread((folder / "main.py").write_text, "a syntax error")
    told = await terminal.run("deploy", str(folder), status=2)
    assert f"functory: the entry file of {folder}: line 3, column 7: invalid syntax" in told


async def test_the_worker_that_holds_a_job_is_named(site: Site, terminal: Terminal) -> None:
    await terminal.run("handler", "put", "resize", "--lang", "worker")
    (job_id,) = await site.add("x", path="/acme/job/resize/add")
    await site.intake.flush()
    assert "worker " not in await terminal.run("job", "get", job_id)
    taken = await site.post("/acme/work/take", json={"types": ["resize"], "worker": {"name": "gpu-1"}})
    assert len(taken.json["jobs"]) == 1, taken.body
    assert "worker gpu-1 has it, until " in await terminal.run("job", "why", job_id)
    shown = await terminal.run("job", "get", job_id)
    assert "worker       gpu-1\n" in shown
    token = taken.json["jobs"][0]["token"]
    assert site.workers.holder("acme", Delivery(job_id, token + 1)) == "", "another has it by then"
    assert site.workers.holder("other", Delivery(job_id, token)) == ""
    lease = {"id": job_id, "token": token}
    await site.post("/acme/work/report", json={"reports": [{**lease, "outcome": "ok"}]})
    assert "gpu-1" not in await terminal.run("job", "get", job_id)


@pytest.mark.parametrize("word", ["rm", "delete"])
async def test_what_exists_is_removed_by_either_word(site: Site, terminal: Terminal, word: str) -> None:
    await terminal.run("handler", "put", "resize", "--lang", "worker")
    await terminal.run("rate", "set", "api", "5")
    assert "handler deleted" in await terminal.run("handler", word, "resize")
    await terminal.run("rate", word, "api")
    assert "No rate domains" in await terminal.run("rate", "list")
    (job_id,) = await site.add("x")
    await site.intake.flush()
    await terminal.run("job", word, job_id)
    await terminal.run("job", "get", job_id, status=4)


async def test_a_handler_is_shown_with_its_settings_and_piped_without(
    site: Site, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "return payload"
    file, before = tmp_path / "thumb.py", tmp_path / "before.py"
    await asyncio.to_thread(file.write_text, code)
    await asyncio.to_thread(before.write_text, "a = 1\nb = 2\n")
    settings = (
        "--timeout-s",
        "7.5",
        "--option",
        "max_attempts=3",
        "--then",
        "next",
        "--on-failure",
        "mend",
        "--domain",
    )
    await terminal.run(
        "handler", "put", "thumb", str(file), *settings, "api", "--env", "A=\x1b[31m", "--before", str(before)
    )
    assert await terminal.run("handler", "get", "thumb") == code
    shown = await terminal.run("handler", "get", "thumb", "--settings")
    shown_lines = re.sub(r"^(on|rate) ", r"\1_", shown, flags=re.MULTILINE).splitlines()
    lines = dict(line.split(maxsplit=1) for line in shown_lines)
    expected = {
        "type": "thumb", "version": "1", "language": "python", "timeout": "7.5 s", "memory": "128 MiB", "then": "next",
        "on_failure": "mend", "rate_domain": "api", "options": "max_attempts=3", "env": "A=\\x1b[31m",
        "before": "2 lines",
    }  # fmt: skip
    assert lines == expected | {"registered": lines["registered"]}
    assert " by key " in lines["registered"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    told = await terminal.run("handler", "get", "thumb")
    assert told == f"{code}\n{shown}\n", "what was said on standard error comes last here"


async def test_a_key_that_is_refused_leads_to_where_keys_come_from(terminal: Terminal) -> None:
    told = await terminal.run("job", "list", "--key", "fk_x_" + "a" * 40, status=3)
    assert "the key comes from FUNCTORY_KEY, --key or --key-file" in told
    told = await terminal.run("job", "add", "thumb", "x", "--key", "customer-7", status=3)
    assert "--key is your API key, which begins with fk_; the key of a job is --job-key" in told
    told = await terminal.run("tenant", "list", status=3)
    assert "--key-file functory-data/operator.key" in told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("jobs list", "there is no command 'jobs'. Did you mean `functory job`? `functory --help` lists all commands."),
        ("logs x", "Did you mean `functory job logs`?"),
        ("job lst", "Did you mean `functory job list`? `functory job --help` lists all commands."),
        ("version", "Did you mean `functory --version` or"),
        ("qqq", "there is no command 'qqq'. `functory --help` lists"),
        ("job add thumb --prority 5", "unknown option: --prority; did you mean --priority?"),
        ("job add thumb --prority=5", "did you mean --priority?"),
        ("job add thumb -q", "unknown option: -q\n"),
    ],
)
def test_what_is_mistyped_leads_to_what_may_be_meant(capsys: pytest.CaptureFixture[str], words: str, says: str) -> None:
    with pytest.raises(SystemExit) as left:
        main(words.split())
    assert left.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("words", ["help", "help job", "help job add"])
def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str], words: str) -> None:
    shown = []
    for argv in (words.split(), [*words.split()[1:], "--help"]):
        with pytest.raises(SystemExit) as left:
            main(argv)
        assert left.value.code == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


@pytest.mark.parametrize("words", [[], ["job"]])
def test_without_a_command_they_are_listed(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as listed:
        main([*words, "--help"])
    listing = capsys.readouterr().out
    with pytest.raises(SystemExit) as left:
        main(words)
    said = capsys.readouterr()
    assert (listed.value.code, left.value.code) == (0, 2)
    assert (said.out, said.err) == ("", listing)
    assert "add jobs and look after them" in listing or "say why a job is not running" in listing


async def test_a_folder_that_passes_its_results_to_nobody_is_told_so(terminal: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "thumb"
    await asyncio.to_thread(folder.mkdir)
    await asyncio.to_thread((folder / "main.py").write_text, "def handler(payload, ctx): ...")
    await asyncio.to_thread((folder / "functory.toml").write_text, 'then = "tell"\non_failure = "alarm"')
    await terminal.run("handler", "put", "tell", "--lang", "worker")
    told = await terminal.run("deploy", str(folder))
    assert "thumb: version 1 is active" in told
    assert "Type alarm has no handler yet" in told
    assert "Type tell" not in told


async def test_a_rate_domain_without_a_limit_is_told(terminal: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "thumb"
    await asyncio.to_thread(folder.mkdir)
    await asyncio.to_thread((folder / "main.py").write_text, "def handler(payload, ctx): ...")
    await asyncio.to_thread((folder / "functory.toml").write_text, "domain = 'mail api'")
    assert "Its rate domain has no limit yet: functory rate set 'mail api' RATE" in await terminal.run(
        "deploy", str(folder)
    )
    put = ("handler", "put", "thumb", str(folder / "main.py"), "--domain", "api")
    assert "has no limit yet: functory rate set api RATE" in await terminal.run(*put)
    await terminal.run("rate", "set", "a*", "10/m")
    assert "no limit" not in await terminal.run(*put)
    refused = await terminal.run("handler", "put", "thumb", str(folder / "main.py"), "--domain", "a\nb", status=2)
    assert "domain: must be a rate domain: up to 255 characters without control characters" in refused


async def test_rolling_back_leads_to_the_version_before_and_twice_further_back(
    terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "thumb.py"
    for number in (1, 2, 3):
        await asyncio.to_thread(file.write_text, f"return {number}")
        await terminal.run("handler", "put", "thumb", str(file))
    assert "thumb: version 4 is active, a copy of version 2" in await terminal.run("handler", "rollback", "thumb")
    assert "thumb: version 5 is active, a copy of version 1" in await terminal.run("handler", "rollback", "thumb")
    assert "thumb has no version before version 1" in await terminal.run("handler", "rollback", "thumb", status=4)
    assert "thumb: version 6 is active, a copy of version 3" in await terminal.run("handler", "rollback", "thumb", "3")
    first, second, *_ = (await terminal.run("handler", "versions", "thumb")).splitlines()[2:]
    assert (first.split()[1], *first.split()[-2:], second.split()[-1]) == ("6", "yes", "3", "1")
    assert "a copy of version 4" in await terminal.run("handler", "rollback", "thumb", "4")
    assert "a copy of version 1" in await terminal.run("handler", "rollback", "thumb"), "version 4 is one of version 2"


async def test_a_run_without_a_job_shows_what_it_would_have_left_behind(site: Site, terminal: Terminal) -> None:
    await site.call("PUT", "/acme/handler/up?lang=python", data=b"return 1")
    site.trial_runs.carried = b'{"last": 3}'
    told = await terminal.run("handler", "invoke", "up")
    assert "new job: mail?unique=daily|" in told
    assert 'carries on: {"last": 3}' in told


async def test_a_file_with_more_than_a_key_is_named(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    await asyncio.to_thread(file.write_text, '{\n  "key": "fk_..."\n}')
    told = await terminal.run("job", "list", "--key-file", str(file), status=2)
    assert f"functory: {file} has more in it than a key" in told
