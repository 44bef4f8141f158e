"""The command line against the service: what an operator says of tenants and keys, and is told."""

import json

import pytest

from functory.cli.main import main
from tests.support.terminal import Terminal
from tests.support.web import Site


async def test_an_operator_sees_what_a_tenant_has_stored_of_its_limits(site: Site, terminal: Terminal) -> None:
    await site.add("ada", "bob")
    await site.intake.flush()
    assert "stored   2 jobs, 6 bytes, 0 handlers" in await terminal.run("tenant", "show", "acme", who="operator")
    limits = ("--limit", "max_jobs=1000", "--limit", "max_bytes=10GB", "--limit", "max_handlers=1")
    await terminal.run("tenant", "change", "acme", *limits, who="operator")
    shown = await terminal.run("tenant", "show", "acme", who="operator")
    assert "stored   2 of 1,000 jobs, 6 of 10,000,000,000 bytes, 0 of 1 handler" in shown
    answer = await site.get("/admin/tenants/acme", key="operator")
    assert answer.json["usage"] == {"jobs": 2, "size_bytes": 6, "handlers": 0}


@pytest.mark.parametrize(("said", "size_bytes"), [("2000", 2000), ("64KiB", 65_536), ("1.5MB", 1_500_000)])
async def test_a_limit_of_bytes_may_have_a_unit(site: Site, terminal: Terminal, said: str, size_bytes: int) -> None:
    limits = ("--limit", f"max_bytes={said}", "--limit", f"max_package_bytes={said}")
    await terminal.run("tenant", "change", "acme", *limits, who="operator")
    shown = json.loads(await terminal.run("tenant", "show", "acme", "--json", who="operator"))["limits"]
    assert (shown["max_bytes"], shown["max_package_bytes"]) == (size_bytes, size_bytes)


@pytest.mark.parametrize(
    ("said", "word"),
    [("max_bytes=10gb", "64KiB"), ("max_bytes=B", "64KiB"), ("max_bytes=10G", "64KiB"), ("max_jobs=10GB", "number")],
)
def test_a_limit_that_is_no_number_is_refused(said: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tenant", "change", "acme", "--limit", said])
    assert word in capsys.readouterr().err


async def test_an_operator_who_asks_for_jobs_is_told_which_key_it_takes(terminal: Terminal) -> None:
    told = await terminal.run("job", "list", "--tenant", "acme", who="operator", status=3)
    assert "'acme' is not the tenant of the key, which is the operator's" in told
    assert "functory key create acme" in told


async def test_scopes_are_said_one_by_one_or_with_commas(terminal: Terminal) -> None:
    words = ("key", "create", "acme", "--scope", "submit,read", "--scope", "work", "--json")
    assert json.loads(await terminal.run(*words, who="operator"))["scopes"] == ["submit", "read", "work"]
    every = json.loads(await terminal.run("key", "create", "acme", "--json", who="operator"))["scopes"]
    assert every == ["submit", "read", "manage", "handlers", "work", "secrets"]
