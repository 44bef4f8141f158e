"""Idempotency keys: a request that is repeated gets the ids of the first, and adds nothing.

A key is bound to ids before jobs are added (`put_once`: one daemon wins), and once they are added that is written down,
under the first id. A few plain jobs are one step of the store (`add_jobs_once`), the usual case. Jobs may be gone by
the time of a repeat, because they are not kept or were deleted: what is written down says that they were there. Only if
it is not there, after a crash in between, a repeat looks for missing jobs. One that was added before the crash, has
ended since and was not kept runs again then.

What is bound to a key is `WHOLE FIRST`: what identifies the request with all that it says, and the first id. Versions
that share a store compare it as it is, so it stays. It does not say how the body was read, and says too much about how
the request was to be answered: where that matters, `CONTENT:READING:COUNT` stands under the first id. It is written
before the key is bound, so who finds the key finds it, too; what is never bound expires. Where it is missing, because a
version before this one has bound the key, or because there is nothing to add, WHOLE alone decides.

Deliveries of webhooks and notifications of alerts have keys that are made here, `webhook:…` and `alert:…`. Ensures: no
key of a caller is one of them (`key_of_caller`), so nobody can take that of a delivery before it comes.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from functory.errors import IdempotencyMismatch
from functory.operations.service import Service
from store.base import Binding, NewJob
from store.errors import Conflict, InvalidValue, NotFound, StoreUnavailable
from vocabulary.names import MAX_LABEL_CHARS

LIFE_S: Final = 86_400.0
"""How long a repeated request with the same key is recognised."""
_SET_APART: Final = "own:"
_NOT_OF_CALLERS: Final = ("webhook:", "alert:", _SET_APART)
"""How keys begin that no caller has."""


class Fingerprint(NamedTuple):
    """What identifies a request."""

    content: str
    """Its body, and what else its jobs depend on."""
    reading: str = ""
    """How the body becomes jobs; empty if it can be read in one way only."""
    whole: str = ""
    """The content together with how the request is to be answered; empty if it does not say that."""


async def bind_key(
    service: Service,
    tenant: str,
    key: str,
    fingerprint: Fingerprint,
    mine: list[str],
    admit: Callable[[], Awaitable[None]],
    jobs: Sequence[NewJob] | None = None,
) -> list[str]:
    """Bind an idempotency key to ids. Returns `mine` itself, or the ids that the same request got before.

    `admit` is called before the key is bound. jobs: all jobs under these ids; they are added with the key, and it is
    noted that they were. Raises IdempotencyMismatch.
    """
    now_ms, name = service.now_ms(), _name_of_key(key)
    standing = await service.store.get_once(tenant, name, now_ms=now_ms)
    if standing is None:
        await admit()
        more = (_name_of_more(mine[0]), _more(fingerprint, mine)) if _has_more(fingerprint) else None
        value = _value(fingerprint, mine)
        standing = await _bind(service, Binding(tenant, name, value, _name(mine), _end_ms(now_ms), more), jobs, now_ms)
    whole, first = standing.decode().split(" ")
    if first == mine[0]:
        return mine
    more_there = await service.store.get_once(tenant, _name_of_more(first), now_ms=now_ms)
    is_same = whole in {fingerprint.whole, fingerprint.content}
    if not (is_same if more_there is None else more_there == _more(fingerprint, mine)):
        raise IdempotencyMismatch(
            "this idempotency_key was used for another request: send the same request again, or choose a new key",
            detail={"field": "idempotency_key"},
        )
    return _ids_from(first, len(mine))


async def _bind(service: Service, binding: Binding, jobs: Sequence[NewJob] | None, now_ms: int) -> bytes:
    if jobs is not None:
        return await service.store.add_jobs_once(binding, jobs, now_ms=now_ms)
    tenant, end_ms = binding.tenant, binding.expires_ms
    if binding.more is not None:
        await service.store.put_once(tenant, *binding.more, expires_ms=end_ms, now_ms=now_ms)
    return await service.store.put_once(tenant, binding.key, binding.value, expires_ms=end_ms, now_ms=now_ms)


@asynccontextmanager
async def freed_if_refused(
    service: Service, tenant: str, key: str, fingerprint: Fingerprint, ids: Sequence[str]
) -> AsyncIterator[None]:
    """The first write of the request that bound a key, which writes all of its jobs or none. If the store refuses them
    for good, the key is free again, unless a repeat of the request has added them meanwhile."""
    try:
        yield
    except (NotFound, Conflict, InvalidValue):
        with suppress(StoreUnavailable):  # it is bound for its time then
            if not await were_added(service, tenant, ids):
                await service.store.delete_once(tenant, _name_of_key(key), _value(fingerprint, ids))
                if _has_more(fingerprint):
                    await service.store.delete_once(tenant, _name_of_more(ids[0]), _more(fingerprint, ids))
        raise


async def were_added(service: Service, tenant: str, ids: Sequence[str]) -> bool:
    """Whether all jobs under these ids of a key were added, whatever became of them. False: perhaps not."""
    return await service.store.get_once(tenant, _name(ids), now_ms=service.now_ms()) is not None


async def note_added(service: Service, tenant: str, ids: Sequence[str]) -> None:
    """All jobs under these ids of a key are in the store. This never fails: an error would have the request repeated,
    although its jobs are there."""
    now_ms = service.now_ms()
    with suppress(StoreUnavailable):
        await service.store.put_once(tenant, _name(ids), b"", expires_ms=_end_ms(now_ms), now_ms=now_ms)


def key_of_caller(key: str) -> str:
    """The key for one that a caller has chosen. Two have never the same."""
    return _SET_APART + key if key.startswith(_NOT_OF_CALLERS) else key


def _name_of_key(key: str) -> str:
    """A key may be as long as a name of the store, so with what stands before it, it may be too long for one."""
    name = f"submit:{key}"
    return name if len(name) <= MAX_LABEL_CHARS else f"submit_long:{hashlib.sha256(key.encode()).hexdigest()}"


def _value(fingerprint: Fingerprint, ids: Sequence[str]) -> bytes:
    return f"{fingerprint.whole or fingerprint.content} {ids[0]}".encode()


def _has_more(fingerprint: Fingerprint) -> bool:
    """Whether what is bound does not tell it from every other request."""
    return bool(fingerprint.reading or fingerprint.whole)


def _more(fingerprint: Fingerprint, ids: Sequence[str]) -> bytes:
    return f"{fingerprint.content}:{fingerprint.reading}:{len(ids)}".encode()


def _name_of_more(first: str) -> str:
    return f"read:{first}"


def _name(ids: Sequence[str]) -> str:
    return f"added:{ids[0]}"


def _end_ms(now_ms: int) -> int:
    return now_ms + round(LIFE_S * 1000)


def _ids_from(first: str, count: int) -> list[str]:
    """The ids that `take_ids` returned together: their counters are consecutive."""
    stem, counter = first[:-6], int(first[-6:], 16)
    return [f"{stem}{counter + number:06x}" for number in range(count)]
