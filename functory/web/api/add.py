"""The routes that add jobs. The path and the plain case of the first are defined here, once.

`add_lines` is the plain case: lines in, ids out. The route below calls it, so does `/add` of the older systems
(legacy.py), and so does the fast path (express.py), which skips everything around it.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from functory.errors import FunctoryError, InvalidInput, Missing
from functory.intake.job_options import DEFAULT_PRIORITY, PLAIN, JobOptions
from functory.operations import create, submit
from functory.operations.create import TypedSubmission
from functory.operations.idempotency import Fingerprint
from functory.operations.job_settings import to_options, unsaid
from functory.operations.jobs import wait_for_awaited
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.submit import (
    Submission,
    max_jobs,
    submit_jobs,
    submit_lines,
    submit_once,
    until_stored,
)
from functory.web.api.idempotency_key import idempotency_key_of
from functory.web.api.rendering import show_job, show_not_kept
from functory.web.api.submission import (
    SPLIT_BYTES,
    Reading,
    added_json,
    created_bytes,
    parse_jobs,
    place_in,
    reading_of,
    split_lines,
    split_many,
    tell_which,
    telling_which,
    to_submission,
    with_turn,
)
from functory.web.api.waiting import size_of
from functory.web.http.answers import json_bytes
from functory.web.http.endpoint import Call, Web
from functory.web.http.outflow import LARGE_BYTES as LARGE_ANSWER_BYTES
from functory.web.http.routes import Routes
from functory.web.http.turns import LARGE_BYTES
from functory.wire.jobs import Added, AddQuery, CreateBody, Job, JobSettings
from journal import Settled
from store.errors import StoreError
from vocabulary.names import TENANT, TYPE

routes = Routes()

_MOST_WAITED_FOR: Final = 100
ADD_ROUTE: Final = "/{tenant}/job/{type}/add"
ADD_PATH: Final = re.compile(rf"/({TENANT})/job/({TYPE})/add(\?.*)?", re.ASCII)
"""The same path for those who match it themselves: tenant, type, query."""
_LINE_BYTES: Final = 120
_JOB_BYTES: Final = 500
"""Of memory that a job takes beside its body: one of a plain line, and one with options of its own."""
_FEW_BYTES: Final = 2048
_ANSWERING: Final = {name: getattr(AddQuery(), name) for name in ("ack", "ids", "wait_s")}
"""The options of the query that only say when and how the request is answered, as they are if nothing is said."""


async def add_lines(web_: Web, who: Principal, type_name: str, body: bytes, options: JobOptions = PLAIN) -> list[str]:
    """One job for each line of the body, all with the same options."""
    if len(body) <= _FEW_BYTES:
        return await submit_lines(web_.service, who, type_name, split_lines(body, max_jobs(web_.service)), options)
    most = max_jobs(web_.service)
    if len(body) <= SPLIT_BYTES:  # to count the lines first would cost as much as to split them
        lines = split_lines(body, most)
        if len(lines) * _LINE_BYTES <= web_.job_room.free_bytes:
            return await submit_lines(web_.service, who, type_name, lines, options)
        del lines  # nobody waits for room with what needs it
    async with _room(web_, who.tenant, body, _LINE_BYTES):
        lines = await split_many(body, most, web_.turns)
        return await submit_lines(web_.service, who, type_name, lines, options)


def begin_lines(web_: Web, who: Principal, type_name: str, body: bytes, told: Settled) -> list[str] | None:
    """The first half of `add_lines`: the ids, and `told` hears when the lines are durable. None: there is more to it,
    and nothing was done. Raises what `add_lines` raises."""
    if len(body) > _FEW_BYTES:
        return None
    return submit.begin_lines(web_.service, who, type_name, split_lines(body, max_jobs(web_.service)), told)


@asynccontextmanager
async def _room(web_: Web, tenant: str, body: bytes, job_bytes: int) -> AsyncIterator[bool]:
    """Room for the jobs that a body becomes, and for their ids: two bytes can be a job. Yields whether it had to wait.
    Raises NotReadyYet."""
    jobs = max(body.count(b"\n"), body.count(b"{") if job_bytes == _JOB_BYTES else 0)
    size_bytes = min(jobs, max_jobs(web_.service)) * job_bytes
    if size_bytes > web_.job_room.free_bytes:
        web_.edge.outflow.check(tenant)
    if job_bytes == _JOB_BYTES:
        size_bytes = with_turn(jobs, size_bytes)
    async with web_.job_room.of(tenant, size_bytes) as has_waited:
        yield has_waited


@routes.add(
    "POST",
    ADD_ROUTE,
    scope="submit",
    summary="Add jobs: one payload a line, or JSON or NDJSON with options for each job",
    answer=Added,
    raw=("text/plain", "application/json", "application/x-ndjson"),
)
async def add_jobs(call: Call, query: AddQuery) -> web.Response:
    """Add jobs; the answer is sent when they are durable. The plain case comes first and does as little as it can."""
    if query.wait_s:
        call.principal.require("read")
    query = msgspec.structs.replace(
        query, idempotency_key=idempotency_key_of(call.request.headers, query.idempotency_key)
    )
    type_name, body = call.type_name, await call.read_body()
    await call.web.turns.take(len(body))
    reading = reading_of(call.request.headers.get("Content-Type", ""))
    if reading == "lines" and query.idempotency_key is None and not query.unique and not query.parent:
        options = to_options(query, call.service.now_ms())
        ids = await add_lines(call.web, call.principal, type_name, body, options)
    else:
        async with _room(call.web, call.tenant, body, _JOB_BYTES) as has_waited:
            if has_waited:
                call.refuse_unheard()
                await call.stay_admitted()
            ids = await _add_one_by_one(call, query, type_name, body, reading)
    del body
    await call.forget_body()
    if query.ack == "store":
        await until_stored(call.service, call.tenant, ids)
    with_ids = query.ids == "yes"
    added = Waited(call.principal, type_name, ids, query.wait_s)
    return json_bytes(await describe_added(call.web, added, with_ids=with_ids, is_heard=call.is_heard))


@routes.add(
    "POST",
    "/{tenant}/jobs",
    scope="submit",
    summary="Create jobs of several types, all or none",
    weigh=created_bytes,
)
async def create_jobs(call: Call, body: CreateBody) -> Added:
    """Built in slices; the answer is sent when they are in the store."""
    key = idempotency_key_of(call.request.headers, body.idempotency_key)
    now_ms, jobs = call.service.now_ms(), list[TypedSubmission]()
    texts = [b"" if isinstance(job.payload, msgspec.UnsetType) else job.payload for job in body.jobs]
    async for number, _ in call.web.turns.slices(texts):
        job = body.jobs[number - 1]
        try:
            jobs.append((job.type, to_submission(job, now_ms, {})))
        except InvalidInput as error:
            tell_which(error, f"job {number}", f"jobs[{number - 1}].")
            raise
    of_jobs = msgspec.structs.replace(body, idempotency_key=key)
    content = "" if key is None else await _digest(b"jobs", msgspec.json.encode(of_jobs))
    with telling_which((job for _, job in jobs), lambda index: (f"job {index + 1}", f"jobs[{index}].")):
        ids = await create.create_jobs(call.service, call.principal, jobs, key=key, content=content)
    return Added(len(ids), ids)


class Waited(NamedTuple):
    """Jobs that were accepted, by whom, and how long to wait for them."""

    who: Principal
    type_name: str
    ids: list[str]
    wait_s: float


async def describe_added(web_: Web, added: Waited, *, with_ids: bool = True, is_heard: Callable[[], bool]) -> bytes:
    """JSON: the ids, and with wait_s the jobs as they are when all have ended, or when the time is up. They are
    accepted: whatever keeps them from being shown, their ids are the answer. It never raises because of that."""
    ids = added.ids
    if added.wait_s and len(ids) <= _MOST_WAITED_FOR:
        try:
            jobs = await _wait_for_all(web_.service, added, is_heard)
            await web_.keys.confirm(added.who)
        except (FunctoryError, StoreError):  # such as a store that is away, or a key that has ended meanwhile
            pass
        else:
            return msgspec.json.encode(Added(len(ids), ids if with_ids else msgspec.UNSET, jobs))
    return added_json(ids, with_ids=with_ids)


async def _wait_for_all(service: Service, added: Waited, is_heard: Callable[[], bool]) -> list[Job]:
    """With what they left only as long as that is little: a hundred large results are nobody's answer."""
    jobs: list[Job] = []
    left_bytes = LARGE_ANSWER_BYTES
    tenant, deadline_s = added.who.tenant, asyncio.get_running_loop().time() + added.wait_s
    with service.straight.awaiting(tenant, added.ids):  # those that end meanwhile are there when their turn comes
        for job_id in added.ids:
            try:
                found = await wait_for_awaited(
                    service, tenant, job_id, deadline_s, max_bytes=LARGE_ANSWER_BYTES, is_heard=is_heard
                )
            except Missing:
                jobs.append(show_not_kept(job_id, added.type_name))
                continue
            left_bytes -= size_of(found)
            jobs.append(show_job(found, whole=left_bytes >= 0))
    return jobs


