"""Secrets at rest: sealed under the operator's keys, bound to their place, given to contexts in the newest version."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from functory.config import Settings, load_config
from functory.errors import InvalidConfig, InvalidInput, Missing, QuotaExceeded
from functory.vault import vault as module
from functory.vault.key_file import SealingKey, make_key_file, new_key_line, parse_keys, read_keys
from functory.vault.place import key_place
from functory.vault.sealing import Sealer
from functory.vault.vault import KeyPlace, Vault
from runner.errors import SecretMissingError, SecretsLockedError
from runner.masking import Masker
from store.base import Secret, Store, Tenant
from store.url import open_store
from tests.support.command_line import functory

VALUE = "correct horse battery staple"
BLANK = Secret("acme", "API_KEY", 1, 1000, "key1", "", b"")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(f"sqlite://{tmp_path}/store.db") as made:
        yield made


@pytest.fixture
def place(tmp_path: Path) -> KeyPlace:
    return KeyPlace(tmp_path / "secrets.key", may_make=True)


def keys(*ids: str) -> list[SealingKey]:
    return [SealingKey(name, os.urandom(32)) for name in ids]


def test_a_sealed_value_opens_and_shows_nothing() -> None:
    sealer = Sealer(keys("k1"))
    first, second = sealer.seal(BLANK, VALUE), sealer.seal(BLANK, VALUE)
    assert sealer.open(first) == sealer.open(second) == VALUE
    assert first.data != second.data
    assert VALUE.encode() not in first.data
    assert first.key_id == "k1"


@pytest.mark.parametrize("place", [{"tenant": "other"}, {"name": "OTHER"}, {"version": 2}])
def test_a_record_in_another_place_does_not_open(place: dict[str, object]) -> None:
    sealer = Sealer(keys("k1"))
    moved = Secret(**(sealer.seal(BLANK, VALUE)._asdict() | place))
    with pytest.raises(SecretsLockedError, match="does not open"):
        sealer.open(moved)


def test_damage_and_unknown_keys_are_told_apart() -> None:
    sealer = Sealer(keys("k1"))
    sealed = sealer.seal(BLANK, VALUE)
    for data in (sealed.data[:-1] + bytes([sealed.data[-1] ^ 1]), b"\x02" + sealed.data[1:], b"\x01", sealed.data[:20]):
        with pytest.raises(SecretsLockedError, match="does not open"):
            sealer.open(sealed._replace(data=data))
    with pytest.raises(SecretsLockedError, match="key k1, which this daemon does not have"):
        Sealer(keys("k2")).open(sealed)


def test_a_key_file_is_made_once_and_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "secrets.key"
    made = make_key_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert make_key_file(path) == read_keys(path) == made
    assert made[0].key not in repr(made).encode()


@pytest.mark.parametrize(
    "text",
    ["", "# nothing", "k1", "k1 c2hvcnQ=", "k1 !!!", "k 1 2", "k1 " + "A" * 43 + "= more", "a\n", "k/1 " + "A" * 44],
)
def test_what_is_no_key_file_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_keys(text, "the file")
    assert "c2hvcnQ" not in str(refused.value)


def test_two_keys_have_two_ids() -> None:
    line = new_key_line()
    assert len(parse_keys(f"# old\n{line}\n\n{new_key_line()}\n", "f")) == 2
    with pytest.raises(InvalidConfig, match="line 2 has the id"):
        parse_keys(f"{line}\n{line}", "f")


async def test_a_secret_is_set_rotated_read_and_deleted(store: Store, place: KeyPlace) -> None:
    vault = Vault(store, place)
    with pytest.raises(SecretMissingError, match="functory secret set API_KEY"):
        await vault.read("acme", ("API_KEY",))
    await vault.put(BLANK, "first value")
    first = await vault.read("acme", ("API_KEY",))
    assert await vault.read("acme", ("API_KEY",)) is first
    assert (await vault.put(BLANK, VALUE)).version == 2
    second = await vault.read("acme", ("API_KEY",))
    assert (dict(second.values), first.stamp != second.stamp) == ({"API_KEY": VALUE}, True)
    assert second.masker is not None
    assert second.masker.hide(VALUE.encode()) == b"***"
    assert VALUE not in repr(second)
    await vault.delete("acme", "API_KEY", 2000)
    assert await vault.list_set("acme") == []
    assert await vault.missing("acme", ("API_KEY",)) == ["API_KEY"]
    with pytest.raises(Missing):
        await vault.delete("acme", "API_KEY", 2000)
    assert (await vault.put(BLANK, "again")).version == 4


async def test_the_values_of_a_tenant_that_is_gone_leave_the_memory(store: Store, place: KeyPlace) -> None:
    vault = Vault(store, place)
    for tenant in ("acme", "other"):
        await vault.put(BLANK._replace(tenant=tenant), VALUE)
    kept = {tenant: await vault.read(tenant, ("API_KEY",)) for tenant in ("acme", "other")}
    vault.forget("acme")
    assert await vault.read("acme", ("API_KEY",)) is not kept["acme"]
    assert await vault.read("other", ("API_KEY",)) is kept["other"]


async def test_values_that_were_being_read_when_a_tenant_went_do_not_stay(
    store: Store, place: KeyPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = Vault(store, place)
    await vault.put(BLANK, VALUE)

    def made_meanwhile(values: Iterable[str]) -> Masker:
        vault.forget("acme")
        return Masker(values)

    with monkeypatch.context() as patch:
        patch.setattr(module, "Masker", made_meanwhile)
        first = await vault.read("acme", ("API_KEY",))
    second = await vault.read("acme", ("API_KEY",))
    assert second is not first
    assert await vault.read("acme", ("API_KEY",)) is second


async def test_a_new_tenant_of_the_name_gets_its_own_value_before_anybody_has_told(
    store: Store, place: KeyPlace
) -> None:
    vault = Vault(store, place)
    given: list[str] = []
    for created_ms, author in ((1000, "key1"), (2000, "key1"), (2000, "key2")):  # the clock may have been put back
        await store.create_tenant(Tenant("acme", created_ms))
        await vault.put(BLANK._replace(created_ms=created_ms, author=author), f"value {len(given)}")
        given.append((await vault.read("acme", ("API_KEY",))).values["API_KEY"])
        while (await store.delete_tenant("acme", limit=1000)).more:
            pass
    assert given == ["value 0", "value 1", "value 2"]


async def test_writers_at_once_get_versions_of_their_own(store: Store, place: KeyPlace) -> None:
    vaults = [Vault(store, place) for _ in range(4)]
    made = await asyncio.gather(*(vault.put(BLANK, f"value {n}") for n, vault in enumerate(vaults)))
    assert sorted(secret.version for secret in made) == [1, 2, 3, 4]
    assert len({secret.key_id for secret in made}) == 1  # one key file, whoever made it


async def test_values_and_names_are_bounded(store: Store, place: KeyPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = Vault(store, place)
    for wrong in ("", "x" * (16 * 1024 + 1), "a\0b", "\ud800"):
        with pytest.raises(InvalidInput):
            await vault.put(BLANK, wrong)
    monkeypatch.setattr(module, "MAX_SECRETS", 1)
    await vault.put(BLANK, VALUE)
    await vault.put(BLANK, VALUE)
    with pytest.raises(QuotaExceeded):
        await vault.put(BLANK._replace(name="OTHER"), VALUE)


async def test_keys_are_rotated_by_sealing_anew(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    old, new = new_key_line(), new_key_line()
    await asyncio.to_thread(path.write_text, old)
    await Vault(store, KeyPlace(path)).put(BLANK, VALUE)
    await asyncio.to_thread(path.write_text, f"{new}\n{old}\n")
    vault = Vault(store, KeyPlace(path))
    await vault.open()
    assert dict((await vault.read("acme", ("API_KEY",))).values) == {"API_KEY": VALUE}
    assert await vault.rekey() == (1, ())
    assert await vault.rekey() == (0, ())
    await asyncio.to_thread(path.write_text, new)
    alone = Vault(store, KeyPlace(path))
    assert dict((await alone.read("acme", ("API_KEY",))).values) == {"API_KEY": VALUE}
    assert [secret.version for secret in await alone.list_set("acme")] == [1]


async def test_a_daemon_without_the_key_says_so(store: Store, place: KeyPlace, tmp_path: Path) -> None:
    blind = Vault(store, KeyPlace(None))
    await blind.open()
    assert (blind.why_locked("acme", ("API_KEY",)) != "", blind.trouble) == (True, "")
    await Vault(store, place).put(BLANK, VALUE)
    await blind.open()
    assert "no key for secrets" in blind.trouble
    with pytest.raises(SecretsLockedError, match="no key for secrets"):
        await blind.put(BLANK, VALUE)
    other = Vault(store, KeyPlace(tmp_path / "other.key", may_make=True))
    await asyncio.to_thread(make_key_file, tmp_path / "other.key")
    with pytest.raises(SecretsLockedError, match="which this daemon does not have"):
        await other.read("acme", ("API_KEY",))
    assert "API_KEY" in other.trouble
    await other.put(BLANK, VALUE)
    await other.read("acme", ("API_KEY",))
    assert other.trouble == ""


async def key_file(path: Path, *lines: str) -> KeyPlace:
    await asyncio.to_thread(path.write_text, "\n".join(lines) + "\n")
    return KeyPlace(path)


async def test_what_cannot_be_opened_is_known_by_handler_until_it_can(store: Store, tmp_path: Path) -> None:
    """A daemon that was not restarted yet while the key is rotated."""
    old, new = new_key_line(), new_key_line()
    ahead = Vault(store, await key_file(tmp_path / "both", new, old))
    behind = Vault(store, await key_file(tmp_path / "old", old))
    changed: list[str] = []
    behind.when_changed(changed.append)
    await behind.put(BLANK._replace(name="OLD"), VALUE)
    await behind.open()
    await ahead.put(BLANK, VALUE)
    assert behind.why_locked("acme", ("OLD", "API_KEY")) == ""
    with pytest.raises(SecretsLockedError):
        await behind.read("acme", ("OLD", "API_KEY"))
    await behind.look()
    assert "API_KEY is sealed with the key" in behind.why_locked("acme", ("OLD", "API_KEY"))
    assert behind.why_locked("acme", ("OLD",)) == behind.why_locked("other", ("API_KEY",)) == ""
    assert changed == []
    await Vault(store, await key_file(tmp_path / "back", old, new)).rekey()
    await behind.look()
    assert (behind.why_locked("acme", ("OLD", "API_KEY")), behind.trouble, changed) == ("", "", ["acme"])


async def test_a_secret_that_does_not_open_does_not_keep_others_from_being_sealed_anew(
    store: Store, tmp_path: Path
) -> None:
    old, new = new_key_line(), new_key_line()
    lost = await Vault(store, await key_file(tmp_path / "lost", new_key_line())).put(BLANK, VALUE)
    await Vault(store, await key_file(tmp_path / "old", old)).put(BLANK._replace(tenant="later"), VALUE)
    done = await Vault(store, await key_file(tmp_path / "both", new, old)).rekey()
    assert done == (1, (lost,))


async def test_no_key_is_made_beside_secrets_whose_key_is_gone(store: Store, place: KeyPlace) -> None:
    assert place.path is not None
    await Vault(store, place).put(BLANK, VALUE)
    kept = await asyncio.to_thread(place.path.read_text)
    await asyncio.to_thread(place.path.unlink)
    vault = Vault(store, place)
    await vault.open()
    with pytest.raises(SecretsLockedError, match="is gone"):
        await vault.put(BLANK._replace(name="OTHER"), VALUE)
    assert "is gone" in vault.trouble
    assert vault.why_locked("acme", ("API_KEY",))
    await asyncio.to_thread(place.path.write_text, kept)
    await vault.look()
    assert (vault.trouble, vault.why_locked("acme", ("API_KEY",))) == ("", "")
    assert dict((await vault.read("acme", ("API_KEY",))).values) == {"API_KEY": VALUE}


async def test_whoever_reads_the_key_file_that_was_put_back_ends_the_trouble(store: Store, place: KeyPlace) -> None:
    assert place.path is not None
    first = await Vault(store, place).put(BLANK, VALUE)
    await asyncio.to_thread(place.path.unlink)
    vault = Vault(store, place)
    changed: list[str] = []
    vault.when_changed(changed.append)
    await vault.open()
    await key_file(place.path, new_key_line())
    await vault.put(BLANK._replace(name="OTHER"), VALUE)
    assert (vault.trouble, vault.why_locked("acme", ("OTHER",)), changed) == ("", "", [""])
    await vault.look()
    assert f"sealed with {first.key_id}, not in the key file" in vault.trouble  # it is not the right one


async def test_when_nothing_is_left_to_open_no_key_is_missed(store: Store, place: KeyPlace) -> None:
    assert place.path is not None
    await Vault(store, place).put(BLANK, VALUE)
    await asyncio.to_thread(place.path.unlink)
    vault = Vault(store, place)
    changed: list[str] = []
    vault.when_changed(changed.append)
    await vault.open()
    await vault.delete("acme", "API_KEY", 2000)
    await vault.look()
    assert (vault.trouble, changed) == ("", [""])
    await vault.put(BLANK, VALUE)
    assert vault.why_locked("acme", ("API_KEY",)) == ""


async def test_keys_that_the_file_lacks_are_told_until_nothing_is_sealed_with_them(
    store: Store, place: KeyPlace, tmp_path: Path
) -> None:
    first = await Vault(store, place).put(BLANK, VALUE)
    anew = Vault(store, await key_file(tmp_path / "new", new_key_line()))
    await anew.open()
    assert f"sealed with {first.key_id}, not in the key file" in anew.trouble
    await anew.put(BLANK, VALUE)
    await anew.look()
    assert anew.trouble == ""


async def test_a_file_that_is_named_must_be_there(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="no file"):
        await Vault(store, KeyPlace(tmp_path / "none")).open()


def test_where_the_keys_are(tmp_path: Path) -> None:
    assert key_place(Settings(data_dir=tmp_path)) == KeyPlace(tmp_path / "secrets.key", may_make=True)
    assert key_place(Settings(store="sqlite:///srv/a%20b/jobs.db")) == KeyPlace(
        Path("/srv/a b/secrets.key"), may_make=True
    )
    assert key_place(Settings(store="mongodb://db")) == KeyPlace(None)
    assert key_place(Settings(store="mongodb://db", secrets_key_file="/k")) == KeyPlace(Path("/k"))
    (tmp_path / "functory.secrets_key").write_text(new_key_line())
    settings = load_config({}, {"CREDENTIALS_DIRECTORY": str(tmp_path)}).settings
    assert key_place(settings) == KeyPlace(tmp_path / "functory.secrets_key")


async def test_a_key_file_that_is_open_to_others_is_named(tmp_path: Path) -> None:
    keys_file = tmp_path / "both.keys"
    await asyncio.to_thread(keys_file.write_text, new_key_line())
    await asyncio.to_thread(keys_file.chmod, 0o644)
    async with open_store(f"sqlite://{tmp_path / 'functory.db'}"):
        pass
    ended = await functory("secret", "rekey", "--data-dir", str(tmp_path), "--secrets-key-file", str(keys_file))
    assert ended.status == 0, ended.err
    assert f'path={keys_file} advice="others can read it: chmod o-rwx"' in ended.err
