"""The secrets of a store: set, listed, deleted, sealed anew, and given to contexts.

Ensures: a value leaves here only for the runner, and to check what others send to webhooks. What is kept in memory is
bounded, and of one version only.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from functory.errors import InvalidConfig, InvalidInput, Missing, QuotaExceeded
from functory.vault.key_file import SealingKey, make_key_file, read_keys
from functory.vault.sealing import Sealer
from runner.errors import SecretMissingError, SecretsLockedError
from runner.masking import Masker
from runner.secrets import GivenSecrets
from store.base import Secret, Store
from store.errors import Conflict

MAX_VALUE_BYTES: Final = 16 * 1024
MAX_SECRETS: Final = 100
"""Of a tenant; names that were deleted count, as they are kept."""
_KEPT: Final = 256
_KEPT_BYTES: Final = 64 << 20
_TRIES: Final = 5
_SAME_FILE: Final = "the operator gives every daemon the same secrets_key_file (docs/secrets.md)"
_NO_KEY: Final = f"this daemon has no key for secrets: with MongoDB {_SAME_FILE}"
_NAMED: Final = 5


class Resealed(NamedTuple):
    """What `rekey` did. not_opened: secrets that stay as they are, because no key of the file opens them."""

    done: int
    not_opened: tuple[Secret, ...] = ()


class KeyPlace(NamedTuple):
    """Where the operator's keys are. may_make: the file is made at first use if it does not exist."""

    path: Path | None
    may_make: bool = False


