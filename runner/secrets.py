"""The seam between the runner and whoever keeps the tenants' secrets: what is asked for, and what one gets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from runner.errors import SecretMissingError
from runner.masking import Masker


@dataclass(frozen=True, slots=True)
class GivenSecrets:
    """What a context gets at its start, for life. `stamp` tells these versions from all others of these names."""

    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    stamp: str = ""
    masker: Masker | None = None


NO_SECRETS: Final = GivenSecrets()


class SecretSource(Protocol):
    """Asked before every batch of a handler that names secrets: it runs with the versions that are in force then."""

    def why_locked(self, tenant: str, names: tuple[str, ...]) -> str:
        """Why not all of these can be opened here, as far as is known: jobs that need them are left to others. Whoever
        owns the secrets tells when that is over."""

    async def read(self, tenant: str, names: tuple[str, ...]) -> GivenSecrets:
        """Raises SecretMissingError when one is not set, SecretsLockedError when one cannot be opened here."""


class NoSecretSource:
    """For runners without a store: nothing is set."""

    def why_locked(self, tenant: str, names: tuple[str, ...]) -> str:  # noqa: ARG002 (the protocol's)
        return ""

    async def read(self, tenant: str, names: tuple[str, ...]) -> GivenSecrets:  # noqa: ARG002 (the protocol's)
        raise SecretMissingError(f"the secret {names[0]} is not set: there is no service that keeps secrets here")
