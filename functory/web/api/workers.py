"""Routes of workers: take, renew, report, give back; and who they are."""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

import msgspec

from functory.errors import FunctoryError, InvalidInput
from functory.operations import workers as operations
from functory.operations.worker_families import Relative, with_children
from functory.web.api.rendering import show_options, show_origin
from functory.web.api.submission import payload_of
from functory.web.http.body_room import most_bytes
from functory.web.http.endpoint import Call
from functory.web.http.routes import Routes
from functory.wire.base import MAX_DELAY_S, Done, Encoding, to_wire
from functory.wire.workers import (
    MOST_LOG_CHARS,
    MOST_NEW_JOBS,
    MOST_OPTION_CHARS,
    DrainBody,
    LeaseBody,
    MadeJob,
    MoveBody,
    RenewBody,
    ReportBody,
    Reported,
    ReportItem,
    ReturnBody,
    TakeBody,
    TakenChild,
    TakenJob,
    TakenJobs,
    VerdictRow,
    Verdicts,
    WorkerList,
    WorkerRow,
)
from functory.workers.values import Answer, Delivery, Order, Report, Taken, Verdict, Worker
from runner.outcome import name_of
from vocabulary.names import is_type, type_of
from vocabulary.new_job import NewJob

routes = Routes()

_EXITCODES: Final = {"retry": 100, "ok": 200, "failed": 400, "error": 500}
_STATUSES: Final = {
    Answer.OK: 200,
    Answer.FIXED: 200,
    Answer.UNKNOWN: 404,
    Answer.TIMED_OUT: 408,
    Answer.LATE: 409,
    Answer.REFUSED: 413,
}
_SLICE_BYTES: Final = 256 * 1024
_SLICE_ITEMS: Final = 100


@routes.add("POST", "/{tenant}/work/take", scope="work", summary="Take jobs of types that workers serve")
async def take_jobs(call: Call, body: TakeBody) -> TakenJobs:
    taken = await operations.take(call.service, call.principal, _order(call, body))
    return await _show_taken(call, body, taken)


@routes.add("POST", "/{tenant}/work/renew", scope="work", summary="Keep jobs for longer")
async def renew_jobs(call: Call, body: RenewBody) -> Verdicts:
    verdicts = await operations.renew(call.service, call.principal, _deliveries(body.leases), _ms(body.lease_s))
    return Verdicts(_show_verdicts(verdicts))


@routes.add("POST", "/{tenant}/work/report", scope="work", summary="Report jobs, and take the next ones")
async def report_jobs(call: Call, body: ReportBody) -> Reported:
    reports = await _reports(body.reports)
    if body.take is None:
        return Reported(_show_verdicts(await operations.report(call.service, call.principal, reports)))
    body.reports.clear()  # nor are the reports themselves kept while the next jobs are waited for
    if most_bytes(call.request, call.web.settings.max_body_bytes) > call.web.bodies.free_bytes:
        body.take.wait_s = 0.0  # the room that a large body takes is not kept for that long
    order = _order(call, body.take)
    verdicts, taken = await operations.report_and_take(call.service, call.principal, reports, order)
    shown = await _show_taken(call, body.take, taken)
    return Reported(_show_verdicts(verdicts), shown.jobs, shown.drain)


@routes.add("POST", "/{tenant}/work/move", scope="work", summary="Have a job go on as one of another type")
async def move_job(call: Call, body: MoveBody) -> Done:
    call.principal.require("submit")  # it is a new job of that type, in a way
    payload = _value("payload", body.payload, body.payload_base64)
    due_ms = call.service.now_ms() + round(body.delay_s * 1000)
    delivery = Delivery(body.id, body.token)
    await operations.move(call.service, call.principal, delivery, body.type, dt_ms=due_ms, payload=payload)
    return Done()


@routes.add("POST", "/{tenant}/work/return", scope="work", summary="Give jobs back that were not begun")
async def return_jobs(call: Call, body: ReturnBody) -> Verdicts:
    verdicts = await operations.give_back(call.service, call.principal, _deliveries(body.leases), goodbye=body.goodbye)
    return Verdicts(_show_verdicts(verdicts))


@routes.add("GET", "/{tenant}/workers", scope="read", summary="Workers of the last hour")
async def list_workers(call: Call) -> WorkerList:
    workers = await operations.list_workers(call.service, call.tenant)
    return WorkerList([msgspec.convert(it, WorkerRow, from_attributes=True) for it in workers])


@routes.add("POST", "/{tenant}/workers/drain", scope="manage", summary="Have a worker take no more jobs")
async def drain_worker(call: Call, body: DrainBody) -> Done:
    await operations.drain_worker(call.service, call.principal, body.worker, drained=body.drained)
    return Done()


def _order(call: Call, body: TakeBody) -> Order:
    """Raises what is raised while the tenant does not read its answers."""
    call.web.edge.outflow.check(call.tenant)
    worker = Worker(body.worker.name, body.worker.host, body.worker.version, body.worker.capacity)
    return Order(call.tenant, tuple(body.types), body.limit, body.wait_s, _ms(body.lease_s), worker, call.is_heard)


async def _confirm(call: Call, taken: Sequence[Taken]) -> None:
    """A key may have been revoked while its owner waited: then it gets no jobs. Raises Unauthorized."""
    try:
        await call.confirm()
    except BaseException:  # the store has failed, or the daemon stops: nobody will hear of the jobs then, either
        await operations.return_taken(call.service, call.principal, taken)
        raise


