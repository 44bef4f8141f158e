"""A first hour with the product by its command line: every step as a process, its output read as a person would."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.support.command_line import functory
from tests.support.daemon_process import daemon, make_key

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def handler_files(tmp_path: Path) -> None:
    (tmp_path / "double.py").write_text("return {'twice': 2 * int(payload)}\n")
    (tmp_path / "triple.py").write_text("return {'thrice': 3 * int(payload)}\n")
    (tmp_path / "refuse.py").write_text("return ctx.fail('not a number I like')\n")


async def test_from_a_first_tenant_to_results_and_back_to_an_older_handler(tmp_path: Path) -> None:
    async with daemon(tmp_path / "data") as server:
        url = {"FUNCTORY_URL": server.url}
        key_file = str(server.data_dir / "operator.key")

        created = await functory("tenant", "create", "acme", "--key-file", key_file, **url)
        assert created.status == 0
        assert "Tenant acme created" in created.out
        key = created.out.splitlines()[-1]
        assert key.startswith("fk_")
        listed = await functory("tenant", "list", "--key-file", key_file, **url)
        assert re.search(r"^acme\s+1\s", listed.out, re.MULTILINE)

        acme = {**url, "FUNCTORY_KEY": key, "FUNCTORY_TENANT": "acme"}
        put = await functory("handler", "put", "double", str(tmp_path / "double.py"), **acme)
        assert (put.status, put.out) == (0, "double: version 1 is active\n")

        ran = await functory("job", "add", "double", "21", "4", "--wait", **acme)
        assert ran.status == 0, ran
        assert len(re.findall(r"^\S+\s+archived\s+ok\s+200\s+1\s", ran.out, re.MULTILINE)) == 2
        added = await functory("job", "add", "double", given="1\n2\n\n3\n", **acme)
        ids = added.out.split()
        assert (added.status, len(ids)) == (0, 3)
        waited = await functory("job", "wait", ids[0], **acme)
        assert waited.status == 0
        assert re.search(r"^code +200 ok$", waited.out, re.MULTILINE)
        assert 'result:\n  {"twice":2}\n' in waited.out

        results = await functory("results", "--type", "double", "--json", **acme)
        assert {job["code"] for job in json.loads(results.out)["jobs"]} == {"ok"}
        board = await functory("scoreboard", **acme)
        assert re.search(r"^double\s", board.out, re.MULTILINE)

        await functory("handler", "put", "double", str(tmp_path / "triple.py"), **acme)
        assert "thrice" in (await functory("handler", "get", "double", **acme)).out
        back = await functory("handler", "rollback", "double", "1", **acme)
        assert (back.status, "active" in back.out) == (0, True)
        assert "twice" in (await functory("handler", "get", "double", **acme)).out
        versions = await functory("handler", "versions", "double", **acme)
        assert re.search(r"^double\s+\d+\s+python\s", versions.out, re.MULTILINE)


async def test_a_job_that_fails_or_waits_and_what_can_be_done_about_it(tmp_path: Path) -> None:
    async with daemon(tmp_path / "data") as server:
        acme = {
            "FUNCTORY_URL": server.url,
            "FUNCTORY_TENANT": "acme",
            "FUNCTORY_KEY": await make_key(server, "acme"),
        }
        orphan = (await functory("job", "add", "odd", "7", **acme)).out.strip()
        why = await functory("job", "why", orphan, **acme)
        assert why.status == 0
        assert "no_handler" in why.out
        later = (await functory("job", "add", "odd", "8", "--delay-s", "3600", **acme)).out.strip()
        assert "deferred" in (await functory("job", "why", later, **acme)).out
        updated = await functory("job", "update", later, "9", **acme)
        assert (updated.status, "payload:\n  9" in updated.out) == (0, True), updated
        moved = await functory("job", "retry", later, "--next-run", "2099-01-31 04:00:00", "--payload", "10", **acme)
        assert (moved.status, "payload:\n  10" in moved.out, "2099-01-31" in moved.out) == (0, True, True), moved
        cancelled = await functory("job", "cancel", later, **acme)
        assert cancelled.status == 0
        assert re.search(r"^code .*cancelled$", cancelled.out, re.MULTILINE)
        assert (await functory("job", "delete", later, **acme)).out == "Deleted 1 job.\n"
        assert (await functory("job", "get", later, **acme)).status != 0

        await functory("handler", "put", "odd", str(tmp_path / "refuse.py"), **acme)
        waited = await functory("job", "wait", orphan, **acme)
        assert waited.status == 1
        assert "not a number I like" in waited.out
        retried = await functory("job", "retry", orphan, **acme)
        assert retried.status == 0, retried
        assert (await functory("job", "wait", orphan, **acme)).status == 1
        removed = await functory("handler", "rm", "odd", **acme)
        assert (removed.status, removed.out) == (0, "odd: handler deleted. New jobs of this type wait.\n")


async def test_errors_say_what_is_wrong_and_have_their_own_status(tmp_path: Path) -> None:
    async with daemon(tmp_path / "data") as server:
        url = {"FUNCTORY_URL": server.url}
        acme = {**url, "FUNCTORY_TENANT": "acme", "FUNCTORY_KEY": await make_key(server, "acme")}
        no_tenant = {**acme, "FUNCTORY_TENANT": ""}
        wrong_key = {**acme, "FUNCTORY_KEY": "fk_a_b"}
        cases = [
            (2, "FUNCTORY_KEY", functory("tenant", "list", **url)),
            (2, "FUNCTORY_TENANT", functory("handler", "list", **no_tenant)),
            (3, "key is not known", functory("handler", "list", **wrong_key)),
            (3, "tenant of the key", functory("handler", "list", "--tenant", "globex", **acme)),
            (4, "nothing", functory("handler", "get", "nothing", **acme)),
            (4, "20260101", functory("job", "get", "20260101T000000000Z-zz-000000", **acme)),
            (7, "cannot be reached", functory("handler", "list", "--url", "http://127.0.0.1:9", **acme)),
            (2, "nonsense", functory("handler", "list", "--url", "nonsense", **acme)),
            (8, "none.py", functory("handler", "put", "x", str(tmp_path / "none.py"), **acme)),
        ]
        for (status, text, _), ended in zip(cases, await asyncio.gather(*[case[2] for case in cases]), strict=True):
            assert (ended.status, ended.out, text in ended.err) == (status, "", True), ended
            assert ended.err.startswith("functory: "), ended
            assert "Traceback" not in ended.err, ended


async def test_a_port_and_a_data_directory_belong_to_one_daemon(tmp_path: Path) -> None:
    async with daemon(tmp_path / "data") as server:
        port = server.url.rpartition(":")[2]
        unconfined = ["--min-isolation", "L0", "--all-tenants-trusted", "true"]
        same_port = await functory("serve", "--data-dir", str(tmp_path / "other"), "--port", port, *unconfined)
        assert same_port.status != 0
        assert "address already in use. A daemon may run there already; choose another with --port" in same_port.err
        same_data = await functory("serve", "--data-dir", str(tmp_path / "data"), "--port", "0", *unconfined)
        assert same_data.status != 0
        assert f"a daemon already runs with this data: {tmp_path / 'data'}" in same_data.err
        assert "a --data-dir and a --port of its own" in same_data.err
        assert "Traceback" not in same_port.err + same_data.err
