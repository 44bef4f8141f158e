"""Workers: programs elsewhere that take jobs of types with `lang: worker`, and report them (docs/workers.md).

Any protocol can stand before these functions. Whoever takes a job holds it by a lease, and names it by id and token; a
protocol that has no tokens leaves the token None, and means the delivery that a worker holds now.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from functory.errors import FunctoryError, InvalidInput, NotReadyYet, QuotaExceeded
from functory.operations.audit import audit
from functory.operations.job_changes import admit_payload
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.type_patterns import MOST_CHARS
from functory.wire.nesting import MOST_LEVELS, is_too_deep
from functory.wire.untyped_json import decode_untyped
from functory.workers.presence import Seen
from functory.workers.values import INVALID, Answer, Delivery, Order, Report, Taken, Verdict
from runner.outcome import is_status
from store.base import JobChange
from store.errors import StoreUnavailable
from vocabulary.names import jobtype_of

log = logging.getLogger("functory.workers")

MOST_TAKEN: Final = 1000
MOST_ITEMS: Final = 1000
"""Jobs in one renewal, report or return."""
MOST_WAIT_S: Final = 60.0
MOST_PATTERNS: Final = 20
LONGEST_LEASE_MS: Final = 86_400_000
SHORTEST_LEASE_MS: Final = 1000
_LABEL_CHARS: Final = 100
_PROGRESS_BYTES: Final = 4096


async def take(service: Service, who: Principal, order: Order) -> list[Taken]:
    """Jobs as soon as there are some, or none when the time is up. Raises InvalidInput, QuotaExceeded."""
    order = order._replace(tenant=who.tenant, tenant_since_ms=who.tenant_since_ms)
    _check_order(order)
    return await service.workers.take(order)


async def renew(
    service: Service, who: Principal, deliveries: Sequence[Delivery], lease_ms: int | None = None
) -> list[Verdict]:
    """Keep jobs for longer, from now on: for as long as they were taken for, or for lease_ms. Raises InvalidInput."""
    _check_count("leases", len(deliveries))
    _check_lease(lease_ms)
    return await service.workers.renew(who.tenant, deliveries, lease_ms)


async def report(
    service: Service, who: Principal, reports: Sequence[Report | Verdict], begun: Callable[[], None] | None = None
) -> list[Verdict]:
    """Say how jobs ended, or what they do. Verdicts are in the order of the reports. One that makes no sense is
    refused, and the others are recorded; one that its protocol has refused already is a Verdict. begun: called when
    they are on their way to the store. Raises InvalidInput for too many, and NotReadyYet when the store does not take
    outcomes now."""
    _check_count("reports", len(reports))
    checked = list(_checked(reports))
    sound = [one for one in checked if isinstance(one, Report)]
    verdicts = iter(await service.workers.report(who.tenant, sound, begun))
    return [one if isinstance(one, Verdict) else next(verdicts) for one in checked]


def refused(job_id: str, error: FunctoryError) -> Verdict:
    """The verdict of a report that makes no sense."""
    return Verdict(job_id, Answer.REFUSED, message=str(error), status=INVALID)


async def report_and_take(
    service: Service, who: Principal, reports: list[Report | Verdict], order: Order
) -> tuple[list[Verdict], list[Taken]]:
    """Take jobs as soon as a report is on its way to the store: as a rule both are one commit. `reports` is emptied
    when they are recorded, because the taking may wait for long.

    Nothing is taken if the report fails. If only the taking fails, no jobs come with the verdicts. Raises what `report`
    raises, and InvalidInput for the order, before anything is recorded.
    """
    _check_order(order)
    taking: list[asyncio.Task[_Claim]] = []

    def begin() -> None:
        if not taking:
            taking.append(asyncio.create_task(_claim(service, who, order)))

    try:
        verdicts = await report(service, who, reports, begin)
        begin()  # if there was nothing to record
        reports.clear()
        try:
            taken = await taking[0]
        except (QuotaExceeded, StoreUnavailable):
            taken = _Claim([], service.now_ms())
    except BaseException:
        await _take_back(service, who, taking)
        raise
    jobs, old = _by_age(taken, service.now_ms())
    has_caps = who.limits.max_running is not None or who.limits.max_running_per_type is not None
    try:
        await return_taken(service, who, old)
        if len(jobs) < order.limit and (has_caps if jobs else not order.wait_s):  # what was reported has made room
            with suppress(QuotaExceeded, StoreUnavailable):
                jobs += await take(service, who, order._replace(limit=order.limit - len(jobs), wait_s=0.0))
    except BaseException:
        await return_taken(service, who, jobs)
        raise
    return verdicts, jobs


class _Claim(NamedTuple):
    jobs: list[Taken]
    taken_ms: int


async def _claim(service: Service, who: Principal, order: Order) -> _Claim:
    return _Claim(await take(service, who, order), service.now_ms())


def _by_age(claim: _Claim, now_ms: int) -> tuple[list[Taken], list[Taken]]:
    """The jobs, and apart from them those of whose lease a third is over: their report took long, and the worker hears
    only now."""
    good, old = list[Taken](), list[Taken]()
    for one in claim.jobs:
        waited_ms = now_ms - claim.taken_ms
        (old if 3 * waited_ms > one.job.dt_ms - claim.taken_ms else good).append(one)
    return good, old


async def _take_back(service: Service, who: Principal, taking: "Sequence[asyncio.Task[_Claim]]") -> None:
    """Nobody will hear of what was taken."""
    for task in taking:
        task.cancel()
    for claim in await asyncio.gather(*taking, return_exceptions=True):
        if not isinstance(claim, BaseException):
            await return_taken(service, who, claim.jobs)


async def return_taken(service: Service, who: Principal, jobs: Sequence[Taken]) -> None:
    """Give back jobs that were taken for somebody who will not hear of them. Never raises because the store is away."""
    if jobs:
        try:
            await service.workers.give_back(who.tenant, [Delivery(job.id, job.token) for job, _ in jobs])
        except (
            NotReadyYet,
            StoreUnavailable,
        ) as error:  # they are given back when the store can, or their leases lapse
            log.warning("workers.not_given_back", extra={"jobs": len(jobs), "reason": str(error)})


async def give_back(
    service: Service, who: Principal, deliveries: Sequence[Delivery], *, goodbye: str = ""
) -> list[Verdict]:
    """Jobs that were not begun: they wait again at their place, and no attempt is counted. goodbye: the name of a
    worker that leaves; with it goes back what it took from this daemon, and in a moment what it took from others.
    Raises InvalidInput."""
    _check_count("leases", len(deliveries))
    _check_label("worker", goodbye)
    verdicts = await service.workers.give_back(who.tenant, deliveries, goodbye)
    if goodbye:
        await service.control.worker_left(who.tenant, goodbye)
    return verdicts


async def drain_worker(service: Service, who: Principal, name: str, *, drained: bool) -> None:
    """Have a worker take no more jobs for an hour, or let it take some again. Raises InvalidInput, QuotaExceeded."""
    _check_label("worker", name)
    await service.workers.drain(who.tenant, name, drained=drained)
    await audit(service, who.key_id, "worker.drain" if drained else "worker.undrain", who.tenant, worker=name)


def is_draining(service: Service, who: Principal, name: str) -> bool:
    """Whether a worker should end what it has, and stop."""
    return service.workers.is_draining(who.tenant, name)


async def update_payload(service: Service, who: Principal, delivery: Delivery, payload: bytes) -> None:
    """Change the payload of a job that a worker holds: others see it, and the next attempt gets it. Raises Conflict if
    that delivery is over, Missing, LimitExceeded, QuotaExceeded."""
    await admit_payload(service, who, delivery.id, payload)
    change = JobChange(data=payload, token=delivery.token)
    await service.store.update_job(who.tenant, delivery.id, change, now_ms=service.now_ms())


async def move(
    service: Service, who: Principal, delivery: Delivery, type_name: str, *, dt_ms: int, payload: bytes | None
) -> None:
    """Have a job that a worker holds run again as one of another type, due at dt_ms, with attempts 0. The delivery is
    over in the same write, and is not counted as a run. Raises Conflict if it was over before, or if the job has a
    unique name or an index; Missing, LimitExceeded, QuotaExceeded."""
    jobtype = jobtype_of(who.tenant, type_name)
    if payload is not None:
        await admit_payload(service, who, delivery.id, payload)
    await service.admission.take_type(who.tenant, who.limits, jobtype)
    await service.store.move_job(
        who.tenant, delivery.id, jobtype, dt_ms=dt_ms, now_ms=service.now_ms(), data=payload, token=delivery.token
    )
    service.workers.moved(who.tenant, delivery)


async def list_workers(service: Service, tenant: str) -> list[Seen]:
    """The workers that asked for jobs in the last hour, on all daemons."""
    return await service.workers.seen(tenant)


def _check_order(order: Order) -> None:
    if not 1 <= len(order.patterns) <= MOST_PATTERNS:
        raise _wrong("types", f"must have 1 to {MOST_PATTERNS} types or patterns")
    for pattern in order.patterns:
        if not 1 <= len(pattern) <= MOST_CHARS or not (pattern.isascii() and pattern.isprintable()):
            raise _wrong("types", f"must be types or patterns of 1 to {MOST_CHARS} printable ASCII characters")
    if not 1 <= order.limit <= MOST_TAKEN:
        raise _wrong("limit", f"must be between 1 and {MOST_TAKEN}")
    if not 0 <= order.wait_s <= MOST_WAIT_S:
        raise _wrong("wait_s", f"must be between 0 and {MOST_WAIT_S:g} seconds")
    _check_lease(order.lease_ms)
    for field in ("name", "host", "version"):
        _check_label(f"worker.{field}", getattr(order.worker, field))


def _check_lease(lease_ms: int | None) -> None:
    if lease_ms is not None and not SHORTEST_LEASE_MS <= lease_ms <= LONGEST_LEASE_MS:
        raise _wrong("lease_s", f"must be between {SHORTEST_LEASE_MS // 1000} and {LONGEST_LEASE_MS // 1000} seconds")


def _check_label(field: str, text: str) -> None:
    if len(text) > _LABEL_CHARS or not (text.isprintable() and text.isascii()):
        raise _wrong(field, f"must have at most {_LABEL_CHARS} printable ASCII characters")


def _check_count(field: str, count: int) -> None:
    if count > MOST_ITEMS:
        raise _wrong(field, f"has {count} entries; at most {MOST_ITEMS} fit into one request")


def _checked(reports: Sequence[Report | Verdict]) -> Iterator[Report | Verdict]:
    """The reports, with a verdict in the place of each that makes no sense. Two deliveries of a job may end in one
    request: a worker that lost it and took it again reports both, and the first is late."""
    ended: set[Delivery] = set()
    for one in reports:
        if isinstance(one, Report):
            try:
                _check_report(one)
                if one.exitcode is not None and one.delivery in ended:
                    raise _wrong("id", f"{one.delivery.id[:80]} ends twice in one request")
            except InvalidInput as error:
                yield refused(one.delivery.id, error)
                continue
            if one.exitcode is not None:
                ended.add(one.delivery)
        yield one


def _check_report(report: Report) -> None:
    if report.exitcode is not None and not is_status(report.exitcode):
        raise _wrong("exitcode", "must be 1xx (retry), 2xx (ok), 4xx (failed) or 5xx (error)")
    if report.retry_after_ms is not None and report.retry_after_ms < 0:
        raise _wrong("delay_s", "must be 0 or more")
    if report.progress is not None:
        if len(report.progress) > _PROGRESS_BYTES:
            raise _wrong("progress", f"must have at most {_PROGRESS_BYTES} bytes as JSON")
        try:
            said = decode_untyped(report.progress)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise _wrong("progress", "must be JSON") from None
        if is_too_deep(said):
            raise _wrong("progress", f"is nested more than {MOST_LEVELS} deep")


def _wrong(field: str, what: str) -> InvalidInput:
    return InvalidInput(f"{field}: {what}", detail={"field": field})
