"""Tells the other daemons what happened here: at once after a quiet time, and otherwise together with what follows.

Jobs that this daemon is about to start itself are not told: types that got jobs are held back for a moment, and those
of which nothing waits any more then are left out. So daemons do not run after each other's jobs.

Costs nothing while there is nobody to tell.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from functory.execution.endings import Ending
from functory.peers.news import Look, News
from functory.peers.peers import Peers
from store.base import Archive, Discard, Finish, Unclaim
from vocabulary.names import jobtype_of, tenant_of

_INTERVAL_S: Final = 0.01
"""Between two messages to the same peer."""
_PEERS_AT_ONCE: Final = 20
"""With more peers than this, the interval grows with their number: what a daemon sends stays bounded."""
_HELD_BACK_S: Final = 0.005


class Announcer:
    def __init__(self, peers: Peers, is_starting: Callable[[], bool], is_clear: Callable[[str], bool]) -> None:
        """is_starting: this daemon starts jobs now. is_clear: nothing of a type is known to wait."""
        self.peers = peers
        self._is_starting = is_starting
        self._is_clear = is_clear
        self._news = News()
        self._arrived = News()
        """Types that got jobs, which may be started here."""
        self._timer: asyncio.TimerHandle | None = None
        self._sent_s = -math.inf

    def added(self, jobtypes: Iterable[str]) -> None:
        """Jobs of these types were added to the store."""
        if self.peers.others:
            self._arrived.note_added(jobtypes)
            self._send_in(_HELD_BACK_S if self._is_starting() else 0.0)

    def released(self, endings: Sequence[Ending]) -> None:
        """The outbox has recorded these."""
        if not self.peers.others:
            return
        self._news.note_ended(
            [release.id for _, release, _ in endings if isinstance(release, Archive | Discard | Finish)]
        )
        for job, release, wanted in endings:
            if job.parent:
                self._news.look |= Look.JOBS  # its parent may go on
            if job.seq is not None or isinstance(release, Unclaim):
                self._news.note_added((job.jobtype,))
            if wanted:
                self._arrived.note_added({jobtype_of(tenant_of(job.jobtype), one.type) for one in wanted})
        self._send_in(0.0)

    def cancelled(self, job_id: str) -> None:
        if self.peers.others:
            self._news.note_cancelled((job_id,))
            self._news.note_ended((job_id,))
            self._send_in(0.0)

    def freed(self, job_ids: Iterable[str]) -> None:
        """Workers that took these jobs from other daemons do not hold them any more."""
        if self.peers.others:
            self._news.note_freed(job_ids)
            self._send_in(0.0)

    def changed(self, tenant: str) -> None:
        """Handlers or pauses of a tenant have changed."""
        if self.peers.others:
            self._news.note_changed(tenant)
            self._send_in(0.0)

    def left(self, tenant: str, mark: int) -> None:
        """A worker has said goodbye."""
        if self.peers.others:
            self._news.note_left(tenant, mark)
            self._send_in(0.0)

    def tell(self, look: Look) -> None:
        if self.peers.others:
            self._news.look |= look
            self._send_in(0.0)

    def close(self) -> None:
        """Send what is left, and nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._send()

    def _send_in(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        interval_s = _INTERVAL_S * max(1.0, len(self.peers.others) / _PEERS_AT_ONCE)
        due_s = max(loop.time() + delay_s, self._sent_s + interval_s)
        if self._timer is not None:
            if self._timer.when() <= due_s:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due_s, self._send)

    def _send(self) -> None:
        self._timer = None
        news, arrived = self._news, self._arrived
        self._news, self._arrived = News(), News()
        news.look |= arrived.look
        news.note_added(jobtype for jobtype in arrived.added if not self._is_clear(jobtype))
        if news:
            self._sent_s = asyncio.get_running_loop().time()
            self.peers.send(news)
