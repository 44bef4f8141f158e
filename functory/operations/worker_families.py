"""What workers are told of the children of jobs that they took: the same as handlers, of all jobs of a take together in
bounded memory.

Ensures: a job that is handed out has its children with it. What does not fit, or cannot be read now, is given back and
comes with a later take.
"""

from collections.abc import Sequence
from typing import NamedTuple

from functory.execution.families import RESULTS_BYTES, read_children
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.workers import return_taken
from functory.workers.values import Taken
from store.errors import StoreUnavailable


class Relative(NamedTuple):
    """children: JSON, as `read_children` writes it; empty for a job that never had any."""

    taken: Taken
    children: bytes = b""


async def with_children(service: Service, who: Principal, taken: Sequence[Taken]) -> list[Relative]:
    """Never raises because the store is away: what a worker has reported with the same request is answered."""
    told: list[Relative] = []
    left: list[Taken] = []
    size_bytes = 0
    try:
        for one in taken:
            if not one.job.children:
                told.append(Relative(one))
            elif size_bytes < RESULTS_BYTES:
                try:
                    children = await read_children(service.store, one.job, service.now_ms())
                except StoreUnavailable:
                    left.append(one)
                    continue
                size_bytes += len(children)
                told.append(Relative(one, children))
            else:
                left.append(one)
    except BaseException:
        await return_taken(service, who, taken)
        raise
    await return_taken(service, who, left)
    return told
