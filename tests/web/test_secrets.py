"""Secrets over HTTP, on the command line and on their page: values go in, and nothing shows them again."""

import asyncio
import errno
import json
import os
from pathlib import Path

import pytest

from functory.operations.keys import create_key
from functory.vault import key_file
from functory.vault.key_file import make_key_file, new_key_line
from functory.vault.vault import Vault
from tests.support.pages import visitor
from tests.support.terminal import Terminal, given_input
from tests.support.web import Site

VALUE = "s3same-open-the-door"
HANDLER = {"lang": "python", "body": "return len(ctx.secrets['API_KEY'])", "secrets": ["API_KEY"]}


async def test_a_secret_is_set_rotated_listed_and_deleted(site: Site) -> None:
    assert (await site.get("/acme/secret")).json == {"secrets": []}
    first = await site.call("PUT", "/acme/secret/API_KEY", json={"value": "an-older-value"})
    assert (first.status, first.json["version"]) == (200, 1)
    site.clock.advance(5)
    second = await site.call("PUT", "/acme/secret/API_KEY", json={"value": VALUE})
    author = site.keys["acme"].split("_")[1]
    row = {"name": "API_KEY", "version": 2, "set_ms": site.clock.now_ms(), "author": author}
    assert second.json == row
    assert (await site.get("/acme/secret")).json == {"secrets": [row]}
    assert (await site.get("/other/secret", key="other")).json == {"secrets": []}
    assert (await site.call("DELETE", "/acme/secret/API_KEY")).status == 200
    assert (await site.call("DELETE", "/acme/secret/API_KEY")).code == "missing"
    assert (await site.get("/acme/secret")).json == {"secrets": []}


async def test_no_answer_and_no_record_has_the_value(site: Site) -> None:
    answer = await site.call("PUT", "/acme/secret/API_KEY", json={"value": VALUE})
    await site.call("PUT", "/acme/handler/thumb", json=HANDLER)
    answers = [answer, await site.get("/acme/secret"), await site.get("/acme/handler/thumb")]
    audit = await site.get("/admin/audit", key="operator")
    assert "secret.set" in audit.body.decode()
    for each in (*answers, audit):
        assert VALUE.encode() not in each.body
    assert all(VALUE.encode() not in secret.data for secret in await site.store.list_secrets("acme"))


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("API-KEY", {"value": "x"}, "name"),
        ("LD_PRELOAD", {"value": "x"}, "name"),
        ("FUNCTORY_KEY", {"value": "x"}, "name"),
        ("9A", {"value": "x"}, "name"),
        ("A", {"value": ""}, "value"),
        ("A", {"value": "x" * 16_385}, "value"),
        ("A", {"value": "é" * 16_000}, "value"),
        ("A", {"value": "a\0b"}, "value"),
        ("A", {}, "value"),
    ],
)
async def test_what_is_no_secret_is_refused_by_field(site: Site, path: str, body: dict[str, str], field: str) -> None:
    answer = await site.call("PUT", f"/acme/secret/{path}", json=body)
    assert answer.status == 422
    assert answer.json["error"]["detail"]["field"] == field


async def test_a_key_without_the_scope_sets_nothing(site: Site) -> None:
    _, key = await create_key(site.service, "test", "acme", scopes=["read", "handlers", "manage"])
    assert (await site.call("PUT", "/acme/secret/A", key=key, json={"value": VALUE})).code == "forbidden"
    assert (await site.get("/acme/secret", key=key)).status == 200


