"""Verbs for pages: what ended lately, of the types that a page shows and in sums, without a look at any job."""

import abc
from collections.abc import Sequence

from store.values.scoreboard import Bucket, EndedSum, Span
from vocabulary.states import Code


class Activity(abc.ABC):
    """The buckets of the scoreboard, read by whom it costs least."""

    @abc.abstractmethod
    async def get_type_buckets(
        self, tenant: str, jobtypes: Sequence[str], *, width_ms: int, since_ms: int, until_ms: int
    ) -> list[Bucket]:
        """As get_buckets, of these jobtypes alone, whatever else the tenant has, in order of (start, jobtype).

        Raises InvalidValue: a jobtype of another tenant, more than MAX_BATCH of them, a width that is not kept, more
        than MAX_BUCKETS buckets of time. Cost: one seek per jobtype and bucket of time.
        """

    @abc.abstractmethod
    async def get_type_counts(
        self, tenant: str, jobtypes: Sequence[str], *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[str, dict[int, EndedSum]]:
        """The same without histograms, by jobtype and start: several times cheaper."""

    @abc.abstractmethod
    async def sum_by_start(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[int, EndedSum]:
        """What ended, over all types of the tenant (None: of all), by the start of the bucket. Empty ones are left
        out. Cost: the buckets of time that are returned, where the store keeps them summed (SQLite); the buckets that
        are summed, on the server, elsewhere."""

    @abc.abstractmethod
    async def sum_by_type(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[str, EndedSum]:
        """What ended, over the whole time asked for, by jobtype. Cost: all buckets of that time,
        other tenants' among them."""

    @abc.abstractmethod
    async def count_by_type(self, tenant: str, codes: frozenset[Code], spans: Sequence[Span]) -> dict[str, int]:
        """How many runs and jobs ended with one of these codes in the spans, those to be taken away counted negative,
        by jobtype; types for which that is 0 are left out. Raises InvalidValue as sum_by_type does, for each span.
        Cost: the tenant's buckets of those times, each a fraction of what it costs in sum_by_type."""
