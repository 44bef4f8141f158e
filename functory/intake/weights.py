"""How many lines or jobs of each tenant there are, and their bytes."""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from vocabulary.names import tenant_of


class Tally(Counter[str]):
    """So many of each tenant, without those that have none."""

    def add(self, tenant: str, count: int) -> None:
        self[tenant] += count
        if not self[tenant]:
            del self[tenant]


class Weight(NamedTuple):
    lines: int = 0
    size_bytes: int = 0
    """Of their payloads."""


_NOTHING: Final = Weight()


def weigh(jobtypes: Iterable[str], payloads: Iterable[bytes]) -> dict[str, Weight]:
    """By tenant."""
    return weigh_sizes(zip(jobtypes, map(len, payloads), strict=True))


def weigh_sizes(lines: Iterable[tuple[str, int]]) -> dict[str, Weight]:
    """By tenant, of lines with their type and bytes. Those of a type follow each other mostly: what is done for each
    line is little."""
    found: dict[str, Weight] = {}
    for jobtype, pairs in groupby(lines, itemgetter(0)):
        sizes = list(map(itemgetter(1), pairs))
        tenant = tenant_of(jobtype)
        count, size_bytes = found.get(tenant, _NOTHING)
        found[tenant] = Weight(count + len(sizes), size_bytes + sum(sizes))
    return found