@pytest.mark.parametrize(
    ("number", "status", "code"),
    [(errno.ENOSPC, 507, "store_full"), (errno.EDQUOT, 507, "store_full"), (errno.EACCES, 503, "secrets_locked")],
)
async def test_a_key_file_that_cannot_be_made_is_said(
    site: Site, monkeypatch: pytest.MonkeyPatch, number: int, status: int, code: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(key_file, "create_durably", fail)
        answer = await site.call("PUT", "/acme/secret/API_KEY", json={"value": VALUE})
    assert (answer.status, answer.code) == (status, code)
    assert (await site.call("PUT", "/acme/secret/API_KEY", json={"value": VALUE})).status == 200


async def test_a_handler_that_names_a_secret_which_is_not_set_is_refused(site: Site) -> None:
    answer = await site.call("PUT", "/acme/handler/thumb", json=HANDLER)
    assert answer.status == 422
    assert "API_KEY not set yet; first `functory secret set API_KEY`" in answer.json["error"]["message"]
    await site.call("PUT", "/acme/secret/API_KEY", json={"value": VALUE})
    assert (await site.call("PUT", "/acme/handler/thumb", json=HANDLER)).status == 200
    shown = await site.get("/acme/handler/thumb")
    assert shown.json["handler"]["secrets"] == ["API_KEY"]
    for wrong in ({"secrets": "A"}, {"secrets": ["A B"]}, {"secrets": ["A"], "env": {"A": "x"}}, {"secrets": ["LD_A"]}):
        assert (await site.call("PUT", "/acme/handler/thumb", json=HANDLER | wrong)).status == 422
    worker = await site.call("PUT", "/acme/handler/x", json={"lang": "worker", "secrets": ["API_KEY"]})
    assert "are not sent to workers" in worker.json["error"]["message"]
    signs = {"lang": "http", "body": "https://a.example", "secrets": ["API_KEY"]}
    assert (await site.call("PUT", "/acme/handler/x", json=signs)).status == 200


async def test_why_names_the_secret_that_a_job_lacks(site: Site) -> None:
    await site.call("PUT", "/acme/secret/API_KEY", json={"value": VALUE})
    await site.call("PUT", "/acme/handler/thumb", json=HANDLER)
    [job] = await site.add("x")
    await site.intake.flush()
    assert (await site.get(f"/acme/job/{job}/why")).json["reason"] == "no_daemon"
    await site.call("DELETE", "/acme/secret/API_KEY")
    why = (await site.get(f"/acme/job/{job}/why")).json
    assert (why["reason"], why["detail"]) == ("secret_missing", {"secrets": ["API_KEY"]})


async def test_the_page_sets_and_deletes_and_shows_no_value(site: Site) -> None:
    async with visitor(site) as someone:
        await someone.sign_in(site.keys["acme"])
        page = await someone.get("/ui/t/acme/secrets")
        assert "No secrets yet" in page.text
        await someone.post("/ui/t/acme/secrets", {"name": "API_KEY", "value": f"{VALUE}\r\n"})
        page = await someone.get("/ui/t/acme/secrets")
        assert "API_KEY" in page.text
        assert VALUE not in page.text
        await someone.post("/ui/t/acme/secrets/API_KEY/delete")
        assert "No secrets yet" in (await someone.get("/ui/t/acme/secrets")).text


async def test_the_command_line_takes_values_from_a_file_or_standard_input(
    site: Site, terminal: Terminal, tmp_path: Path
) -> None:
    assert "No secrets." in await terminal.run("secret", "list")
    async with given_input(f"{VALUE}\n".encode()):
        assert "API_KEY is set, version 1" in await terminal.run("secret", "set", "API_KEY")
    assert isinstance(site.service.vault, Vault)
    assert dict((await site.service.vault.read("acme", ("API_KEY",))).values) == {"API_KEY": VALUE}
    await asyncio.to_thread((tmp_path / "pem").write_text, "a\nb\n")
    assert "version 1" in await terminal.run("secret", "set", "PEM", "--file", str(tmp_path / "pem"))
    shown = await terminal.run("secret", "list")
    assert "API_KEY" in shown
    assert VALUE not in shown
    assert "deleted" in await terminal.run("secret", "delete", "PEM")
    async with given_input(b""):
        assert "No value" in await terminal.run("secret", "set", "API_KEY", status=2)
    with pytest.raises(SystemExit):
        await terminal.status("secret", "set", "API_KEY", VALUE)


async def test_rekey_on_the_command_line(site: Site, terminal: Terminal, tmp_path: Path) -> None:
    await site.call("PUT", "/acme/secret/API_KEY", json={"value": VALUE})
    [secret] = await site.store.list_secrets("acme")
    folder = await asyncio.to_thread(lambda: next(tmp_path.rglob("secrets.key")).parent)
    old = (await asyncio.to_thread((folder / "secrets.key").read_text)).splitlines()[-1]
    new = (await terminal.run("secret", "new-key")).strip()
    assert len(new.split()) == len(new_key_line().split())
    keys = tmp_path / "both.keys"
    await asyncio.to_thread(keys.write_text, f"{new}\n{old}\n")
    where = ("--store", f"sqlite://{folder}/store.db", "--secrets-key-file", str(keys))
    assert "1 secret sealed anew." in await terminal.run("secret", "rekey", *where)
    [resealed] = await site.store.list_secrets("acme")
    assert (resealed.key_id, resealed.version) == (new.split()[0], 1)
    assert resealed.data != secret.data
    await asyncio.to_thread(make_key_file, tmp_path / "strange.keys")
    strange = (*where[:3], str(tmp_path / "strange.keys"))
    told = await terminal.run("secret", "rekey", *strange, status=7)
    assert f"0 secrets sealed anew; not opened: acme/API_KEY (key {resealed.key_id})" in told
    left = [{"tenant": "acme", "name": "API_KEY", "key": resealed.key_id}]
    told = await terminal.run("secret", "rekey", *strange, "--json", status=7)
    assert json.loads(told) == {"resealed": 0, "not_opened": left}
