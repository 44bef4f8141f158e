"""Routes of consumers: work through the jobs of a type by their numbers, none skipped."""

from typing import Any, Final

from functory.consumers.terms import Terms
from functory.errors import InvalidInput
from functory.operations import consumers
from functory.operations.consumers import Gap, Standing, leader_of, window_of
from functory.web.http.endpoint import Call
from functory.web.http.routes import Routes
from functory.wire.base import Done
from functory.wire.consumers import (
    Consumer,
    ConsumerBody,
    ConsumerChecked,
    ConsumerCreated,
    ConsumerDeleted,
    ConsumerDeleteQuery,
    ConsumerDetail,
    ConsumerGap,
    ConsumerList,
    SkippedIndex,
    WindowSpan,
)
from store.base import JobState
from vocabulary.names import is_type, type_of

routes = Routes()


@routes.add("PUT", "/{tenant}/consumer/{consumer}", scope="manage", summary="Create a consumer, or change its settings")
async def put_consumer(call: Call, body: ConsumerBody) -> ConsumerCreated:
    terms = Terms(
        max_processing=body.max_processing,
        max_search_ahead=body.max_search_ahead,
        on_failed=body.on_failed,
        on_progress=body.on_progress or "",
        next_type=body.next or "",
        pull=body.pull or "",
        max_lag=body.max_lag,
    )
    created = await consumers.put_consumer(
        call.service, call.principal, _name(call), body.source, terms, body.start_index
    )
    return ConsumerCreated(created)


@routes.add("GET", "/{tenant}/consumer", scope="read", summary="All consumers, and how far each has come")
async def list_consumers(call: Call) -> ConsumerList:
    now_ms = call.service.now_ms()
    found = await consumers.list_consumers(call.service, call.tenant)
    return ConsumerList([Consumer(**_values(standing, now_ms)) for standing in found])


@routes.add("GET", "/{tenant}/consumer/{consumer}", scope="read", summary="A consumer, its progress and its window")
async def get_consumer(call: Call) -> ConsumerDetail:
    standing = await consumers.get_consumer(call.service, call.tenant, _name(call))
    window = [WindowSpan(*part) for part in window_of(standing)]
    sizes = {state: sum(it.last - it.first + 1 for it in window if it.state == state) for state in _STATES}
    return ConsumerDetail(
        **_values(standing, call.service.now_ms()),
        in_work=sizes["in_work"],
        done_ahead=sizes["done"],
        failed=sizes["failed"],
        gap=None if standing.gap is None else _show_gap(standing.gap),
        window=window,
        next_lag=standing.next_lag,
    )


@routes.add("POST", "/{tenant}/consumer/{consumer}/start", scope="manage", summary="Start a consumer that was stopped")
async def start_consumer(call: Call) -> Done:
    await consumers.run_consumer(call.service, call.principal, _name(call), running=True)
    return Done()


@routes.add("POST", "/{tenant}/consumer/{consumer}/stop", scope="manage", summary="Let no more jobs into the queue")
async def stop_consumer(call: Call) -> Done:
    await consumers.run_consumer(call.service, call.principal, _name(call), running=False)
    return Done()


@routes.add("POST", "/{tenant}/consumer/{consumer}/check", scope="manage", summary="Have a consumer look for new jobs")
async def check_consumer(call: Call) -> ConsumerChecked:
    return ConsumerChecked(await consumers.check_consumer(call.service, call.tenant, _name(call)) or None)


@routes.add("DELETE", "/{tenant}/consumer/{consumer}", scope="manage", summary="Delete a consumer; its jobs stay")
async def delete_consumer(call: Call, query: ConsumerDeleteQuery) -> ConsumerDeleted:
    return ConsumerDeleted(
        *await consumers.delete_consumer(call.service, call.principal, _name(call), only_deleting=query.only_deleting)
    )


_STATES: Final = ("in_work", "done", "failed")


def _name(call: Call) -> str:
    name = call.param("consumer")
    if not is_type(name):
        raise InvalidInput(
            f"{name[:80]!r} is not the name of a consumer: a letter or digit, then up to 126 of letters, digits and"
            " _ . : -",
            detail={"in": "path", "field": "consumer"},
        )
    return name


def _values(standing: Standing, now_ms: int) -> dict[str, Any]:
    record, terms, note, report = standing[:4]
    leader = leader_of(record, now_ms)
    return {
        "name": record.name,
        "source": type_of(record.jobtype),
        "pull": terms.pull or None,
        "trouble": note.trouble or None,
        "state": "deleting" if record.is_ending else "running" if record.is_running else "stopped",
        "max_processing": terms.max_processing,
        "max_search_ahead": terms.max_search_ahead,
        "start_index": terms.start_index,
        "on_failed": terms.on_failed,
        "on_progress": terms.on_progress or None,
        "next": terms.next_type or None,
        "max_lag": terms.max_lag,
        "processed": report.processed,
        "head": report.head,
        "lag": max(report.head - report.processed, 0),
        "leader": leader or None,
        "lease_until_ms": record.until_ms if leader else None,
        "skips": note.skips,
        "skipped": [SkippedIndex(it.index, it.job_id, it.code, it.at_ms) for it in note.skipped],
    }


def _show_gap(gap: Gap) -> ConsumerGap:
    job, outcome = gap.record.job, gap.record.outcome
    if gap.record.state is not JobState.ARCHIVED:
        since_ms = gap.record.claimed_ms if gap.record.state is JobState.RUNNING else job.due_ms
        return ConsumerGap(gap.seq, job.id, gap.record.state.value, since_ms, why=gap.why)
    blocked = gap.blocked
    return ConsumerGap(
        gap.seq,
        job.id,
        gap.record.state.value,
        gap.record.done_ms if blocked is None else blocked.since_ms,
        code=None if outcome is None else outcome.code.value,
        tries=0 if blocked is None else blocked.tries,
        next_ms=None if blocked is None else blocked.next_ms or None,
        why=gap.why,
    )
