"""A secret that a handler prints, returns, raises, splits and passes on is found nowhere: not in the data folder, the
journal, the database, a backup, an export, an answer, a page, or what the daemon writes to its log."""

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.transfer.backup import make_backup
from tests.support.served_daemon import Client, Reply, served_daemon
from tests.support.store_content import read_content

pytestmark = pytest.mark.slow

CANARY = "c4nary-Zx81Qq-f1nd-me-not"
TRACES = (CANARY.encode(), CANARY[:12].encode(), CANARY[-12:].encode(), base64.b64encode(CANARY.encode())[:24])

BODIES = {
    "prints": "print(ctx.secrets['CANARY'])",
    "returns": "return {'it': ctx.secrets['CANARY'], 'more': [ctx.secrets['CANARY'] * 3]}",
    "raises": "raise RuntimeError('no luck with ' + ctx.secrets['CANARY'])",
    "fails": "ctx.fail(ctx.secrets['CANARY'])",
    "retries": "ctx.retry(after_s=3600, data=ctx.secrets['CANARY'])",
    "progress": "ctx.progress(ctx.secrets['CANARY'])\nimport time\ntime.sleep(0.1)\nreturn 1",
    "splits": "import sys\nfor c in ctx.secrets['CANARY']:\n    sys.stdout.write(c)\nreturn 1",
    "slowly": "import sys, time\nfor c in ctx.secrets['CANARY']:\n    print(c, end='')\n    time.sleep(0.004)",
    "cut": "print('.' * 16_300 + ctx.secrets['CANARY'] * 10)\nprint('x' * 16_370)",
    "crash": "import os\nos.write(1, os.environb[b'CANARY'])\nos.abort()",
    "child": "import os\nos.system('echo $CANARY; env | grep CANARY')\nreturn os.environ['CANARY']",
    "enqueues": "ctx.enqueue('prints', ctx.secrets['CANARY'])\nprint('J: prints|' + ctx.secrets['CANARY'])",
    "carries": "ctx.carry(ctx.secrets['CANARY'])\nctx.retry(after_s=3600)",
    "encodes": "import base64\nreturn base64.b64encode(ctx.secrets['CANARY'].encode()).decode()",
    "large": "return ctx.secrets['CANARY'] * 20_000",
}


def found_in(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield from (f"{trace!r} in {path}" for trace in TRACES if trace in data)


def use_it(client: Client) -> list[Reply]:
    """Everything is done with the secret; all that was answered."""
    value = json.dumps({"value": CANARY}).encode()
    replies = [client.ask("PUT", "/acme/secret/CANARY", value, {"Content-Type": "application/json"})]
    assert replies[0].status == 200
    for name, body in BODIES.items():
        assert client.register(body, name, secrets=["CANARY"]).status < 300
        ids = json.loads(client.add(b"x", name).body)["ids"]
        follow = client.ask(
            "GET", f"/acme/job/{ids[0]}?wait_s={1 if name in {'retries', 'carries', 'raises', 'crash'} else 30}"
        )
        assert follow.status == 200
        replies += [follow, *(client.ask("GET", f"/acme/job/{ids[0]}/{part}") for part in ("log", "result", "why"))]
        shown = [f"/ui/t/acme/job/{ids[0]}", f"/ui/t/acme/type/{name}"]
        replies += [client.ask("GET", path, headers={"Cookie": client.cookie}) for path in shown]
        invoked = client.ask("POST", f"/acme/handler/{name}/invoke", b"{}", {"Content-Type": "application/json"})
        replies += [invoked, client.ask("GET", f"/acme/handler/{name}")]
    for path in ("/acme/results", "/acme/failures", "/acme/scoreboard", "/acme/secret"):
        replies.append(client.ask("GET", path))
    pages = ("/ui/t/acme", "/ui/t/acme/jobs", "/ui/t/acme/failures", "/ui/t/acme/secrets")
    return replies + [client.ask("GET", path, headers={"Cookie": client.cookie}) for path in pages]


async def run_all(folder: Path, backup: Path) -> tuple[list[Reply], str]:
    async with served_daemon(folder, min_isolation="L0", all_tenants_trusted="true") as served:
        client = await served.signed_in()
        replies = await asyncio.to_thread(use_it, client)
        content = repr(await read_content(served.daemon.store))
        await make_backup(served.daemon.settings, backup, now_ms=served.daemon.clock.now_ms())
    return replies, content


async def test_the_canary_is_found_nowhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder, backup = tmp_path / "data", tmp_path / "backup"
    await asyncio.to_thread(folder.mkdir)
    replies, content = await run_all(folder, backup)
    out, err = await asyncio.to_thread(capfd.readouterr)
    assert await asyncio.to_thread(lambda: [*found_in(folder), *found_in(backup)]) == []
    told = b"\n".join(reply.body for reply in replies)
    for trace in TRACES:
        assert trace not in told
        assert trace.decode() not in content
        assert trace.decode() not in out + err
    assert b"***" in told  # it was there to be hidden
    assert told.count(b"***") > len(BODIES)
    assert "CANARY" in content
