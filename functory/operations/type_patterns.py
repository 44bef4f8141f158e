"""A type, or a GLOB pattern of types, where jobs are looked for. A pattern is matched against the names of the tenant's
types, and not against its jobs."""

import asyncio
from typing import Final

from functory.errors import InvalidInput
from functory.operations.service import Service
from vocabulary.glob import glob_matches
from vocabulary.names import is_type, jobtype_of, type_of

_SPECIAL: Final = frozenset("*?[")
_SLICE: Final = 200
"""Names that are compared in one go."""


async def types_matching(service: Service, tenant: str, pattern: str) -> list[str]:
    """The jobtypes of the tenant that have, or have had, jobs and whose type the pattern matches."""
    counters = await service.store.get_counters(tenant, now_ms=service.now_ms())
    found: list[str] = []
    for start in range(0, len(counters), _SLICE):
        some = counters[start : start + _SLICE]
        found += [row.jobtype for row in some if glob_matches(pattern, type_of(row.jobtype))]
        await asyncio.sleep(0)
    return found


async def jobtypes_named(service: Service, tenant: str, text: str | None) -> tuple[str, ...] | None:
    """What a reader named: one type, those that a pattern matches, or None for all. Raises InvalidInput."""
    if text is None:
        return None
    if _SPECIAL.isdisjoint(text):
        if not is_type(text):
            raise InvalidInput(
                f"{text[:80]!r} is not a type: a letter or digit, then up to 126 of letters, digits and _ . : -; or a"
                " pattern with * ? [a-c]",
                detail={"field": "type"},
            )
        return (jobtype_of(tenant, text),)
    return tuple(await types_matching(service, tenant, text))
