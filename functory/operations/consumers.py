"""Consumers of numbered types: create, look at, start, stop, check, delete."""

from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from functory.consumers.terms import Blocked, Note, Terms, encode, note_from, terms_from
from functory.errors import InvalidInput, QuotaExceeded
from functory.operations.audit import audit
from functory.operations.principal import Principal
from functory.operations.service import Service
from store.base import Code, ConsumerRecord, JobRecord, JobState, WindowReport
from store.errors import Conflict, NotFound
from vocabulary.names import jobtype_of, tenant_of

MAX_CONSUMERS: Final = 100
"""Of one tenant."""
_STEPS_PER_CALL: Final = 20


class Gap(NamedTuple):
    """The index that progress waits for, its job, and what the leader knows of it if it did not end well."""

    seq: int
    record: JobRecord
    blocked: Blocked | None

    @property
    def why(self) -> str:
        """What keeps its job from ending, or from being tried again, if that is known."""
        if self.record.job.repeat and self.record.state is not JobState.ARCHIVED:
            return "its job repeats, so the index would never be done: cancel the job, then delete it"
        return "" if self.blocked is None else self.blocked.why


class Standing(NamedTuple):
    """A consumer with its settings, what its leader noted, and where its window stands. gap is None in listings."""

    record: ConsumerRecord
    terms: Terms
    note: Note
    report: WindowReport
    gap: Gap | None = None
    next_lag: int | None = None
    """What the next stage has left to do."""


WindowState = Literal["done", "in_work", "failed"]


class WindowPart(NamedTuple):
    first: int
    last: int
    state: WindowState


async def put_consumer(
    service: Service, who: Principal, name: str, source: str, terms: Terms, start_index: int | None
) -> bool:
    """Create a consumer, or change its settings. True if it is new. Raises Conflict, InvalidInput, QuotaExceeded."""
    jobtype = jobtype_of(who.tenant, source)
    _check(source, terms)
    await service.admission.take_type(who.tenant, who.limits, jobtype)
    async with service.count_turns.of(who.tenant):
        there = await service.store.get_consumer(who.tenant, name)
        if there is not None and start_index not in {None, _terms(there).start_index}:
            raise Conflict("a consumer that exists does not begin anew: delete it first, or leave out start_index")
        if there is None and len(await service.store.list_consumers(who.tenant)) >= MAX_CONSUMERS:
            raise QuotaExceeded(f"a tenant has at most {MAX_CONSUMERS} consumers", detail={"limit": MAX_CONSUMERS})
        begun = start_index if there is None else _terms(there).start_index
        settings = encode(msgspec.structs.replace(terms, start_index=begun))
        record = ConsumerRecord(who.tenant, name, jobtype, settings, service.now_ms(), is_pulled=bool(terms.pull))
        created = await service.store.set_consumer(record, start_index=start_index)
    _tell_daemon(service, who.tenant)
    await audit(service, who.key_id, "consumer.put", who.tenant, consumer=name, source=source, created=created)
    return created


async def get_consumer(service: Service, tenant: str, name: str) -> Standing:
    """With its window. Raises NotFound."""
    record = await _must_get(service, tenant, name)
    place = await service.store.look_at_window(tenant, record.jobtype, after=0, until=0)
    report = await service.store.look_at_window(
        tenant, record.jobtype, after=place.processed, until=max(place.processed, place.released)
    )
    note = note_from(record.note)
    terms = _terms(record)
    gap = await _gap(service, record, note, report.processed + 1)
    return Standing(record, terms, note, report, gap, await _next_lag(service, tenant, terms))


async def list_consumers(service: Service, tenant: str) -> list[Standing]:
    """Without their windows."""
    return [
        Standing(
            record,
            _terms(record),
            note_from(record.note),
            await service.store.look_at_window(tenant, record.jobtype, after=0, until=0),
        )
        for record in await service.store.list_consumers(tenant)
    ]


async def run_consumer(service: Service, who: Principal, name: str, *, running: bool) -> None:
    """Start or stop it. Jobs that were let into the queue go on. Raises NotFound, Conflict."""
    if (await _must_get(service, who.tenant, name)).is_ending:
        raise Conflict(f"consumer {name} is being deleted")
    await service.store.set_consumer_running(who.tenant, name, running=running)
    _tell_daemon(service, who.tenant)
    await audit(service, who.key_id, "consumer.start" if running else "consumer.stop", who.tenant, consumer=name)


async def check_consumer(service: Service, tenant: str, name: str) -> str:
    """Have its leader look for new jobs now. Many calls at once cause one look. Returns the leader, or "".

    Raises NotFound.
    """
    record = await _must_get(service, tenant, name)
    service.consumers.check(tenant, name)
    return leader_of(record, service.now_ms())


