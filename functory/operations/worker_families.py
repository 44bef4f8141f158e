"""What workers are told of the children of jobs that they took: the same as handlers, of all jobs of a take together in
bounded memory, and of all takes of a tenant as far as whoever answers them has room.

Ensures: a job that is handed out has its children with it. What does not fit, or cannot be read now, is given back and
comes with a later take.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final, NamedTuple

from functory.execution.families import RESULTS_BYTES, read_children
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.workers import return_taken
from functory.workers.values import Taken
from store.errors import StoreUnavailable

Room = Callable[[str, int, float], AbstractAsyncContextManager[bool]]
"""For an answer to a tenant of up to so many bytes, while it is made; False if there is none in so many seconds."""

_PATIENCE_S: Final = 2.0
_LEASE_PART: Final = 3
"""Who waits for room uses up a third of the lease, at most."""
_MOST_TIMES: Final = 3
"""So many times RESULTS_BYTES is a take, at most: what has filled it, and one parent more."""


class Relative(NamedTuple):
    """children: JSON, as `read_children` writes it; empty for a job that never had any."""

    taken: Taken
    children: bytes = b""


def own_memory(_tenant: str, _size_bytes: int, _patience_s: float) -> AbstractAsyncContextManager[bool]:
    """Room where the worker is a part of this process."""
    return nullcontext(enter_result=True)


async def with_children(service: Service, who: Principal, taken: Sequence[Taken], room: Room) -> list[Relative]:
    """Never raises because the store is away: what a worker has reported with the same request is answered."""
    try:
        parents = [one for one in taken if one.job.children]
        if not parents:
            return [Relative(one) for one in taken]
        lease_s = max(min(one.job.dt_ms for one in parents) - service.now_ms(), 0) / 1000
        async with room(who.tenant, _MOST_TIMES * RESULTS_BYTES, min(_PATIENCE_S, lease_s / _LEASE_PART)) as has_room:
            told = await _read(service, taken, RESULTS_BYTES if has_room else 0)
            heard = {one.taken.job.id for one in told}
            await return_taken(service, who, [one for one in parents if one.job.id not in heard])
    except BaseException:
        await return_taken(service, who, taken)
        raise
    return told


async def _read(service: Service, taken: Sequence[Taken], most_bytes: int) -> list[Relative]:
    """Without the parents that do not fit or cannot be read."""
    told: list[Relative] = []
    size_bytes = 0
    for one in taken:
        if not one.job.children:
            told.append(Relative(one))
        elif size_bytes < most_bytes:
            try:
                children = await read_children(service.store, one.job, service.now_ms())
            except StoreUnavailable:
                continue
            size_bytes += len(children)
            told.append(Relative(one, children))
    return told