async def _show_taken(call: Call, body: TakeBody, taken: Sequence[Taken]) -> TakenJobs:
    await _confirm(call, taken)
    told = await with_children(call.service, call.principal, taken, call.web.edge.outflow.ahead)
    now_ms = call.service.now_ms()  # what is left of a lease is told from here on
    encode = to_wire if body.encoding == "auto" else _in_base64
    jobs = [_show(one, now_ms, encode) for one in told]
    return TakenJobs(jobs, operations.is_draining(call.service, call.principal, body.worker.name))


def _in_base64(data: bytes) -> tuple[str, Encoding]:
    return b64encode(data).decode(), "base64"


def _show(one: Relative, now_ms: int, encode: Callable[[bytes], tuple[str, Encoding]]) -> TakenJob:
    taken = one.taken
    job = taken.job
    payload, encoding = encode(job.data)
    return TakenJob(
        id=job.id,
        type=type_of(job.jobtype),
        token=job.token,
        payload=payload,
        payload_encoding=encoding,
        attempts=job.attempts,
        lease_until_ms=job.dt_ms,
        lease_s=max(job.dt_ms - now_ms, 0) / 1000,
        timeout_s=None if taken.timeout_ms is None else taken.timeout_ms / 1000,
        is_renewable=job.retry_after_ms is None,
        priority=job.priority,
        created_ms=job.create_ms,
        due_ms=job.due_ms,
        parent=job.parent,
        follows=show_origin(job.options),
        options=show_options(job.options),
        children=_as_it_stands(one.children) if one.children else [],
    )


def _as_it_stands(children: bytes) -> list[TakenChild]:
    """JSON of them, which goes into the answer without being read: it can be megabytes."""
    return cast("list[TakenChild]", msgspec.Raw(children))


def _show_verdicts(verdicts: Sequence[Verdict]) -> list[VerdictRow]:
    return [
        VerdictRow(it.id, it.answer.value, it.status or _STATUSES[it.answer], it.until_ms, it.code, it.message)
        for it in verdicts
    ]


def _deliveries(leases: Sequence[LeaseBody]) -> list[Delivery]:
    return [Delivery(lease.id, lease.token) for lease in leases]


async def _reports(items: Sequence[ReportItem]) -> list[Report | Verdict]:
    """In slices: an item can be as large as a whole body. One that makes no sense is a verdict already."""
    reports: list[Report | Verdict] = []
    size_bytes = 0
    for number, item in enumerate(items):
        try:
            report = _report(item)
        except FunctoryError as error:
            reports.append(operations.refused(item.id, error))
            continue
        reports.append(report)
        size_bytes += len(report.result) + len(report.carried or b"") + sum(len(new.payload) for new in report.new_jobs)
        if size_bytes > _SLICE_BYTES or number % _SLICE_ITEMS == _SLICE_ITEMS - 1:
            await asyncio.sleep(0)
            size_bytes = 0
    return reports


def _report(item: ReportItem) -> Report:
    """Raises FunctoryError if it makes no sense."""
    if len(item.log) > MOST_LOG_CHARS:
        raise _wrong("log", f"must have at most {MOST_LOG_CHARS:,} characters")
    if item.delay_s is not None and not 0 <= item.delay_s <= MAX_DELAY_S:
        raise _wrong("delay_s", f"must be between 0 and {MAX_DELAY_S:,}")
    return Report(
        Delivery(item.id, item.token),
        _exitcode(item),
        _value("result", item.result, item.result_base64) or b"",
        item.log.encode("utf-8", "replace"),
        None if item.progress is msgspec.UNSET else msgspec.json.format(bytes(item.progress), indent=-1),
        tuple(_new_jobs(item.new_jobs)),
        _ms(item.delay_s),
        _value("payload", item.payload, item.payload_base64),
    )


def _exitcode(item: ReportItem) -> int | None:
    if item.outcome is None or item.exitcode is None:
        return item.exitcode if item.outcome is None else _EXITCODES[item.outcome]
    if name_of(item.exitcode) != item.outcome:
        raise _wrong("exitcode", f"{item.exitcode} is not one of {item.outcome}")
    return item.exitcode


def _new_jobs(made: Sequence[MadeJob]) -> Iterator[NewJob]:
    if len(made) > MOST_NEW_JOBS:
        raise _wrong("new_jobs", f"must have at most {MOST_NEW_JOBS:,} entries")
    for one in made:
        if not is_type(one.type):
            raise _wrong("new_jobs", f"{one.type[:80]!r} is not a type")
        if len(one.options) > MOST_OPTION_CHARS:
            raise _wrong("new_jobs", f"options must have at most {MOST_OPTION_CHARS:,} characters")
        payload = _value("payload", one.payload, one.payload_base64)
        if payload is None:
            raise _wrong("new_jobs", "a new job needs one of payload and payload_base64")
        yield NewJob(one.type, payload, one.options)


def _value(name: str, value: msgspec.Raw | msgspec.UnsetType, in_base64: str | msgspec.UnsetType) -> bytes | None:
    """In one of two forms: text or JSON as it stands, or any bytes."""
    if value is not msgspec.UNSET and in_base64 is not msgspec.UNSET:
        raise InvalidInput(f"use either {name} or {name}_base64, not both", detail={"field": name})
    if in_base64 is not msgspec.UNSET:
        return payload_of(msgspec.Raw(), in_base64, name)
    return None if value is msgspec.UNSET else payload_of(value, None, name)


def _wrong(field: str, what: str) -> InvalidInput:
    return InvalidInput(f"{field}: {what}", detail={"field": field})


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
