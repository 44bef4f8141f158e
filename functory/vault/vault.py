"""The secrets of a store: set, listed, deleted, sealed anew, and given to contexts.

Ensures: a value leaves here only for the runner. What is kept in memory is bounded, and of one version only.
"""

import asyncio
from collections import OrderedDict
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
_NO_KEY: Final = (
    "this daemon has no key for secrets: with MongoDB the operator gives every daemon the same secrets_key_file "
    "(docs/secrets.md)"
)


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
        self._troubles: dict[tuple[str, tuple[str, ...]], str] = {}
        """What could not be opened last time, and why."""

    async def open(self) -> None:
        """Read the keys, if there are any. Raises InvalidConfig for a file that is named and cannot be read."""
        try:
            await self._load(make=False)
        except SecretsLockedError as error:
            if await self._store.list_secret_tenants():
                self._troubles["", ()] = str(error)

    @property
    def trouble(self) -> str:
        """Why secrets cannot be opened here, for the operator; empty while none was asked for in vain."""
        return next(iter(self._troubles.values()), "")

    @property
    def is_locked(self) -> bool:
        return self._sealer is None and not self._place.may_make

    async def put(self, blank: Secret, value: str) -> Secret:
        """Seal a value as the next version of the name. `blank` says tenant, name, author and time.

        Raises InvalidInput, QuotaExceeded, Conflict, SecretsLockedError.
        """
        _check_value(value)
        sealer = await self._load(make=True)
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
        known = {secret.name: secret for secret in await self.list_set(tenant)}
        if absent := [name for name in names if name not in known]:
            raise SecretMissingError(f"the secret {absent[0]} is not set: `functory secret set {absent[0]}`")
        chosen = [known[name] for name in names]
        stamp = ",".join(f"{secret.name}:{secret.version}" for secret in chosen)
        given = self._given.get((tenant, names))
        if given is None or given.stamp != stamp:
            given = self._given[tenant, names] = await self._open(tenant, chosen, stamp)
            self._given.move_to_end((tenant, names))
            while len(self._given) > 1 and (len(self._given) > _KEPT or self._kept_bytes() > _KEPT_BYTES):
                self._given.popitem(last=False)
        self._given.move_to_end((tenant, names))
        return given

    def _kept_bytes(self) -> int:
        return sum(given.masker.size_bytes for given in self._given.values() if given.masker is not None)

    async def rekey(self) -> int:
        """Seal anew what is not sealed with the first key; how many that was. Raises SecretsLockedError."""
        sealer = await self._load(make=False)
        done = 0
        for tenant in await self._store.list_secret_tenants():
            for secret in await self.list_set(tenant):
                if secret.key_id != sealer.key_id:
                    done += await self._store.reseal_secret(sealer.seal(secret, sealer.open(secret)))
        return done

    async def _open(self, tenant: str, chosen: list[Secret], stamp: str) -> GivenSecrets:
        whose = tenant, tuple(secret.name for secret in chosen)
        try:
            sealer = await self._load(make=False)
            values = {secret.name: sealer.open(secret) for secret in chosen}
        except SecretsLockedError as error:
            if len(self._troubles) < _KEPT:
                self._troubles[whose] = str(error)
            raise
        self._troubles.pop(whose, None)
        masker = await asyncio.to_thread(Masker, values.values())  # a value may have thousands of lines
        return GivenSecrets(values, stamp, masker)

    async def _load(self, *, make: bool) -> Sealer:
        """The keys, which are read once. Raises InvalidConfig, SecretsLockedError."""
        if self._sealer is None:
            self._sealer = Sealer(await asyncio.to_thread(self._keys, make=make))
        return self._sealer

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
                raise SecretsLockedError(f"the key file {path}, under which secrets were sealed, is gone") from None
            return make_key_file(path)


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
