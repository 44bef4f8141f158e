"""The webhooks that this daemon looked up a moment ago, each with its tenant and the values of its secrets.

Who posts to one has no key, so whatever must be looked up is looked up once, also that there is none. A change on this
daemon holds at once, one on another after LIFE_S. While the store cannot be reached, a webhook that was good before
stays good for GRACE_S, as a key does, unless it was changed here. What strangers guess drives none of them out.
"""

from typing import Final, NamedTuple

from functory.loops.one_look import OneLook
from functory.operations.principal import Principal
from functory.operations.verified_keys import GRACE_S, LIFE_S
from functory.webhooks.terms import Terms

_MAX_KNOWN: Final = 2000
"""Of webhooks, and of addresses where there is none."""


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
    keys: int
    """How often keys and tenants had been changed."""
    asked_ms: int
    """When the store was asked last, and perhaps could not be reached."""


class KnownWebhooks:
    def __init__(self) -> None:
        self._there: dict[tuple[str, str], _Seen] = {}
        self._absent: dict[tuple[str, str], _Seen] = {}
        self.changes = 0
        """How often webhooks or secrets were changed here."""
        self.looks: OneLook[tuple[str, str, int], KnownWebhook | None] = OneLook()

    def recent(self, tenant: str, name: str, now_ms: int, keys: int) -> KnownWebhook | None:
        """As it was seen a moment ago. keys: how often keys and tenants were changed until now. Raises KeyError when it
        must be looked up."""
        seen = self._there.get((tenant, name)) or self._absent[tenant, name]
        if abs(now_ms - seen.asked_ms) >= LIFE_S * 1000 or seen.keys != keys:
            raise KeyError(name)
        return seen.webhook

    def last(self, tenant: str, name: str, now_ms: int, keys: int) -> KnownWebhook | None:
        """As it was when the store could be asked, if that is not long ago and nothing was changed here since."""
        seen = self._there.get((tenant, name))
        if seen is None or abs(now_ms - seen.at_ms) > GRACE_S * 1000 or seen.keys != keys:
            return None
        return seen.webhook

    def asked_in_vain(self, tenant: str, name: str, now_ms: int) -> None:
        """It counts as recent then, if it is known: each look may last as long as senders wait."""
        seen = self._there.get((tenant, name))
        if seen is not None:
            self._there[tenant, name] = seen._replace(asked_ms=now_ms)

    def keep(self, tenant: str, name: str, webhook: KnownWebhook | None, at_ms: int, keys: int, changes: int) -> None:
        """keys, changes: as they were before the store was asked. If webhooks or secrets have changed since, the answer
        may be of before."""
        if changes != self.changes:
            return
        self._there.pop((tenant, name), None)
        self._absent.pop((tenant, name), None)
        where = self._absent if webhook is None else self._there
        if len(where) >= _MAX_KNOWN:
            del where[next(iter(where))]
        where[tenant, name] = _Seen(webhook, at_ms, keys, at_ms)

    def forget(self, tenant: str) -> None:
        """After a change of a webhook or of a secret."""
        self.changes += 1
        for where in (self._there, self._absent):
            for known in [known for known in where if known[0] == tenant]:
                del where[known]
