"""The address of a server and the key for it, checked before anything is sent. Light: every `--help` imports it."""

from typing import Final

from functory.errors import InvalidInput

DEFAULT_URL: Final = "http://127.0.0.1:8484"


def check_key(key: str) -> None:
    """Raises InvalidInput for a key that no request could carry."""
    if not (key.isascii() and key.isprintable()):
        raise InvalidInput("the key has characters that no key has, such as a line break in it")


def check_url(url: str) -> None:
    """Raises InvalidInput."""
    scheme, mark, rest = url.partition("://")
    host, _, path = (rest or url).partition("/")
    if "@" in host:
        raise InvalidInput("the URL of a server has no user and no password: leave them out, and give a key")
    if not mark or scheme.lower() not in {"http", "https"}:
        raise InvalidInput(f"{url!r}: the URL of a server begins with http:// or https://, such as {DEFAULT_URL}")
    if path.partition("/")[0] == "ui":
        raise InvalidInput(f"{url!r} is the address of a page: leave out what follows the host, as in {DEFAULT_URL}")


def not_a_url(url: str) -> InvalidInput:
    """For what only a look at all of it shows."""
    return InvalidInput(f"{url!r} is not the URL of a server, such as {DEFAULT_URL}")
