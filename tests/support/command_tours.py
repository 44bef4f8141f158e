"""Each command of a group once, for tests that ask which routes commands reach."""

import asyncio
from pathlib import Path

from tests.support.terminal import Terminal


async def use_secrets(terminal: Terminal, tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "value").write_text, "a value\n")
    assert "version 1" in await terminal.run("secret", "set", "A", "--file", str(tmp_path / "value"))
    assert "A" in await terminal.run("secret", "list")
    assert "deleted" in await terminal.run("secret", "delete", "A")


async def use_alerts(terminal: Terminal) -> None:
    await terminal.run("alert", "set", "full", "--type", "mail*", "--notify", "tell", "--backlog", "9")
    for words in ("list", "get full", "mute full 8h", "test full", "delete full"):
        assert "full" in await terminal.run("alert", *words.split()) or words == "test full"
    assert "functory_jobs" in await terminal.run("metrics", "--tenant", "acme", "--type", "t*")


async def use_webhooks(terminal: Terminal) -> None:
    await terminal.run("webhook", "set", "hello", "--type", "hello", "--verify", "none")
    for words in ("list", "get hello", "delete hello"):
        assert "hello" in await terminal.run("webhook", *words.split())
