"""Sends what jobs say: several that speak at about the same time share a request.

Ensures: whoever reports hears the verdict of its own item. While a request is under way, reports gather for the next,
so a thousand small jobs do not cost a thousand round trips. A server that cannot be reached is asked again, and only
the pauses that are our own choice count against its time: neither a request that got no answer nor a pause that the
server asks for makes the tries fewer, while the leases are renewed. A network that drops packets says nothing, so each
try is given up in time for another, over a new connection.
"""

import asyncio
from typing import Final

from functory.errors import ClientError, NotReadyYet, ServerUnreachable
from functory.queue.link import Link
from functory.queue.outage import Outage
from functory.wire.refusals import may_pass
from functory.workers.values import Report, Verdict
from vocabulary.unavailable import Unavailable

_MOST: Final = 200
_MOST_BYTES: Final = 4 << 20
_LONGEST_PAUSE_S: Final = 2.0
"""Short: an end should arrive while its lease holds, once the server is back."""
_PATIENCE_S: Final = 30.0
"""Of pauses, each counted as at most the longest of ours: 15 tries or more."""
_ANSWER_S: Final = 20.0
"""For an answer: a daemon whose store is away says so after 15 s."""
_LEAST_BYTES_PER_S: Final = 256 * 1024


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

    @property
    def unsaid(self) -> int:
        """Reports without a verdict yet."""
        return len(self._waiting)

    @property
    def sending_s(self) -> float:
        """How long those take on the slowest line that counts as one."""
        return _sending_s([report for report, _ in self._waiting])

    async def close(self) -> None:
        """Wait until everything is said. If that is cancelled, the rest is not sent, and whoever waits is told."""
        sending = self._sending
        if sending is None:
            return
        try:
            await asyncio.wait([sending])
        except asyncio.CancelledError:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            raise

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch = self._next_batch()
                await self._send(batch)
                del self._waiting[: len(batch)]
        finally:
            self._sending = None
            left, self._waiting = self._waiting, []
            for _, future in left:  # it was cancelled
                if not future.done():
                    future.set_exception(ServerUnreachable("the queue was closed before it could be said"))

    def _next_batch(self) -> list[tuple[Report, "asyncio.Future[Verdict]"]]:
        size_bytes = 0
        for number, (report, _) in enumerate(self._waiting[:_MOST]):
            size_bytes += _size_bytes(report)
            if number and size_bytes > _MOST_BYTES:
                return self._waiting[:number]
        return self._waiting[:_MOST]

    async def _send(self, batch: list[tuple[Report, "asyncio.Future[Verdict]"]]) -> None:
        try:
            verdicts = await self._until_it_works([report for report, _ in batch])
        except Exception as error:  # noqa: BLE001 (it is raised where each report was made)
            if len(batch) > 1 and not is_passing(error):
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
        left_s = _PATIENCE_S
        while True:
            try:
                verdicts = await self._try(reports)
            except Exception as error:
                if not is_passing(error) or left_s <= 0:
                    raise
                pause_s = self._outage.failed(error)
                left_s -= min(pause_s, _LONGEST_PAUSE_S)
                await asyncio.sleep(pause_s)
            else:
                self._outage.over()
                return verdicts

    async def _try(self, reports: list[Report]) -> list[Verdict]:
        try:
            async with asyncio.timeout(_ANSWER_S + _sending_s(reports)):
                return await self._link.report(reports)
        except TimeoutError:
            raise ServerUnreachable("no answer in time") from None


def _sending_s(reports: list[Report]) -> float:
    return sum(map(_size_bytes, reports)) / _LEAST_BYTES_PER_S


def _size_bytes(report: Report) -> int:
    return len(report.result) + len(report.carried or b"") + sum(len(new.payload) for new in report.new_jobs)


def is_passing(error: Exception) -> bool:
    """Whether the same request may do better a little later."""
    if isinstance(error, ClientError):
        return may_pass(error)
    return isinstance(error, ServerUnreachable | NotReadyYet | Unavailable)
