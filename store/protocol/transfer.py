"""Verbs for moving all content of a store to another, of the same kind or not: export here, import there."""

import abc
from collections.abc import Sequence

from store.values.transfer import ExportPage, ImportPlace, Part, Record


class StoreTransfer(abc.ABC):
    """For stores that no daemon uses: neither side may change by other means meanwhile. Who calls sees to that.

    Ensures: a store into which every part of another was imported answers every verb as that one would, but for
    daemons, of which it has none, and for the order of records that the protocol leaves to the back end.
    """

    @abc.abstractmethod
    async def begin_export(self, *, now_ms: int) -> None:
        """Bring the store to rest: finish what processes that died had begun, so that all counts are exact.
        Idempotent."""

    @abc.abstractmethod
    async def export(
        self, part: Part, *, cursor: str | None = None, limit: int = 500, max_bytes: int = 32 * 1024 * 1024
    ) -> ExportPage:
        """The next records of a part, in an order of the back end's own that is always the same.

        At most limit, and fewer if they would have more than max_bytes of payloads, results and values (but one
        always). Raises InvalidValue: limit not in 1..1000, a cursor that is not one of this part.
        """

    @abc.abstractmethod
    async def begin_import(self, source: str) -> ImportPlace:
        """Make ready to take over the content of the source (any label), and return where to go on: at the
        beginning, or where an import of the same source was interrupted.

        Until end_import no sysid is given, so that no daemon starts on half a store. Idempotent.
        Raises Conflict: the store has content that is not of an unfinished import of this source.
        """

    @abc.abstractmethod
    async def import_records(self, part: Part, records: Sequence[Record], *, after: ImportPlace, now_ms: int) -> None:
        """Take records over as they are, and note that the import has come to `after`.

        Idempotent: records that are there are left, or written again as they are given. Atomic where there are
        transactions; elsewhere the note is written last, so that what a crash interrupts is repeated. Counts of
        waiting, deferred, running and stored jobs follow from the jobs; the others come with TypeRecord and Bucket.
        Raises Conflict (no import was begun), InvalidValue (a record that is not of this part).
        """

    @abc.abstractmethod
    async def end_import(self) -> None:
        """The content is complete: from now on it is a store like any other. Idempotent."""
