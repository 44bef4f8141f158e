"""The other side over HTTP: a daemon, or several behind one address.

Ensures: what keeps jobs and ends them waits for no connection, however many `take` for a job, each over one of its own,
and however much is added.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from functory.client import Client, ClientError
from functory.queue.link import Batch, Given, Wish
from functory.queue.refusals import refusals
from functory.wire.add_options import AddOptions
from functory.wire.base import from_wire
from functory.wire.workers import TakenJob, VerdictRow
from functory.workers.values import Answer, Delivery, Report, Verdict
from vocabulary.names import WORKER

_NO_HANDLER: Final = 404


class RemoteLink:
    def __init__(self, url: str, key: str, tenant: str) -> None:
        self._client = Client(url, key, tenant)
        self._work = Client(url, key, tenant, connections=0)

    async def take(self, wish: Wish) -> Batch:
        request = {"limit": wish.limit, "wait_s": wish.wait_s, "lease_s": wish.lease_s}
        with refusals(_answer_to):
            answer = await self._work.take_jobs(*wish.types, worker=wish.worker._asdict(), **request)
        return Batch([_given(job) for job in answer.jobs], answer.drain)

    async def renew(self, deliveries: Sequence[Delivery], lease_s: float | None) -> list[Verdict]:
        answer = await self._work.renew_jobs(_leases(deliveries), lease_s=lease_s)
        return [_verdict(row) for row in answer.verdicts]

    async def report(self, reports: Sequence[Report]) -> list[Verdict]:
        answer = await self._work.report_jobs([_item(report) for report in reports])
        return [_verdict(row) for row in answer.verdicts]

    async def give_back(self, deliveries: Sequence[Delivery], goodbye: str) -> list[Verdict]:
        answer = await self._work.return_jobs(_leases(deliveries), goodbye=goodbye)
        return [_verdict(row) for row in answer.verdicts]

    async def add(self, job_type: str, payloads: Sequence[bytes], options: AddOptions) -> list[str]:
        with refusals(_answer_to):
            added = await self._client.add_jobs(job_type, payloads, **options.said())
        return added.ids if isinstance(added.ids, list) else []

    async def register(self, job_type: str, fields: Mapping[str, object]) -> None:
        with refusals(_answer_to):
            await self._client.serve_by_workers(job_type, **fields)

    async def language(self, job_type: str) -> str | None:
        try:
            return str((await self._client.get_handler(job_type)).handler.get("lang", ""))
        except ClientError as error:
            return None if error.status == _NO_HANDLER else ""

    async def worker_types(self) -> list[str] | None:
        try:
            rows = (await self._client.list_handlers()).handlers
        except ClientError:
            return None
        return [row.type for row in rows if row.lang == WORKER]

    async def close(self) -> None:
        await self._client.close()
        await self._work.close()


def _answer_to(error: Exception) -> ClientError | None:
    return error if isinstance(error, ClientError) else None


def _given(job: TakenJob) -> Given:
    payload = from_wire(job.payload, job.payload_encoding)
    return Given(
        job.id,
        job.token,
        job.type,
        payload,
        job.attempts,
        job.lease_s,
        job.timeout_s,
        is_renewable=job.is_renewable,
        children=[msgspec.structs.asdict(child) for child in job.children],
        follows=None if job.follows is None else msgspec.structs.asdict(job.follows),
    )


def _leases(deliveries: Sequence[Delivery]) -> list[tuple[str, int]]:
    return [(each.id, each.token or 0) for each in deliveries]


def _verdict(row: VerdictRow) -> Verdict:
    answer = Answer(row.answer)
    status = row.status if answer is Answer.REFUSED else None
    return Verdict(row.id, answer, row.lease_until_ms, row.code, row.message, status)


def _item(report: Report) -> dict[str, object]:
    item: dict[str, object] = {"id": report.delivery.id, "token": report.delivery.token, "exitcode": report.exitcode}
    if report.result:
        item["result_base64"] = _base64(report.result)
    if report.log:
        item["log"] = report.log.decode("utf-8", "replace")
    if report.progress is not None:
        item["progress"] = msgspec.Raw(report.progress)
    if report.new_jobs:
        made = [
            {"type": new.type, "payload_base64": _base64(new.payload), "options": new.options}
            for new in report.new_jobs
        ]
        item["new_jobs"] = made
    if report.retry_after_ms is not None:
        item["delay_s"] = report.retry_after_ms / 1000
    if report.carried is not None:
        item["payload_base64"] = _base64(report.carried)
    return item


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
