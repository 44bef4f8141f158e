"""Sends what jobs say: several that speak at about the same time share a request.

Ensures: whoever reports hears the verdict of its own item. While a request is under way, reports gather for the next,
so a thousand small jobs do not cost a thousand round trips. A server that cannot be reached is asked again while the
leases may still hold.
"""

import asyncio
from typing import Final

from functory.errors import ClientError, NotReadyYet, ServerUnreachable
from functory.queue.link import Link
from functory.queue.outage import Outage
from functory.workers.values import Report, Verdict
from journal.errors import JournalUnavailable
from store.errors import StoreUnavailable

_MOST: Final = 200
_MOST_BYTES: Final = 4 << 20
_TRIES: Final = 60
_PATIENCE_S: Final = 30.0
_LONGEST_PAUSE_S: Final = 2.0
"""Short: an end should arrive while its lease holds, once the server is back."""


class Reporter:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._waiting: list[tuple[Report, asyncio.Future[Verdict]]] = []
        self._sending: asyncio.Task[None] | None = None
        self._outage = Outage("queue.report_again", _LONGEST_PAUSE_S)

    async def report(self, report: Report) -> Verdict:
        """Raises what the link raises, if it says so of all of them."""
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting.append((report, future))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all(), name="reports")
        return await future

    async def close(self) -> None:
        """Wait until everything is said."""
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch = self._next_batch()
                del self._waiting[: len(batch)]
                await self._send(batch)
        finally:
            self._sending = None

    def _next_batch(self) -> list[tuple[Report, "asyncio.Future[Verdict]"]]:
        size_bytes = 0
        for number, (report, _) in enumerate(self._waiting[:_MOST]):
            size_bytes += len(report.result) + sum(len(new.payload) for new in report.new_jobs)
            if number and size_bytes > _MOST_BYTES:
                return self._waiting[:number]
        return self._waiting[:_MOST]

    async def _send(self, batch: list[tuple[Report, "asyncio.Future[Verdict]"]]) -> None:
        try:
            verdicts = await self._until_it_works([report for report, _ in batch])
        except Exception as error:  # noqa: BLE001 (it is raised where each report was made)
            if len(batch) > 1 and not isinstance(error, ServerUnreachable):
                for one in batch:  # an item that cannot be read spoils only itself
                    await self._send([one])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), verdict in zip(batch, verdicts, strict=True):
            if not future.done():
                future.set_result(verdict)

    async def _until_it_works(self, reports: list[Report]) -> list[Verdict]:
        began_s = asyncio.get_running_loop().time()
        for number in range(_TRIES):
            try:
                verdicts = await self._link.report(reports)
            except Exception as error:
                waited_s = asyncio.get_running_loop().time() - began_s
                if not is_passing(error) or number == _TRIES - 1 or waited_s >= _PATIENCE_S:
                    raise
                await asyncio.sleep(self._outage.failed(error))
            else:
                self._outage.over()
                return verdicts
        raise AssertionError("the last try returns or raises")


def is_passing(error: Exception) -> bool:
    """Whether the same request may do better a little later."""
    if isinstance(error, ClientError):
        return error.status in (429, 503, 507)
    return isinstance(error, ServerUnreachable | NotReadyYet | StoreUnavailable | JournalUnavailable)