async def add_lines_once(call: Call, who: Principal, type_name: str, body: bytes, key: str) -> list[str]:
    """As `add_lines`, under an idempotency key."""
    async with _room(call.web, who.tenant, body, _JOB_BYTES) as has_waited:
        if has_waited:
            call.refuse_unheard()
            await call.stay_admitted()
        jobs = [Submission(line) for line in await split_many(body, max_jobs(call.service), call.web.turns)]
        return await add_once(call.web, who, type_name, jobs, key, body)


async def add_once(
    web_: Web, who: Principal, type_name: str, jobs: Sequence[Submission], key: str, content: bytes
) -> list[str]:
    """Jobs under an idempotency key, of a path that has no options. content: what identifies the request."""
    fingerprint = await _fingerprint(type_name, AddQuery(), "lines", content)
    submitted = await submit_once(web_.service, who, type_name, jobs, key=key, fingerprint=fingerprint)
    return submitted.ids


async def _add_one_by_one(call: Call, query: AddQuery, type_name: str, body: bytes, reading: Reading) -> list[str]:
    """Add jobs that differ from each other: with options of their own, in JSON, or under an idempotency key."""
    if reading == "lines":
        options, keeps = to_options(query, call.service.now_ms()), unsaid(query)
        lines = await split_many(body, max_jobs(call.service), call.web.turns)
        jobs = []
        async for _, line in call.web.turns.slices(lines):
            jobs.append(Submission(line, options, query.unique or "", query.parent or "", keeps))
    else:
        _refuse_settings(query)
        jobs = await parse_jobs(body, call.service, call.web.turns, is_array=reading == "json")
    with telling_which(jobs, lambda index: place_in(body, reading, index)):
        if query.idempotency_key is None:
            return await submit_jobs(call.service, call.principal, type_name, jobs)
        fingerprint = await _fingerprint(type_name, query, reading, body)
        submitted = await submit_once(
            call.service, call.principal, type_name, jobs, key=query.idempotency_key, fingerprint=fingerprint
        )
        return submitted.ids


