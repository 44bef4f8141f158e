"""Keys of the last life: good as long as they would have been, gone when anything about keys has changed."""

import asyncio
from pathlib import Path

import pytest

from functory.daemon.kept_keys import KeptKeys
from functory.operations.principal import OPERATOR, Principal
from functory.operations.verified_keys import VerifiedKey, VerifiedKeys
from functory.tenant_limits import TenantLimits

SUBMITS = Principal("k1", "acme", frozenset({"submit", "read"}), TenantLimits(max_jobs=7), suspended=True)


def verified(who: Principal = SUBMITS, checked_ms: int = 1000, expires_ms: int | None = 5000) -> VerifiedKey:
    return VerifiedKey(who._replace(expires_ms=expires_ms), checked_ms)


async def recalled(path: Path, mark: str = "here") -> dict[bytes, VerifiedKey]:
    keys = VerifiedKeys()
    await KeptKeys(path, mark, keys).recall()
    return keys.by_digest


async def written(path: Path, *keys: VerifiedKey) -> tuple[VerifiedKeys, KeptKeys]:
    known = VerifiedKeys()
    kept = KeptKeys(path, "here", known)
    for number, key in enumerate(keys):
        known.keep(known.by_digest, bytes([number]) * 32, key)
    await kept.write()
    return known, kept


async def test_what_the_store_said_outlives_the_process(tmp_path: Path) -> None:
    await written(tmp_path / "keys", verified())
    assert await recalled(tmp_path / "keys") == {bytes(32): verified()}
    assert await recalled(tmp_path / "keys", "another store") == {}
    assert await recalled(tmp_path / "none") == {}


async def test_only_keys_that_are_of_use_without_the_store_are_kept(tmp_path: Path) -> None:
    operator = Principal("k2", OPERATOR, frozenset({"operator", "submit"}), TenantLimits())
    reader = Principal("k3", "acme", frozenset({"read"}), TenantLimits())
    await written(tmp_path / "keys", verified(operator), verified(reader), verified())
    assert [key.principal.key_id for key in (await recalled(tmp_path / "keys")).values()] == ["k1"]
    assert b"k2" not in await asyncio.to_thread((tmp_path / "keys").read_bytes)


async def test_a_change_of_keys_removes_the_file(tmp_path: Path) -> None:
    known, kept = await written(tmp_path / "keys", verified())
    known.forget()
    await kept.write()
    assert await recalled(tmp_path / "keys") == {}


async def test_a_change_while_the_file_is_written_removes_it_too(tmp_path: Path) -> None:
    known, kept = await written(tmp_path / "keys")
    known.keep(known.by_digest, bytes(32), verified())
    writing = asyncio.create_task(kept.write())
    await asyncio.sleep(0)
    known.forget()
    await writing
    await kept.write()
    assert await recalled(tmp_path / "keys") == {}


async def test_the_same_again_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[Path] = []
    monkeypatch.setattr("functory.daemon.kept_keys.replace_durably", lambda path, _: writes.append(path))
    known, kept = await written(tmp_path / "keys", verified())
    known.keep(known.by_digest, bytes(32), verified(checked_ms=2000))
    await kept.write()
    assert len(writes) == 1
    known.keep(known.by_digest, bytes(32), verified(checked_ms=1000 + 60_000))
    await kept.write()
    assert len(writes) == 2


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"mark": "here", "keys": [{"digest": 5}]}', b"[" * 5000])
async def test_a_damaged_file_is_no_file(tmp_path: Path, content: bytes) -> None:
    await asyncio.to_thread((tmp_path / "keys").write_bytes, content)
    assert await recalled(tmp_path / "keys") == {}
