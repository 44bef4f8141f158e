"""Secrets on the wire. Values go in and never come out."""

from typing import Annotated

from msgspec import Meta

from functory.wire.base import Answer, Request


class SecretBody(Request):
    """The value: text of up to 16 KiB, as an environment variable can hold it."""

    value: Annotated[str, Meta(min_length=1, max_length=16_384)]


class SecretRow(Answer):
    """All that is told of a secret. `author` is the id of the key that set it."""

    name: str
    version: int
    set_ms: int
    author: str


class SecretList(Answer):
    secrets: list[SecretRow]
