"""One value, sealed with AES-256-GCM under one of the operator's keys.

A sealed value is a byte for the format, a nonce of 12 random bytes, and the ciphertext with its tag. Tenant, name and
version are bound to it as associated data: a record that was copied to another tenant, under another name or back from
an older version does not open.
"""

import os
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from functory.vault.key_file import SealingKey
from runner.errors import SecretsLockedError
from store.base import Secret

_FORMAT: Final = b"\x01"
_NONCE_BYTES: Final = 12


class Sealer:
    def __init__(self, keys: Sequence[SealingKey]) -> None:
        self._first = keys[0].id
        self._ciphers = {key.id: AESGCM(key.key) for key in keys}

    @property
    def key_id(self) -> str:
        """Of the key that seals."""
        return self._first

    def has_key(self, key_id: str) -> bool:
        return key_id in self._ciphers

    def seal(self, blank: Secret, value: str) -> Secret:
        """The secret with its data and the id of the key."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self._first].encrypt(nonce, value.encode(), _bound(blank))
        return blank._replace(key_id=self._first, data=_FORMAT + nonce + sealed)

    def open(self, secret: Secret) -> str:
        """Raises SecretsLockedError."""
        cipher = self._ciphers.get(secret.key_id)
        if cipher is None:
            raise SecretsLockedError(
                f"the secret {secret.name} is sealed with the key {secret.key_id}, which this daemon does not have: "
                "the operator gives every daemon the same secrets_key_file (docs/secrets.md)"
            )
        nonce, sealed = secret.data[1 : 1 + _NONCE_BYTES], secret.data[1 + _NONCE_BYTES :]
        refusal = SecretsLockedError(
            f"the secret {secret.name} does not open with the key {secret.key_id}: its record is damaged or was put in "
            "another's place; set it anew"
        )
        if secret.data[:1] != _FORMAT:
            raise refusal
        try:
            return cipher.decrypt(nonce, sealed, _bound(secret)).decode()
        except (InvalidTag, ValueError):
            raise refusal from None


def _bound(secret: Secret) -> bytes:
    return f"functory secret\0{secret.tenant}\0{secret.name}\0{secret.version}".encode()