def _refuse_settings(query: AddQuery) -> None:
    """Refuse options in the query of a JSON body: there, every option is a field of its job, and the
    query's would be lost."""
    for field in msgspec.structs.fields(JobSettings):
        value = getattr(query, field.name)
        if value != field.default and (field.name, value) != ("priority", DEFAULT_PRIORITY):  # clients send defaults
            raise InvalidInput(
                f"{field.name} is a query option of lines: with JSON, give it as a field of each job",
                detail={"in": "query", "field": field.name},
            )


async def _fingerprint(type_name: str, query: AddQuery, reading: Reading, body: bytes) -> Fingerprint:
    """A body that does not begin as JSON does is read as lines or not at all. A large body is hashed once, or twice if
    the query says how to answer."""
    of_jobs = msgspec.structs.replace(query, **_ANSWERING)
    return Fingerprint(
        await _digest(msgspec.json.encode([type_name, of_jobs]), body),
        reading if body.lstrip()[:1] in {b"{", b"["} else "",
        "" if query == of_jobs else await _digest(msgspec.json.encode([type_name, query]), body),
    )


async def _digest(start: bytes, body: bytes) -> str:
    digest = hashlib.sha256(start)
    if len(body) > LARGE_BYTES:
        await asyncio.to_thread(digest.update, body)
    else:
        digest.update(body)
    return digest.hexdigest()
