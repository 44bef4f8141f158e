"""A request of another service, as far as a webhook looks at it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Delivery(NamedTuple):
    """headers: by their names in small letters; several of one name are joined. query: each name with its values. Texts
    may hold bytes that are no UTF-8, as lone surrogates."""

    method: str
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        """Empty if it is not there."""
        return self.headers.get(name.lower(), "").strip()


def as_sent(text: str) -> bytes:
    """The bytes of a text of a delivery."""
    return text.encode("utf-8", "surrogatepass")
