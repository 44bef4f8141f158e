"""CreateJob and CreateJobs.

The name of a job is its type. A type that has no handler is registered as one that programs elsewhere serve, so that
nothing has to be prepared; a type with a handler is left as it is, and its jobs run there.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from functory.bedrock.call import Call
from functory.bedrock.parameters import Parameters
from functory.bedrock.parser import Malformed, json_parameters
from functory.bedrock.records import is_running, object_json, state_of
from functory.bedrock.refusals import Refusal, missing
from functory.errors import FunctoryError, InvalidInput
from functory.operations.create import TypedSubmission, create_jobs
from functory.operations.handlers import find_handler, put_handler
from functory.operations.numbered import get_numbered, take_numbers
from functory.web.api.submission import created_bytes, to_submission
from functory.web.http.endpoint import check_json_size
from functory.web.http.json_faults import why_not_json
from functory.wire.jobs import NewJob
from handlers.errors import HandlerError
from store.base import JobState
from vocabulary.names import WORKER, jobtype_of

LEASE_S: Final = 3600
"""How long a job of a type that was registered here is a worker's. The protocol has no renewal, and no end without
`retryAfter`; here no job is stuck for ever."""
SERVED_FROM_OUTSIDE: Final = {
    "lang": WORKER,
    "body": "registered by CreateJob: programs that speak the protocol of Bedrock::Jobs take its jobs",
    "options": {"lease_s": LEASE_S, "max_attempts": 1000, "retry_window_s": 31_536_000},
}
_SENT: Final = {"dt": "firstRun", "retry_after": "retryAfter"}
"""The parameters that become fields of another name."""
_JOBS: Final = msgspec.json.Decoder(list[msgspec.Raw])


async def create_job(call: Call) -> bytes:
    job = await _submission(call, call.parameters, {})
    (number,) = await _create(call, [job])
    return object_json({"jobID": number})


async def create_many(call: Call) -> bytes:
    text = call.parameters.text("jobs", 1 << 24).encode()
    if not text:
        raise missing("jobs")
    async with call.web.job_room.of(call.tenant, created_bytes(text)):
        return object_json({"jobIDs": await _create(call, await _submissions(call, text))})


async def _submissions(call: Call, text: bytes) -> list[TypedSubmission]:
    try:
        check_json_size(text)
        elements = _JOBS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(401, f"Invalid JSON: jobs must be an array of objects ({why_not_json(text, error)})") from None
    if not elements:
        raise Refusal(401, "Invalid JSON: jobs holds no job")
    jobs: list[TypedSubmission] = []
    parents: dict[int, str] = {}
    async for number, element in call.web.turns.slices(elements):
        try:
            jobs.append(await _submission(call, Parameters(json_parameters(bytes(element))), parents))
        except (Refusal, Malformed) as error:
            raise Refusal(error.status, f"job {number}: {error}") from None
        except FunctoryError as error:
            error.args = (f"job {number}: {error}",)
            raise
    return jobs


async def _submission(call: Call, given: Parameters, parents: dict[int, str]) -> TypedSubmission:
    """parents: those that were looked at for this call, by number."""
    name, data, priority = given.type_name(), given.data(), given.priority()
    job = NewJob(
        payload=msgspec.Raw(b"{}" if data is None else data),
        dt=given.text("firstRun", 40) or None,
        priority=msgspec.UNSET if priority is None else priority,  # type: ignore[arg-type]  # it is one of the three
        retry_after=given.text("retryAfter", 200),
        repeat=given.text("repeat") or msgspec.UNSET,
        unique=name if given.is_true("unique") else None,
        parent=await _parent(call, given, parents),
    )
    try:
        submission = to_submission(job, call.service.now_ms(), {})
    except InvalidInput as error:
        field = str(error.detail.get("field"))
        error.args = (str(error).replace(field, _SENT.get(field, field), 1),)
        raise
    if data is None:
        return name, submission._replace(keeps=submission.keeps | {"data"})
    return name, submission._replace(payload=data)


async def _parent(call: Call, given: Parameters, parents: dict[int, str]) -> str | None:
    number = given.number("parentJobID", 0)
    if not number:
        return None
    if number in parents:
        return parents[number]
    parent_id = await call.numbers.find_anew(call.tenant, number)
    if parent_id is None:
        raise Refusal(404, "parentJobID does not exist")
    parent = await get_numbered(call.service, call.tenant, parent_id)
    if not is_running(parent) and parent.state is not JobState.PAUSED:  # the store would say so, but after registering
        raise Refusal(405, f"parentJobID is {state_of(parent)}: only a RUNNING or PAUSED job can get a child")
    parents[number] = parent_id
    return parent_id


async def _create(call: Call, jobs: list[TypedSubmission]) -> list[int]:
    await register_types(call, dict.fromkeys(name for name, _ in jobs))
    ids = await create_jobs(call.service, call.who, jobs)
    numbers = await call.numbers.of(call.tenant, list(dict.fromkeys(ids)))
    gone = [job_id for job_id in dict.fromkeys(ids) if job_id not in numbers]
    if gone:  # they have ended and were not kept: an error would have them created again
        numbers |= zip(gone, await take_numbers(call.service, call.tenant, len(gone)), strict=True)
    return [numbers[job_id] for job_id in ids]


async def register_types(call: Call, names: Iterable[str]) -> None:
    """Each that has no handler. Raises QuotaExceeded."""
    for name in names:
        if not await _has_handler(call, name):
            await put_handler(call.service, call.who, name, SERVED_FROM_OUTSIDE)


async def _has_handler(call: Call, name: str) -> bool:
    """As the daemon knows it, so that not every CreateJob asks the store. If it knows of none, the store may."""
    try:
        is_known = await call.service.handlers.get(jobtype_of(call.tenant, name)) is not None
    except HandlerError:  # stored by a newer version of this program
        return True
    return is_known or await find_handler(call.service, call.tenant, name) is not None