async def delete_consumer(
    service: Service, who: Principal, name: str, *, only_deleting: bool = False
) -> tuple[int, bool]:
    """Jobs that it held enter the queue, and stay numbered. Returns how many, and whether there are more: repeat it
    then, with only_deleting. That goes on with a deletion that has begun. If it is over by now there may be another
    consumer of the name, which is left alone. Raises NotFound, but not with only_deleting."""
    try:
        freed, more = await service.store.end_consumer(
            who.tenant, name, now_ms=service.now_ms(), only_ending=only_deleting
        )
    except NotFound:
        if only_deleting:
            return 0, False
        raise
    try:
        for _ in range(_STEPS_PER_CALL - 1 if more else 0):
            report = await service.store.end_consumer(who.tenant, name, now_ms=service.now_ms(), only_ending=True)
            freed, more = freed + report.freed, report.more
            if not more:
                break
    except NotFound:  # another daemon has made the last step
        more = False
    finally:  # also if the store is away now: its first step has ended the consumer
        _tell_daemon(service, who.tenant)
        service.control.wake()
        await audit(service, who.key_id, "consumer.delete", who.tenant, consumer=name, freed=freed, more=more)
    return freed, more


async def list_all_consumers(service: Service) -> Sequence[ConsumerRecord]:
    """Of all tenants, as it was a moment ago: for the operator, who wants to know who leads what."""
    return await service.recent_consumers.get(service.store, service.now_ms)


async def find_consumer_of(service: Service, jobtype: str) -> ConsumerRecord | None:
    """The consumer whose source is this type."""
    for record in await service.store.list_consumers(tenant_of(jobtype)):
        if record.jobtype == jobtype:
            return record
    return None


async def refuse_repeat(service: Service, tenant: str, jobtypes: Collection[str]) -> None:
    """Of new jobs of these types that repeat. Raises Conflict."""
    for record in await service.store.list_consumers(tenant) if jobtypes else ():
        if record.jobtype in jobtypes and not record.is_pulled:
            raise Conflict(
                f"{record.jobtype} has a consumer ({record.name}), whose progress waits for each job to be over:"
                " a job that repeats never is. Repeat a job of another type that adds one of this"
            )


def leader_of(record: ConsumerRecord, now_ms: int) -> str:
    """Who leads it at this time, or ""."""
    return record.leader if record.until_ms > now_ms else ""


def window_of(standing: Standing) -> list[WindowPart]:
    """Everything after progress that was let into the queue, in as few parts as there can be."""
    report = standing.report
    skips = standing.terms.on_failed == "skip"
    states: dict[int, WindowState] = {
        end.seq: "done" if skips or end.code is None or end.code is Code.OK else "failed" for end in report.ends
    }
    parts: list[WindowPart] = []
    for number in range(report.processed + 1, report.released + 1):
        state = states.get(number, "in_work")
        if parts and parts[-1].state == state:
            parts[-1] = parts[-1]._replace(last=number)
        else:
            parts.append(WindowPart(number, number, state))
    return parts


async def _gap(service: Service, record: ConsumerRecord, note: Note, index: int) -> Gap | None:
    found = await service.store.get_job_at(record.tenant, record.jobtype, index, now_ms=service.now_ms(), max_bytes=0)
    if found is None:
        return None
    is_bad = found.state is JobState.ARCHIVED
    blocked = next((it for it in note.blocked if it.index == index), None) if is_bad else None
    return Gap(index, found, blocked)


async def _next_lag(service: Service, tenant: str, terms: Terms) -> int | None:
    if not terms.next_type:
        return None
    report = await service.store.look_at_window(tenant, jobtype_of(tenant, terms.next_type), after=0, until=0)
    return max(report.head - report.processed, 0)


def _check(source: str, terms: Terms) -> None:
    if terms.on_progress == source:
        raise InvalidInput(
            "on_progress is the source itself: telling of progress would make more of it, for ever",
            detail={"field": "on_progress"},
        )
    if terms.pull == source:
        raise InvalidInput("pull is the source itself: name the type that is asked for jobs", detail={"field": "pull"})
    if terms.next_type == source:
        raise InvalidInput("next is the source itself: name the type of the next stage", detail={"field": "next"})


def _terms(record: ConsumerRecord) -> Terms:
    """What a newer version wrote and this one cannot read is shown with the defaults."""
    try:
        return terms_from(record.settings)
    except msgspec.MsgspecError:
        return Terms()


def _tell_daemon(service: Service, tenant: str) -> None:
    service.consumers.changed()
    service.control.consumers_changed()
    service.control.types_changed(tenant)  # jobs of the source take the straight way no more, or again


async def _must_get(service: Service, tenant: str, name: str) -> ConsumerRecord:
    record = await service.store.get_consumer(tenant, name)
    if record is None:
        raise NotFound(f"tenant {tenant} has no consumer {name}")
    return record
