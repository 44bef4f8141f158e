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

    @property
    def is_locked(self) -> bool:
        """Whether no secret can be opened here at all: jobs that need one are left to others."""

    async def read(self, tenant: str, names: tuple[str, ...]) -> GivenSecrets:
        """Raises SecretMissingError when one is not set, SecretsLockedError when one cannot be opened here."""


class NoSecretSource:
    """For runners without a store: nothing is set."""

    @property
    def is_locked(self) -> bool:
        return False

    async def read(self, tenant: str, names: tuple[str, ...]) -> GivenSecrets:  # noqa: ARG002 (the protocol's)
        raise SecretMissingError(f"the secret {names[0]} is not set: there is no service that keeps secrets here")
