"""One command with what it needs: who asks, what it says, and the connection that it came on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from functory.bedrock.numbers import Numbers
from functory.bedrock.parameters import Parameters
from functory.bedrock.refusals import no_job
from functory.errors import Missing
from functory.operations.numbered import get_numbered
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.web.http.endpoint import Web
from store.base import JobRecord

KEYLESS: Final = "bedrock"
"""What stands for a key, also in the audit log."""
_MOST_HELD: Final = 10_000


class Peer:
    """The other end of a connection, as far as commands care."""

    if_unheard: Callable[[], Awaitable[None]] | None = None
    """What remains to be done if the answer under way cannot be sent, because the connection is gone."""

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.payer = address
        """Whose room the answer under way takes: the tenant's, or the address's while nobody is known."""
        self.gone = asyncio.Event()
        """It has closed its side, or the daemon stops: nobody waits for jobs any more."""
        self._held: dict[str, HeldHere] = {}

    def has_taken(self, job_id: str, token: int, *, repeats: bool) -> list[tuple[str, int]]:
        """The deliveries that are forgotten for it: an earlier one of the job, and the oldest if there are many."""
        before = self._held.pop(job_id, None)
        forgotten = [] if before is None else [(job_id, before.token)]
        if len(self._held) >= _MOST_HELD:
            oldest = next(iter(self._held))
            forgotten.append((oldest, self._held.pop(oldest).token))
        self._held[job_id] = HeldHere(token, repeats)
        return forgotten

    def held(self, job_id: str) -> "HeldHere | None":
        """Which delivery of the job was taken over this connection; None: none, or it was long ago. With it, a worker
        whose job was handed out again meanwhile does not end the work of another."""
        return self._held.get(job_id)

    def forget(self, job_id: str, token: int) -> None:
        """That delivery has ended, and a later one is not another worker's because of it."""
        if (held := self._held.get(job_id)) is not None and held.token == token:
            del self._held[job_id]


class Takers:
    """Over which connection of a listener each delivery was taken. A program with several connections may end a job
    over any of them, and the connection that took it must not mean that delivery any more. Ensures: it knows no
    delivery that its connection has forgotten, so it is bounded as they are."""

    def __init__(self) -> None:
        self._peers: WeakValueDictionary[tuple[str, int], Peer] = WeakValueDictionary()

    def has_taken(self, peer: Peer, job_id: str, token: int, *, repeats: bool) -> None:
        for delivery in peer.has_taken(job_id, token, repeats=repeats):
            self._peers.pop(delivery, None)
        self._peers[job_id, token] = peer

    def has_ended(self, job_id: str, token: int | None) -> None:
        """By a command over any connection; not because its lease has lapsed."""
        if token is not None and (peer := self._peers.pop((job_id, token), None)) is not None:
            peer.forget(job_id, token)


class HeldHere(NamedTuple):
    """A job that was taken over this connection."""

    token: int
    repeats: bool


class Call(NamedTuple):
    web: Web
    who: Principal
    parameters: Parameters
    peer: Peer
    takers: Takers
    numbers: Numbers

    async def confirm(self) -> None:
        """Whether who asks may still have the answer, for which it has waited. Raises Unauthorized."""
        if self.who.key_id != KEYLESS:
            await self.web.keys.confirm(self.who)

    @property
    def service(self) -> Service:
        return self.web.service

    @property
    def tenant(self) -> str:
        return self.who.tenant

    async def job_id(self, name: str = "jobID") -> str:
        """The id of the job that a parameter names, which may be gone by now. Raises Refusal."""
        job_id = await self.numbers.find(self.tenant, self.parameters.job_number(name))
        if job_id is None:
            raise no_job()
        return job_id

    async def job(self, name: str = "jobID") -> JobRecord:
        """The job that a parameter names, without its data. Raises Refusal."""
        return await self.job_numbered(self.parameters.job_number(name))

    async def job_numbered(self, number: int) -> JobRecord:
        job_id = await self.numbers.find(self.tenant, number) if number > 0 else None
        if job_id is None:
            raise no_job()
        try:
            return await get_numbered(self.service, self.tenant, job_id)
        except Missing:
            found = await self.numbers.find_anew(self.tenant, number)
            if found in {None, job_id}:
                raise no_job() from None
            return await self.job_numbered(number)
