"""How many streams of events are open at once: of one session of a browser, of one key, of one tenant, in total.

Ensures: neither one key nor all keys of one tenant can take every seat. The streams of one session leave its browser
connections for other requests.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from functory.errors import NotReadyYet
from functory.operations.principal import Principal

HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Accel-Buffering": "no",
}
BEAT_S: Final = 15.0
"""Something is sent at least this often, so that proxies keep the connection and a lost reader is noticed."""
_PER_SESSION: Final = 4


class StreamSeats:
    def __init__(self, in_all: int = 500, per_tenant: int = 60, per_key: int = 20) -> None:
        self._in_all = in_all
        self._per_tenant = per_tenant
        self._per_key = per_key
        self._of_key: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        return self._of_key.total()

    def has_room(self, who: Principal) -> bool:
        return (
            self._of_key[who.key_id] < self._per_key
            and self._of_tenant[who.tenant] < self._per_tenant
            and self.taken < self._in_all
        )

    @contextmanager
    def one(self, who: Principal, refusal: str) -> Iterator[None]:
        """A seat while the stream is open. Raises NotReadyYet with that text if there is none."""
        if not self.has_room(who):
            raise NotReadyYet(refusal)
        key, tenant = Counter({who.key_id: 1}), Counter({who.tenant: 1})
        self._of_key += key
        self._of_tenant += tenant
        try:
            yield
        finally:
            self._of_key -= key
            self._of_tenant -= tenant


class SessionSeats:
    """A browser has six connections to a service over all its tabs. If streams had them all, no page would load."""

    def __init__(self) -> None:
        self._open: dict[str, list[Callable[[], bool]]] = {}

    @contextmanager
    def one(self, session: str, has_gone: Callable[[], bool], refusal: str) -> Iterator[None]:
        """A seat while the stream is open. It is free as soon as its reader has gone, although a stream notices that
        only when it next sends something. Raises NotReadyYet with that text if there is none."""
        streams = self._open.setdefault(session, [])
        if sum(not it() for it in streams) >= _PER_SESSION:
            raise NotReadyYet(refusal)
        streams.append(has_gone)
        try:
            yield
        finally:
            streams.remove(has_gone)
            if not streams:
                del self._open[session]
