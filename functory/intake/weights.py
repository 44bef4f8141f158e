"""How many lines or jobs of each tenant there are, and their bytes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from vocabulary.names import tenant_of


class Tally(dict[str, int]):
    """So many of each tenant, without those that have none."""

    def add(self, tenant: str, count: int) -> None:
        now = self.get(tenant, 0) + count
        if now:
            self[tenant] = now
        else:
            self.pop(tenant, None)

    @contextmanager
    def more(self, tenant: str, count: int) -> Iterator[None]:
        """So many more while the block lasts."""
        self.add(tenant, count)
        try:
            yield
        finally:
            self.add(tenant, -count)


class Weight(NamedTuple):
    lines: int = 0
    size_bytes: int = 0
    """Of their payloads."""


_NOTHING: Final = Weight()
_SIZE: Final = itemgetter(1)


def weigh(jobtypes: Iterable[str], payloads: Iterable[bytes]) -> dict[str, Weight]:
    """By tenant."""
    return weigh_sizes(zip(jobtypes, map(len, payloads), strict=True))


def weigh_sizes(lines: Iterable[tuple[str, int]]) -> dict[str, Weight]:
    """By tenant, of lines with their type and bytes. Those of a type follow each other mostly: what is done for each
    line is little."""
    found: dict[str, Weight] = {}
    for jobtype, pairs in groupby(lines, itemgetter(0)):
        sizes = list(map(_SIZE, pairs))
        tenant = tenant_of(jobtype)
        count, size_bytes = found.get(tenant, _NOTHING)
        found[tenant] = Weight(count + len(sizes), size_bytes + sum(sizes))
    return found
