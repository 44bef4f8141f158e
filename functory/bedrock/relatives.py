"""What an answer tells of the parents and children of its jobs: their numbers, and their data up to a bound.

First it is found out who they are and how large their data is, then what fits is read. Ensures: the data of all of them
is at most MOST_BYTES in an answer, or less if there is no room for it; what is over that is left out, and marked.
"""

from typing import Any, Final, NamedTuple

import msgspec

from functory.bedrock.call import Call
from functory.bedrock.records import CANCELLED, FINISHED, data_json, state_of
from functory.errors import Missing
from functory.execution.families import before_round
from functory.operations.jobs import list_children
from functory.operations.numbered import get_numbered
from store.base import Job

MOST_BYTES: Final = 8 << 20
_MOST_CHILDREN: Final = 1000
"""That a parent is told of."""
_KINDS: Final = {FINISHED: "finishedChildJobs", CANCELLED: "cancelledChildJobs"}
_NO_DATA: Final = data_json(b"{}")
"""Of a job that was deleted just now."""


class Relative(NamedTuple):
    kind: str
    """Where it is told: as the parent, or in which list of children."""
    job_id: str
    number: int
    size_bytes: int
    has_room: bool


class Relatives:
    """Of the jobs in one answer."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._left_bytes = self._left_to_show_bytes = MOST_BYTES
        self._parents: dict[str, tuple[int, msgspec.Raw | None]] = {}
        """Sizes and data: many jobs of an answer can have the same."""

    @property
    def size_bytes(self) -> int:
        """Of the data that is to be read."""
        return MOST_BYTES - self._left_bytes

    async def find(self, job: Job, parent: int | None) -> list[Relative]:
        """The parent, if it has a number, and the children that have ended; of a parent that repeats, those of its
        round."""
        found = [] if parent is None else [self._planned("parent", job.parent, parent, await self._size(job.parent))]
        if not job.children:
            return found
        call = self._call
        page = await list_children(call.service, call.tenant, job.id, cursor=before_round(job), limit=_MOST_CHILDREN)
        numbers = await call.numbers.of(call.tenant, [record.job.id for record in page.records])
        for record in page.records:
            if record.done_ms and record.job.id in numbers:
                kind = _KINDS.get(state_of(record), "failedChildJobs")
                found.append(self._planned(kind, record.job.id, numbers[record.job.id], record.data_bytes))
        return found

    def keep_within(self, size_bytes: int) -> None:
        """Read and tell no more data than that: there is no room for all that was planned."""
        self._left_to_show_bytes = size_bytes

    async def show(self, relatives: list[Relative]) -> dict[str, Any]:
        """As fields of the job whose relatives they are."""
        fields: dict[str, Any] = {}
        for each in relatives:
            data = await self._data(each)
            if each.kind == "parent":
                fields["parentJobID"] = each.number
                fields |= {"parentDataOmitted": True} if data is None else {"parentData": data}
            else:
                told = {"dataOmitted": True} if data is None else {"data": data}
                fields.setdefault(each.kind, []).append({**told, "jobID": each.number})
        return fields

    def _planned(self, kind: str, job_id: str, number: int, size_bytes: int) -> Relative:
        has_room = size_bytes <= self._left_bytes
        if has_room:
            self._left_bytes -= size_bytes
        return Relative(kind, job_id, number, size_bytes, has_room)

    async def _size(self, parent_id: str) -> int:
        if parent_id not in self._parents:
            try:
                record = await get_numbered(self._call.service, self._call.tenant, parent_id)
            except Missing:
                self._parents[parent_id] = 0, _NO_DATA
            else:
                self._parents[parent_id] = record.data_bytes, None
        return self._parents[parent_id][0]

    async def _data(self, relative: Relative) -> msgspec.Raw | None:
        """None: left out."""
        if not relative.has_room or relative.size_bytes > self._left_to_show_bytes:
            return None
        size_bytes, data = self._parents.get(relative.job_id, (0, None))
        if data is None:
            data = await self._read(relative)
            if relative.kind == "parent" and data is not None:
                self._parents[relative.job_id] = size_bytes, data
        shown_bytes = 0 if data is None else memoryview(data).nbytes
        if shown_bytes > self._left_to_show_bytes:  # text takes more room as JSON
            return None
        self._left_to_show_bytes -= shown_bytes
        return data

    async def _read(self, relative: Relative) -> msgspec.Raw | None:
        call = self._call
        try:
            record = await get_numbered(call.service, call.tenant, relative.job_id, max_bytes=relative.size_bytes)
        except Missing:
            return _NO_DATA
        return data_json(record.job.data) if len(record.job.data) == record.data_bytes else None  # it has grown
