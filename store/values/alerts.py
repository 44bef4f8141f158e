"""Alert rules of tenants, as the store keeps them."""

from typing import NamedTuple


class AlertRecord(NamedTuple):
    """A rule under a name. settings and state are the application's own texts; the store never reads them.

    version grows by one with every change, of the settings or of the state. created_ms tells a rule from one of the
    same name that was deleted before.
    """

    tenant: str
    name: str
    version: int
    created_ms: int
    author: str
    settings: str
    state: str
