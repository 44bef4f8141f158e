"""What the writer remembers of the file: the integers of jobtypes and lanes, so that a batch looks each up once at
most, and the time buckets that it wrote last.

Another process can add a lane or remove an empty one at any time. So what is remembered is thrown away
whenever `PRAGMA data_version` says that another connection has changed the file, and whenever a transaction
or a part of one is rolled back.
"""

from typing import NamedTuple

import apsw

from store.names import PRIORITIES
from store.sqlite.file.buckets import Buckets
from vocabulary.names import tenant_of


class Lane(NamedTuple):
    lane: int
    domain: str
    priority: int
    keyed: bool = False


class Catalog:
    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn
        self._data_version = -1
        self._types: dict[str, int] = {}
        self._lanes: dict[tuple[int, str, int, bool], int] = {}
        self._lanes_of: dict[int, tuple[tuple[Lane, ...], ...]] = {}
        self._keyed_lanes: dict[int, dict[int, Lane]] = {}
        self.buckets = Buckets()

    def clear(self) -> None:
        """Forget everything."""
        self.buckets.clear()
        self._types.clear()
        self._lanes.clear()
        self._lanes_of.clear()
        self._keyed_lanes.clear()

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

    def make_lane(self, number: int, domain: str, priority: int, *, keyed: bool = False) -> int:
        key = (number, domain, priority, keyed)
        lane = self._lanes.get(key)
        if lane is None:
            sql = "SELECT lane FROM lanes WHERE type = ? AND domain = ? AND priority = ? AND keyed = ?"
            lane = self._conn.execute(sql, key).get
            if lane is None:
                self._conn.execute("INSERT INTO lanes (type, domain, priority, keyed) VALUES (?, ?, ?, ?)", key)
                lane = self._conn.last_insert_rowid()
                self._lanes_of.pop(number, None)
                self._keyed_lanes.pop(number, None)
            self._lanes[key] = lane
        return lane

    def lanes_of(self, number: int) -> tuple[tuple[Lane, ...], ...]:
        """The lanes of a type, grouped by priority, first to be served first. Without those of jobs with a key."""
        groups = self._lanes_of.get(number)
        if groups is None:
            found = self._read_lanes(number, keyed=False)
            groups = tuple(group for p in PRIORITIES if (group := tuple(lane for lane in found if lane.priority == p)))
            self._lanes_of[number] = groups
        return groups

    def keyed_lanes(self, number: int) -> dict[int, Lane]:
        """The lanes that count jobs with a key, by number."""
        lanes = self._keyed_lanes.get(number)
        if lanes is None:
            lanes = self._keyed_lanes[number] = {lane.lane: lane for lane in self._read_lanes(number, keyed=True)}
        return lanes

    def _read_lanes(self, number: int, *, keyed: bool) -> list[Lane]:
        sql = "SELECT lane, domain, priority FROM lanes WHERE type = ? AND keyed = ?"
        return [
            Lane(lane, domain, priority, keyed) for lane, domain, priority in self._conn.execute(sql, (number, keyed))
        ]
