"""A type, or a GLOB pattern of types, where jobs are looked for. A pattern is matched against the names of the tenant's
types, and not against its jobs.

Ensures: a pattern of types has at most MOST_CHARS characters, wherever it comes from; names are compared in slices.
"""

from typing import Final

from functory.errors import InvalidInput
from functory.loops.slices import Slices
from functory.operations.service import Service
from vocabulary.glob import glob_cost, glob_matcher
from vocabulary.names import TYPE_RULE, is_type, jobtype_of, type_of

_SPECIAL: Final = frozenset("*?[")
MOST_CHARS: Final = 127
"""Of a pattern: as many as a type may have."""


async def types_matching(service: Service, tenant: str, pattern: str) -> list[str]:
    """The jobtypes of the tenant that have, or have had, jobs and whose type the pattern matches. Raises
    InvalidInput."""
    if len(pattern) > MOST_CHARS:
        raise InvalidInput(
            f"a pattern of types has at most {MOST_CHARS} characters, and this one has {len(pattern)}",
            detail={"field": "type"},
        )
    counters = await service.store.get_counters(tenant, now_ms=service.now_ms())
    matches, cost, slices = glob_matcher(pattern), glob_cost(pattern), Slices()
    found: list[str] = []
    for row in counters:
        if matches(type_of(row.jobtype)):
            found.append(row.jobtype)
        await slices.spend(cost)
    return found


async def jobtypes_named(service: Service, tenant: str, text: str | None) -> tuple[str, ...] | None:
    """What a reader named: one type, those that a pattern matches, or None for all. Raises InvalidInput."""
    if text is None:
        return None
    if is_pattern(check_named(text)):
        return tuple(await types_matching(service, tenant, text))
    return (jobtype_of(tenant, text),)


def is_pattern(text: str) -> bool:
    return not _SPECIAL.isdisjoint(text)


def check_named(text: str) -> str:
    """The text, if it is a type or a pattern. Raises InvalidInput."""
    if not is_pattern(text) and not is_type(text):
        raise InvalidInput(
            f"{text[:80]!r} is not a type: {TYPE_RULE}; or a pattern with * ? [a-c]", detail={"field": "type"}
        )
    return text
