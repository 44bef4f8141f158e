"""What the writer remembers of the file: the integers of jobtypes and lanes, so that a batch looks each up once at
most, and the time buckets that it wrote last.

Another process can add a lane or remove an empty one at any time. So what is remembered is thrown away
whenever `PRAGMA data_version` says that another connection has changed the file, and whenever a transaction
or a part of one is rolled back.
"""

from typing import Final, NamedTuple

import apsw

from store.names import PRIORITIES
from store.rate_rules import Limit, Patterns
from store.sqlite.file.buckets import Buckets
from vocabulary.names import tenant_of

_MOST_LANES: Final = 20_000
_MOST_TENANTS: Final = 1000
"""Remembered at a time: a tenant may have a domain for each of its jobs."""


class Lane(NamedTuple):
    lane: int
    domain: str
    priority: int
    keyed: bool = False


class Kinds(NamedTuple):
    """What a type has jobs of, besides those without a domain and without a key."""

    has_domains: bool
    has_keys: bool


class Catalog:
    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn
        self._data_version = -1
        self._types: dict[str, int] = {}
        self._lanes: dict[tuple[int, str, int, bool], int] = {}
        self._plain_lanes: dict[int, dict[int, Lane]] = {}
        self._kinds: dict[int, Kinds] = {}
        self._by_number: dict[int, Lane] = {}
        self._patterns: dict[str, Patterns] = {}
        self.buckets = Buckets()

    def clear(self) -> None:
        """Forget everything."""
        self.buckets.clear()
        self._types.clear()
        self._lanes.clear()
        self._plain_lanes.clear()
        self._kinds.clear()
        self._by_number.clear()
        self._patterns.clear()

    def revalidate(self) -> None:
        """To be called at the start of every write transaction."""
        version = self._conn.execute("PRAGMA data_version").get
        if version != self._data_version:
            self._data_version = version
            self.clear()

    def type_of(self, jobtype: str) -> int | None:
        """The integer of a jobtype, None if the store has never seen it."""
        number = self._types.get(jobtype)
        if number is None:
            number = self._conn.execute("SELECT type FROM types WHERE jobtype = ?", (jobtype,)).get
            if number is not None:
                self._types[jobtype] = number
        return number

    def make_type(self, jobtype: str) -> int:
        number = self.type_of(jobtype)
        if number is None:
            sql = "INSERT INTO types (tenant, jobtype) VALUES (?, ?)"
            self._conn.execute(sql, (tenant_of(jobtype), jobtype))
            number = self._types[jobtype] = self._conn.last_insert_rowid()
        return number

    def make_lane(self, number: int, domain: str, priority: int, *, keyed: bool) -> int:
        key = (number, domain, priority, keyed)
        lane = self._lanes.get(key)
        if lane is None:
            sql = "SELECT lane FROM lanes WHERE type = ? AND domain = ? AND priority = ? AND keyed = ?"
            lane = self._conn.execute(sql, key).get
            if lane is None:
                self._conn.execute("INSERT INTO lanes (type, domain, priority, keyed) VALUES (?, ?, ?, ?)", key)
                lane = self._conn.last_insert_rowid()
                self._plain_lanes.pop(number, None)
                self._kinds.pop(number, None)
            if len(self._lanes) >= _MOST_LANES:
                self._lanes.clear()
            self._lanes[key] = lane
        return lane

    def plain_lanes(self, number: int) -> dict[int, Lane]:
        """The lanes of a type for jobs without a domain and without a key, by priority, first to be served first."""
        lanes = self._plain_lanes.get(number)
        if lanes is None:
            sql = "SELECT priority, lane FROM lanes WHERE type = ? AND domain = '' AND keyed = 0"
            found = dict(self._conn.execute(sql, (number,)))
            lanes = {priority: Lane(found[priority], "", priority) for priority in PRIORITIES if priority in found}
            self._plain_lanes[number] = lanes
        return lanes

    def kinds(self, number: int) -> Kinds:
        kinds = self._kinds.get(number)
        if kinds is None:
            sql = (
                "SELECT EXISTS (SELECT 1 FROM lanes WHERE type = ?1 AND domain > ''),"
                " EXISTS (SELECT 1 FROM lanes WHERE type = ?1 AND keyed = 1)"
            )
            has_domains, has_keys = self._conn.execute(sql, (number,)).get
            kinds = self._kinds[number] = Kinds(bool(has_domains), bool(has_keys))
        return kinds

    def lane(self, lane: int) -> Lane:
        """A lane by its number."""
        found = self._by_number.get(lane)
        if found is None:
            sql = "SELECT domain, priority, keyed FROM lanes WHERE lane = ?"
            domain, priority, keyed = self._conn.execute(sql, (lane,)).get
            if len(self._by_number) >= _MOST_LANES:
                self._by_number.clear()
            found = self._by_number[lane] = Lane(lane, domain, priority, bool(keyed))
        return found

    def patterns(self, tenant: str) -> Patterns:
        """The limits of a tenant on patterns of rate domains."""
        patterns = self._patterns.get(tenant)
        if patterns is None:
            sql = "SELECT domain, rate, burst, updated FROM rates WHERE tenant = ? AND pattern = 1"
            patterns = Patterns(Limit(*row) for row in self._conn.execute(sql, (tenant,)))
            if len(self._patterns) >= _MOST_TENANTS:
                self._patterns.clear()
            self._patterns[tenant] = patterns
        return patterns

    def forget_patterns(self, tenant: str) -> None:
        self._patterns.pop(tenant, None)
