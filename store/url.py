"""From a store URL to a store. The one place that names back ends; each is imported only when it is asked for."""

from importlib import import_module
from typing import Final, Protocol, cast
from urllib.parse import urlsplit

from store.base import Store
from store.checked import CheckedStore
from store.errors import UnsupportedStore


class _MakeStore(Protocol):
    def __call__(self, url: str) -> Store: ...


BACK_ENDS: Final = {
    "sqlite": "store.sqlite:store_from_url",
    "mongodb": "store.mongo:store_from_url",
    "mongodb+srv": "store.mongo:store_from_url",
}
"""Scheme to `module:function`; the function takes the whole URL and returns a store that is not open yet."""


def open_store(url: str) -> CheckedStore:
    """The store for a URL, to be used with `async with`. Connects to nothing before that.

    `sqlite:///absolute/path.db`, `mongodb://host:27017/name`, `mongodb+srv://host/name`.
    Raises UnsupportedStore for anything else. The message never repeats the URL, which may hold a password.
    """
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise UnsupportedStore(f"the store URL cannot be read: {error}") from None
    target = BACK_ENDS.get(scheme)
    if target is None:
        known = ", ".join(f"{name}://" for name in BACK_ENDS)
        raise UnsupportedStore(f"store URL with scheme {scheme!r:.40}: the store speaks {known}")
    module, _, function = target.partition(":")
    make = cast("_MakeStore", getattr(import_module(module), function))
    return CheckedStore(make(url))
