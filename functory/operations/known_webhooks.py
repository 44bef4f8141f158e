"""The webhooks that this daemon looked up a moment ago, each with its tenant and the values of its secrets.

Who posts to one has no key, so whatever must be looked up is looked up once, also that there is none. A change on this
daemon holds at once, one on another after LIFE_S. While the store cannot be reached, a webhook that was good before
stays good for GRACE_S, as a key does.
"""

from typing import Final, NamedTuple

from functory.loops.one_look import OneLook
from functory.operations.principal import Principal
from functory.operations.verified_keys import GRACE_S, LIFE_S
from functory.webhooks.terms import Terms

_MAX_KNOWN: Final = 2000


class KnownWebhook(NamedTuple):
    who: Principal
    terms: Terms
    values: tuple[str, ...]
    """Of its secrets."""
    trouble: str = ""
    """Why they cannot be read; empty if they can."""


class _Seen(NamedTuple):
    webhook: KnownWebhook | None
    at_ms: int
    changes: int


class KnownWebhooks:
    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {}
        self.changes = 0
        """How often webhooks or secrets were changed here."""
        self.looks: OneLook[tuple[str, str, int], KnownWebhook | None] = OneLook()

    def recent(self, tenant: str, name: str, now_ms: int, changes: int) -> KnownWebhook | None:
        """As it was seen a moment ago. changes: of whatever it depends on. Raises KeyError when it must be looked
        up."""
        seen = self._seen[tenant, name]
        if abs(now_ms - seen.at_ms) >= LIFE_S * 1000 or seen.changes != changes:
            raise KeyError(name)
        return seen.webhook

    def last(self, tenant: str, name: str, now_ms: int) -> KnownWebhook | None:
        """As it was when the store could be asked, if that is not long ago."""
        seen = self._seen.get((tenant, name))
        return None if seen is None or abs(now_ms - seen.at_ms) > GRACE_S * 1000 else seen.webhook

    def keep(self, tenant: str, name: str, webhook: KnownWebhook | None, at_ms: int, changes: int) -> None:
        """changes: as they were before the store was asked."""
        self._seen.pop((tenant, name), None)
        if len(self._seen) >= _MAX_KNOWN:
            del self._seen[next(iter(self._seen))]
        self._seen[tenant, name] = _Seen(webhook, at_ms, changes)
