"""`functory migrate`, `functory store`: what they refuse, what they say, and that both stores hold the same after."""

import asyncio
import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from functory.cli import main
from functory.errors import StillRunning, TransferFailed
from functory.operations.keys import hash_secret
from functory.transfer.migrate import label_of, migrate, read_content
from store.base import ApiKey, AuditPage
from store.errors import Conflict
from store.sqlite import SqliteStore
from store.sqlite.file import schema
from store.values.transfer import ExportPage, Part
from tests.support.jobs import T0, new_jobs
from tests.support.store_content import fill

Capture = pytest.CaptureFixture[str]
OLD = Path(__file__).parents[2] / "data" / "store-schema-1.db.gz"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.db"

    async def make() -> None:
        async with SqliteStore(path) as store:
            await fill(store)
            await store.forget_daemons(skip=0)

    asyncio.run(make())
    return path


def run(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def url(path: Path) -> str:
    return f"sqlite://{path}"


def test_both_stores_hold_the_same(source: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "target.db"
    status, out, err = run(capsys, "migrate", "--from", url(source), "--to", url(target), "--batch", "11")
    assert (status, "Both stores hold the same" in out) == (0, True), err

    async def contents() -> tuple[object, object]:
        async with SqliteStore(source) as one, SqliteStore(target) as two:
            return await read_content(one), await read_content(two)

    one, two = asyncio.run(contents())
    assert one == two
    status, _, err = run(capsys, "migrate", "--from", url(source), "--to", url(target))
    assert (status, "has tenants already" in err) == (5, True)


def test_a_daemon_that_is_alive_is_in_the_way(source: Path, tmp_path: Path, capsys: Capture) -> None:
    async def start_one() -> None:
        async with SqliteStore(source) as store:
            await store.reserve_sysid(info="{}", lease_ms=60_000, now_ms=time.time_ns() // 1_000_000)

    asyncio.run(start_one())
    arguments = ("migrate", "--from", url(source), "--to", url(tmp_path / "target.db"))
    status, _, err = run(capsys, *arguments)
    assert (status, "daemons of the source are alive: sysid 4" in err) == (5, True)
    status, out, _ = run(capsys, *arguments, "--force", "--json")
    assert (status, json.loads(out)["jobs"]["records"]) == (0, 50)


def test_what_cannot_be_meant_is_refused(
    source: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = url(tmp_path / "nowhere.db")
    assert run(capsys, "migrate", "--from", url(source))[0] == 2
    assert run(capsys, "migrate", "--from", url(source), "--to", url(source))[0] == 2
    status, _, err = run(capsys, "migrate", "--from", nowhere, "--to", url(source))
    assert (status, "there is no store" in err) == (4, True)
    assert not (tmp_path / "nowhere.db").exists()
    monkeypatch.setenv("FUNCTORY_FROM", nowhere)
    monkeypatch.setenv("FUNCTORY_TO", url(source))
    assert run(capsys, "migrate")[0] == 4


def test_a_store_that_goes_elsewhere_leaves_the_keys_of_its_secrets_behind(
    source: Path, tmp_path: Path, capsys: Capture
) -> None:
    keys = tmp_path / "secrets.key"
    beside = run(capsys, "migrate", "--from", url(source), "--to", url(tmp_path / "target.db"))
    assert f"Their keys stay in {keys}, unless" in beside[1], beside
    (tmp_path / "elsewhere").mkdir()
    away = run(capsys, "migrate", "--from", url(source), "--to", url(tmp_path / "elsewhere" / "target.db"))
    assert f"start every daemon with --secrets-key-file and a copy of {keys}" in away[1], away


async def test_what_arrives_otherwise_is_found_and_the_target_stays_closed(tmp_path: Path) -> None:
    class Lossy(SqliteStore):
        """Loses a byte of one job on the way out, once."""

        spoil = True

        async def export(
            self, part: Part, *, cursor: str | None = None, limit: int = 500, max_bytes: int = 1 << 25
        ) -> ExportPage:
            page = await super().export(part, cursor=cursor, limit=limit, max_bytes=max_bytes)
            if part is Part.JOBS and self.spoil:
                self.spoil = False
                first = page.records[0]
                changed = first._replace(job=first.job._replace(data=b""))  # type: ignore[call-arg, union-attr]
                return page._replace(records=(changed, *page.records[1:]))
            return page

    async with Lossy(tmp_path / "a.db") as source, SqliteStore(tmp_path / "b.db") as target:
        await source.add_jobs(new_jobs(3), now_ms=T0)
        with pytest.raises(TransferFailed, match="jobs: 3 records were sent and 3 arrived, or their content"):
            await migrate(source, target, label="x", now_ms=lambda: T0)
        with pytest.raises(Conflict):
            await target.reserve_sysid(info="", lease_ms=1, now_ms=T0)


@pytest.mark.parametrize("moment", [2, 3, 4])
async def test_a_daemon_that_starts_meanwhile_is_noticed(tmp_path: Path, moment: int) -> None:
    """Before its part is copied, before that is compared, and before the last look."""

    class Started(SqliteStore):
        looks = 0

        async def export(
            self, part: Part, *, cursor: str | None = None, limit: int = 500, max_bytes: int = 1 << 25
        ) -> ExportPage:
            self.looks += part is Part.SERIES
            if part is Part.SERIES and self.looks == moment:
                await self.reserve_sysid(info="", lease_ms=1, now_ms=T0)
            return await super().export(part, cursor=cursor, limit=limit, max_bytes=max_bytes)

    async with Started(tmp_path / "a.db") as source, SqliteStore(tmp_path / "b.db") as target:
        await source.add_jobs(new_jobs(3), now_ms=T0)
        with pytest.raises(StillRunning, match="meanwhile"):
            await migrate(source, target, label="x", now_ms=lambda: T0)
        assert source.looks == 4


def test_a_label_never_holds_a_password() -> None:
    assert label_of("mongodb://user:p%40ss@a:1,b:2/name?replicaSet=x") == "mongodb://a:1,b:2/name"
    assert label_of("sqlite:///var/lib/functory.db") == "sqlite:///var/lib/functory.db"


def test_the_version_of_a_store(source: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    known = len(schema.MIGRATIONS)
    status, out, _ = run(capsys, "store", "version", "--store", url(source))
    assert (status, "They fit." in out) == (0, True)
    status, out, _ = run(capsys, "store", "version", "--store", url(tmp_path / "none.db"), "--json")
    assert (status, json.loads(out)["schema"], json.loads(out)["known"]) == (0, 0, known)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE later (x)"))
    status, out, _ = run(capsys, "store", "version", "--store", url(source))
    assert (status, "the next start migrates it" in out) == (0, True)
    monkeypatch.setattr(schema, "MIGRATIONS", ())
    status, out, _ = run(capsys, "store", "version", "--store", url(source))
    assert (status, "too new" in out) == (1, True)


def test_a_source_of_an_older_schema_is_left_as_it_is(tmp_path: Path, capsys: Capture) -> None:
    old = tmp_path / "old.db"
    old.write_bytes(gzip.decompress(OLD.read_bytes()))
    arguments = ("migrate", "--from", url(old), "--to", url(tmp_path / "target.db"))
    status, _, err = run(capsys, *arguments)
    assert (status, "the source has schema 1" in err, "--upgrade" in err) == (2, True, True)
    assert old.read_bytes() == gzip.decompress(OLD.read_bytes())
    assert run(capsys, *arguments, "--upgrade", "--force")[0] == 0


def test_a_source_that_is_in_use_gets_no_new_schema(tmp_path: Path, capsys: Capture) -> None:
    """Its daemons are of its own version, and would go on with what they do not know."""
    old = tmp_path / "old.db"
    old.write_bytes(gzip.decompress(OLD.read_bytes()))
    script = "import apsw, sys; c = apsw.Connection(sys.argv[1]); c.execute('PRAGMA journal_mode = WAL'); print(1)"
    script += "; c.execute('SELECT 1 FROM types').get; sys.stdout.flush(); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script, old], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        status, _, err = run(
            capsys, "migrate", "--from", url(old), "--to", url(tmp_path / "target.db"), "--upgrade", "--force"
        )
        daemon.communicate()
    assert (status, f"in use by process {daemon.pid}" in err) == (5, True), err
    assert json.loads(run(capsys, "store", "version", "--store", url(old), "--json")[1])["schema"] == 1


def test_a_url_that_cannot_be_read_is_refused(source: Path, capsys: Capture) -> None:
    for urls in ((url(source), "mongodb://u:s3cret@[::1/x"), ("mongodb://u:s3cret@[::1/x", url(source))):
        status, _, err = run(capsys, "migrate", "--from", urls[0], "--to", urls[1])
        assert (status, "the store URL cannot be read" in err, "s3cret" in err) == (2, True, False)


def test_a_target_of_an_older_schema_is_left_as_it_is(source: Path, tmp_path: Path, capsys: Capture) -> None:
    """Somebody's store, named by mistake: the daemons that use it could not any more."""
    old = tmp_path / "old.db"
    old.write_bytes(gzip.decompress(OLD.read_bytes()))
    status, _, err = run(capsys, "migrate", "--from", url(source), "--to", url(old))
    assert (status, "the target has schema 1 already" in err) == (2, True), err
    assert old.read_bytes() == gzip.decompress(OLD.read_bytes())


def test_a_store_in_use_is_not_forked(source: Path, capsys: Capture) -> None:
    """Its daemons would end: the store would not know them any more."""

    async def daemons(*, start: bool) -> int:
        now_ms = time.time_ns() // 1_000_000
        async with SqliteStore(source) as store:
            if start:
                await store.reserve_sysid(info="{}", lease_ms=60_000, now_ms=now_ms)
            return len(await store.list_daemons(now_ms=now_ms))

    assert asyncio.run(daemons(start=True)) == 1
    status, _, err = run(capsys, "store", "fork", "--store", url(source))
    assert (status, "daemons of the store are alive" in err) == (5, True)
    assert asyncio.run(daemons(start=False)) == 1
    assert run(capsys, "store", "fork", "--store", url(source), "--force")[0] == 0
    assert asyncio.run(daemons(start=False)) == 0


def test_a_store_that_was_copied_by_hand_gets_a_life_of_its_own(source: Path, tmp_path: Path, capsys: Capture) -> None:
    async def next_sysid() -> int:
        async with SqliteStore(source) as store:
            return int((await store.reserve_sysid(info="", lease_ms=1, now_ms=1)).sysid, 36)

    before = asyncio.run(next_sysid())
    status, out, _ = run(capsys, "store", "fork", "--store", url(source))
    assert (status, "1 daemons of the old one are forgotten" in out) == (0, True)
    assert asyncio.run(next_sysid()) > before + 1
    assert run(capsys, "store", "fork", "--store", url(tmp_path / "none.db"))[0] == 4


def test_whoever_has_the_store_makes_an_operators_key(source: Path, tmp_path: Path, capsys: Capture) -> None:
    status, out, _ = run(capsys, "store", "operator-key", "--store", url(source))
    _, key_id, secret = out.strip().split("_", 2)

    async def found() -> tuple[ApiKey | None, AuditPage]:
        async with SqliteStore(source) as store:
            return await store.get_key(key_id), await store.list_audit(tenant="", limit=1)

    key, audit = asyncio.run(found())
    assert key is not None
    assert (status, key.tenant, key.hash, key.scopes) == (0, "", hash_secret(secret), ("operator", "metrics"))
    assert [event.action for event in audit.events] == ["key.create"]
    assert json.loads(run(capsys, "store", "operator-key", "--json", "--store", url(source))[1])["key"] != out.strip()
    assert run(capsys, "store", "operator-key", "--store", url(tmp_path / "none.db"))[0] == 4


def test_a_store_is_verified(source: Path, capsys: Capture) -> None:
    status, out, _ = run(capsys, "store", "verify", "--store", url(source))
    assert (status, "no damage found" in out) == (0, True)
    status, out, _ = run(capsys, "store", "verify", "--quick", "--json", "--store", url(source))
    assert json.loads(out)["jobs"] == 51
    content = bytearray(source.read_bytes())
    content[8192:12288] = bytes(4096)
    source.write_bytes(content)
    status, _, err = run(capsys, "store", "verify", "--store", url(source))
    assert (status, "damaged" in err or "malformed" in err) == (1, True), err
    source.write_bytes(b"")
    status, _, err = run(capsys, "store", "verify", "--store", url(source))
    assert (status, "there is no store in" in err) == (4, True), err


def test_a_path_that_was_meant_from_this_folder_is_told(
    source: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    status, _, err = run(capsys, "migrate", "--from", f"sqlite:///{source.name}", "--to", "sqlite:////tmp/none.db")
    assert status == 4
    assert f"no file /{source.name}. For the one in this folder, write {url(source)}" in err


def test_secrets_of_a_store_that_is_not_there_are_not_sealed_anew(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "store.db"
    status, _, err = run(capsys, "secret", "rekey", "--data-dir", tmp_path, "--store", url(path))
    assert (status, f"there is no store at {url(path)}" in err) == (4, True), err
    assert not path.exists()