class Vault:
    """Implements `runner.secrets.SecretSource`."""

    def __init__(self, store: Store, place: KeyPlace) -> None:
        self._store = store
        self._place = place
        self._sealer: Sealer | None = None
        self._given: OrderedDict[tuple[str, tuple[str, ...]], GivenSecrets] = OrderedDict()
        self._forgotten = 0
        """How often values were forgotten: what was read before that is not kept."""
        self._locked: dict[tuple[str, str], str] = {}
        """Tenant and name of secrets that could not be opened when they were last asked for, and why."""
        self._no_keys = ""
        """Why there are no keys here, although there are secrets."""
        self._lacking: list[str] = []
        """Ids of keys with which secrets are sealed, and which are not in the file."""
        self._changed: Callable[[str], None] = lambda _: None

    async def open(self) -> None:
        """Read the keys, if there are any. Raises InvalidConfig for a file that is named and cannot be read."""
        with suppress(SecretsLockedError):
            await self._load(make=False)
        await self.look()

    def when_changed(self, listener: Callable[[str], None]) -> None:
        """The listener is told a tenant of which a secret can be opened again ("": of any may)."""
        self._changed = listener

    async def look(self) -> None:
        """Upkeep: see anew what cannot be opened here. Secrets may have been set, deleted, or sealed anew: elsewhere
        and with a key that is not here, although values that were opened before are still in memory."""
        keys = await self._store.list_secret_keys()
        try:
            sealer = await self._load(make=False)
        except (SecretsLockedError, InvalidConfig) as error:
            self._note_keys(str(error) if keys else "")
            return
        self._note_keys("")
        self._lacking = [key_id for key_id in keys if not sealer.has_key(key_id)]
        for tenant in sorted({tenant for tenant, _ in self._locked}):
            known = {secret.name: secret for secret in await self.list_set(tenant)}
            for name in [name for whose, name in self._locked if whose == tenant]:
                if name not in known or _opens(sealer, known[name]):
                    self._unlocked(tenant, name)

    @property
    def trouble(self) -> str:
        """Why secrets cannot be opened here, for the operator; empty if all can, as far as is known."""
        lacking = ", ".join(self._lacking[:_NAMED])
        told = f"secrets are sealed with {lacking}, not in the key file of this daemon: {_SAME_FILE}" if lacking else ""
        return self._no_keys or next(iter(self._locked.values()), told)

    def why_locked(self, tenant: str, names: tuple[str, ...]) -> str:
        """Why not all of these can be opened here; "" if they can, as far as is known."""
        if self._no_keys or (self._sealer is None and not self._place.may_make):
            return f"it has no key for secrets: {_SAME_FILE}"  # what tenants see too: it names no file
        return next((why for name in names if (why := self._locked.get((tenant, name)))), "")

    async def put(self, blank: Secret, value: str) -> Secret:
        """Seal a value as the next version of the name. `blank` says tenant, name, author and time.

        Raises InvalidInput, QuotaExceeded, Conflict, SecretsLockedError.
        """
        _check_value(value)
        if self._sealer is None:  # a key that is made anew would hide that the one for the others is gone
            await self._load(make=not await self._store.list_secret_keys())
        sealer = await self._load(make=False)
        for _ in range(_TRIES):
            known = {secret.name: secret for secret in await self._store.list_secrets(blank.tenant)}
            if blank.name not in known and len(known) >= MAX_SECRETS:
                raise QuotaExceeded(
                    f"the tenant has had {len(known)} names of secrets, and may have {MAX_SECRETS}: use one of them",
                    detail={"quota": "secrets", "limit": MAX_SECRETS},
                )
            version = known[blank.name].version + 1 if blank.name in known else 1
            sealed = sealer.seal(blank._replace(version=version), value)
            if await self._store.put_secret(sealed):
                self._unlocked(blank.tenant, blank.name)
                return sealed
        raise Conflict(f"the secret {blank.name} is being changed by somebody else: try again")

    async def list_set(self, tenant: str) -> list[Secret]:
        """Those that are set."""
        return [secret for secret in await self._store.list_secrets(tenant) if secret.data]

    async def delete(self, tenant: str, name: str, now_ms: int) -> None:
        """Raises Missing."""
        if not await self._store.delete_secret(tenant, name, now_ms=now_ms):
            raise Missing(f"there is no secret {name}")

    async def missing(self, tenant: str, names: tuple[str, ...]) -> list[str]:
        """Those of the names that are not set."""
        known = {secret.name for secret in await self.list_set(tenant)} if names else set()
        return [name for name in names if name not in known]

    async def read(self, tenant: str, names: tuple[str, ...]) -> GivenSecrets:
        forgotten = self._forgotten
        known = {secret.name: secret for secret in await self.list_set(tenant)}
        if absent := [name for name in names if name not in known]:
            raise SecretMissingError(f"the secret {absent[0]} is not set: `functory secret set {absent[0]}`")
        chosen = [known[name] for name in names]
        stamp = ",".join(map(_stamp, chosen))
        given = self._given.get((tenant, names))
        if given is None or given.stamp != stamp:
            given = await self._open(tenant, chosen, stamp)
            if self._forgotten != forgotten:
                return given
            self._given[tenant, names] = given
            self._given.move_to_end((tenant, names))
            while len(self._given) > 1 and (len(self._given) > _KEPT or self._kept_bytes() > _KEPT_BYTES):
                self._given.popitem(last=False)
        self._given.move_to_end((tenant, names))
        return given

    def forget(self, tenant: str) -> None:
        """The tenant is gone: its values leave the memory."""
        self._forgotten += 1
        for key in [key for key in self._given if key[0] == tenant]:
            del self._given[key]
        for _, name in [key for key in self._locked if key[0] == tenant]:
            self._unlocked(tenant, name)

    def _kept_bytes(self) -> int:
        return sum(given.masker.size_bytes for given in self._given.values() if given.masker is not None)

    async def rekey(self) -> Resealed:
        """Seal anew what is not sealed with the first key and can be opened. Raises SecretsLockedError."""
        sealer = await self._load(make=False)
        done, not_opened = 0, []
        for tenant in await self._store.list_secret_tenants():
            for secret in await self.list_set(tenant):
                if secret.key_id == sealer.key_id:
                    continue
                try:
                    value = sealer.open(secret)
                except SecretsLockedError:
                    not_opened.append(secret)
                else:
                    done += await self._store.reseal_secret(sealer.seal(secret, value))
        return Resealed(done, tuple(not_opened))

    async def _open(self, tenant: str, chosen: list[Secret], stamp: str) -> GivenSecrets:
        values = {}
        for secret in chosen:
            try:
                values[secret.name] = (await self._load(make=False)).open(secret)
            except SecretsLockedError as error:
                self._locked[tenant, secret.name] = str(error)
                raise
            self._unlocked(tenant, secret.name)
        masker = await asyncio.to_thread(Masker, values.values())  # a value may have thousands of lines
        return GivenSecrets(values, stamp, masker)

    def _unlocked(self, tenant: str, name: str) -> None:
        if self._locked.pop((tenant, name), ""):
            self._changed(tenant)

    async def _load(self, *, make: bool) -> Sealer:
        """The keys, which are read once. Raises InvalidConfig, SecretsLockedError."""
        if self._sealer is None:
            self._sealer = Sealer(await asyncio.to_thread(self._keys, make=make))
            self._note_keys("")
        return self._sealer

    def _note_keys(self, why_not: str) -> None:
        """Why there are no keys; "" if there are some, or nothing to open."""
        before, self._no_keys = self._no_keys, why_not
        if before and not why_not:
            self._changed("")

    def _keys(self, *, make: bool) -> tuple[SealingKey, ...]:
        path, may_make = self._place
        if path is None:
            raise SecretsLockedError(_NO_KEY)
        try:
            return read_keys(path)
        except FileNotFoundError:
            if not may_make:
                raise InvalidConfig(f"secrets_key_file: there is no file {path}") from None
            if not make:
                raise SecretsLockedError(
                    f"the key file {path.name}, with which secrets are sealed, is gone: the operator puts it back from"
                    " its copy, or begins anew with another key (docs/secrets.md)"
                ) from None
            return make_key_file(path)


def _stamp(secret: Secret) -> str:
    """Versions begin anew with a tenant that gets the name of a deleted one, so it has time and author too. Not the
    data, which changes when the same value is sealed anew."""
    return f"{secret.name}:{secret.version}:{secret.created_ms}:{secret.author}"


def _opens(sealer: Sealer, secret: Secret) -> bool:
    try:
        sealer.open(secret)
    except SecretsLockedError:
        return False
    return True


def _check_value(value: str) -> None:
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidInput("the value is not valid Unicode", detail={"field": "value"}) from None
    if not 1 <= size_bytes <= MAX_VALUE_BYTES:
        raise InvalidInput(
            f"the value has {size_bytes} bytes, and must have from 1 to {MAX_VALUE_BYTES}", detail={"field": "value"}
        )
    if "\0" in value:
        raise InvalidInput(
            "the value has a NUL in it, which no environment variable can have", detail={"field": "value"}
        )
