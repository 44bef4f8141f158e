"""The keys under which secrets are sealed: a text file of the operator's, one key a line, the first seals.

    # made by functory, keep a copy apart from the backups
    2026-11-16-a1b2c3 k9Yq…base64 of 32 bytes…=

The others only open what was sealed under them, until `functory secret rekey` has sealed it anew. The first word of a
line is the key's id, which is stored beside each secret; it says nothing of the key.
"""

import base64
import binascii
import errno
import logging
import os
import re
import secrets
from pathlib import Path
from typing import Final, NamedTuple

from functory.errors import InvalidConfig
from journal.durable import create_durably
from runner.errors import SecretsLockedError
from store.errors import StoreFull

log = logging.getLogger("functory.vault")

KEY_BYTES: Final = 32
_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OPEN_TO_OTHERS: Final = 0o007


class SealingKey(NamedTuple):
    id: str
    key: bytes

    def __repr__(self) -> str:
        return f"SealingKey({self.id})"


def parse_keys(text: str, place: str) -> tuple[SealingKey, ...]:
    """Raises InvalidConfig, which says the line and nothing of what stands there."""
    keys: dict[str, SealingKey] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        key = _decode(words[1]) if len(words) == 2 and _ID.fullmatch(words[0]) else b""
        if len(key) != KEY_BYTES:
            raise InvalidConfig(f"{place}: line {number} is not an id and the base64 of {KEY_BYTES} bytes")
        if words[0] in keys:
            raise InvalidConfig(f"{place}: line {number} has the id of a key before it")
        keys[words[0]] = SealingKey(words[0], key)
    if not keys:
        raise InvalidConfig(f"{place}: there is no key in it; `functory secret new-key` prints one")
    return tuple(keys.values())


def read_keys(path: Path) -> tuple[SealingKey, ...]:
    """Raises InvalidConfig when it cannot be read, FileNotFoundError when there is none. Not for the event loop."""
    try:
        if path.stat().st_mode & _OPEN_TO_OTHERS:
            log.warning("vault.key_file_open", extra={"path": str(path), "advice": "others can read it: chmod o-rwx"})
        text = path.read_text()
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"secrets_key_file: {path} cannot be read: {error}") from None
    return parse_keys(text, str(path))


def make_key_file(path: Path) -> tuple[SealingKey, ...]:
    """A new file with one key, for its owner only; or what another process has just made. Durable before it is used: a
    secret that was sealed under a key that a crash took away would be lost. Raises StoreFull, SecretsLockedError if it
    cannot be made. Not for the event loop."""
    text = f"# made by functory; keep a copy apart from the backups of the store\n{new_key_line()}\n"
    try:
        create_durably(path, text.encode())
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"the disk has no room for {path.name}, with which secrets are sealed") from error
        raise SecretsLockedError(
            f"{path.name}, with which secrets are sealed, cannot be made: {error.strerror}"
        ) from error
    else:
        log.warning("vault.key_file_made", extra={"path": str(path), "advice": "docs/secrets.md"})
    return read_keys(path)


def new_key_line() -> str:
    return f"k{secrets.token_hex(4)} {base64.b64encode(os.urandom(KEY_BYTES)).decode()}"


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
