"""Secrets of a tenant in memory, for runners without a store."""

from typing import Final

from runner.errors import SecretMissingError, SecretsLockedError
from runner.masking import Masker
from runner.secrets import GivenSecrets

VALUE: Final = "s3same-öpen/42"


class Shelf:
    """Secrets in memory."""

    def __init__(self) -> None:
        self.values = {"API_KEY": VALUE, "OTHER": "not-asked-for"}
        self.version = 1

    def why_locked(self, tenant: str, names: tuple[str, ...]) -> str:
        return "" if tenant == "acme" or not names else "the key is in another castle"

    async def read(self, tenant: str, names: tuple[str, ...]) -> GivenSecrets:
        if tenant != "acme":
            raise SecretsLockedError("the key is in another castle")
        try:
            values = {name: self.values[name] for name in names}
        except KeyError as error:
            raise SecretMissingError(f"the secret {error.args[0]} is not set") from None
        return GivenSecrets(values, f"{names}:{self.version}", Masker(values.values()))
