"""What synchronous code asks of a server about jobs."""

import os
import secrets
import time
from base64 import b64encode
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, TypedDict, Unpack

from msgspec import UNSET, UnsetType

from functory.errors import FunctoryError, InvalidInput, NotEndedYet, NotFound
from functory.sync.job import Invoked, Job
from functory.sync.server import Call, Server, check_timeout
from functory.wire.add_options import check_number, check_options, check_type, options_of
from functory.wire.base import Answer, Done
from functory.wire.payloads import encode
from functory.wire.requests import add_request
from functory.wire.server_url import DEFAULT_URL

_TIMEOUT_S: Final = 20.0
"""Longer than the 15 s after which a daemon says that its store is away, shorter than the 30 s that a web server often
gives its workers."""
_WHY_TIMEOUT_S: Final = 1.0


class Options(TypedDict, total=False):
    """Of new jobs, as in docs/http-api.md. What is None is left out."""

    delay_s: float | None
    priority: int | None
    domain: str | None
    unique: str | None
    parent: str | None
    key: str | None
    repeat: str | None
    max_attempts: int | None
    retry_base_ms: int | None
    retry_max_ms: int | None
    retry_window_s: int | None
    max_wait_s: int | None


class _Added(Answer):
    ids: list[str]
    jobs: list[Job] | UnsetType = UNSET


class _Why(Answer):
    text: str


class Jobs:
    """The jobs of one tenant. Threads may share it. Whatever a call raises is a FunctoryError; one of a job or of a
    value is InvalidInput, NotFound, Conflict or OverLimit, one of the key is ClientError."""

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        tenant: str | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        """What is not given is FUNCTORY_URL, FUNCTORY_KEY and FUNCTORY_TENANT. Nothing is sent yet.

        timeout_s: how long a call may take. If the server is away, or asks to come later (429, 503), it is asked again
        until then; ServerUnreachable or the last refusal is raised after that. Raises InvalidInput.
        """
        url = url or os.environ.get("FUNCTORY_URL") or DEFAULT_URL
        key = key or os.environ.get("FUNCTORY_KEY")
        tenant = tenant or os.environ.get("FUNCTORY_TENANT")
        if not key:
            raise InvalidInput("No key. Set FUNCTORY_KEY, or give key=.")
        if not tenant:
            raise InvalidInput("No tenant. Set FUNCTORY_TENANT, or give tenant=.")
        self._server = Server(url, key, tenant, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close connections that are kept open. A later call opens a new one."""
        self._server.close()

    def add(
        self, job_type: str, payload: object = None, *, idempotency_key: str | None = None, **options: Unpack[Options]
    ) -> str:
        """Add a job: text, bytes, or anything that JSON can say. Returns its id; it is durable then.

        It is added once, also if the connection breaks and it has to be sent again: each call has an idempotency key of
        its own. With one of yours, it is added once by all calls of a day that have the same key and payload. With
        `unique`, which allows none, it is not sent again in that case: ServerUnreachable says that it may be added.
        """
        (job_id,) = self._server.ask(_adding(job_type, [payload], idempotency_key, options), _Added).ids
        return job_id

    def add_many(
        self,
        job_type: str,
        payloads: Iterable[object],
        *,
        idempotency_key: str | None = None,
        **options: Unpack[Options],
    ) -> list[str]:
        """A job for each payload, all with the same options. Returns their ids in the same order. They go in one
        request: if one of them is refused, none is added. OverLimit: more than 100,000 jobs, or 16 MiB."""
        call = _adding(job_type, payloads, idempotency_key, options)
        return self._server.ask(call, _Added).ids if call.lines or call.body else []

    def run(
        self,
        job_type: str,
        payload: object = None,
        *,
        timeout_s: float = 30.0,
        idempotency_key: str | None = None,
        **options: Unpack[Options],
    ) -> Job:
        """Add a job and wait for its end. Returns it, however it ended: `run(...).check().value()` is the result of one
        that ended well. Raises NotEndedYet when the time is up: the job goes on, and `wait` may wait for it."""
        if options.get("repeat"):
            raise InvalidInput("a job that repeats does not end: use add", detail={"field": "repeat"})
        deadline_s = time.monotonic() + check_timeout(timeout_s)
        call = _adding(job_type, [payload], idempotency_key, options)._replace(waits=True)
        added = self._server.ask(call, _Added, timeout_s)
        job = added.jobs[0] if added.jobs else None
        if job is None or not job.is_over:
            return self._wait(added.ids[0], timeout_s, deadline_s)
        if job.result is None and job.result_bytes:  # it was too large to come with this answer
            with suppress(NotFound):  # it is not kept
                return self.get(job.id)
        return job

    def wait(self, job_id: str, *, timeout_s: float = 30.0) -> Job:
        """Wait for the end of a job. Returns it, however it ended. Raises NotEndedYet when the time is up, and NotFound
        also for a job that has ended and is not kept."""
        return self._wait(job_id, timeout_s, time.monotonic() + check_timeout(timeout_s))

    def get(self, job_id: str) -> Job:
        """A job as it is now, with its payload, result and log. Raises NotFound."""
        return self._server.ask(Call("GET", ("job", job_id)), Job)

    def cancel(self, job_id: str) -> None:
        """Cancel a job that is not over; one that is running is stopped. Raises NotFound, and Conflict for a job that
        has ended otherwise. The key needs the scope `manage`."""
        self._server.ask(Call("POST", ("job", job_id, "cancel")), Done)

    def invoke(self, job_type: str, payload: object = None, *, timeout_s: float = 60.0) -> Invoked:
        """Run the handler of a type once, now, without a job: nothing is kept, and nothing is tried again. It is not
        sent again if the connection breaks. The key needs the scope `handlers`."""
        check_type(job_type)
        body = {"payload_base64": b64encode(encode(payload)).decode()}
        call = Call("POST", ("handler", job_type, "invoke"), body=body, is_repeatable=False)
        return self._server.ask(call, Invoked, timeout_s)

    def _wait(self, job_id: str, timeout_s: float, deadline_s: float) -> Job:
        while True:
            left_s = max(deadline_s - time.monotonic(), 0.0)
            job = self._server.ask(Call("GET", ("job", job_id), waits=True), Job, left_s)
            if job.is_over:
                return job
            if time.monotonic() >= deadline_s:
                raise NotEndedYet(
                    f"job {job_id} of type {job.type} has not ended within {timeout_s:g} s: {self._how_it_stands(job)}",
                    detail={"id": job_id, "state": job.state},
                )

    def _how_it_stands(self, job: Job) -> str:
        """In the words of the server, if it says them soon: a type that was mistyped has no handler, for example."""
        if job.state not in {"running", "lapsed"}:
            with suppress(FunctoryError):
                why = self._server.ask(Call("GET", ("job", job.id, "why")), _Why, _WHY_TIMEOUT_S)
                return f"it is {job.state}; {why.text}"
        return f"it is {job.state}"


def _adding(job_type: str, payloads: Iterable[object], idempotency_key: str | None, options: Options) -> Call:
    """Ensures: it may be repeated, unless a name is unique: then the server takes no idempotency key, and a second
    request would add another job once the first has ended."""
    said = options_of(options)
    check_type(job_type)
    check_options(said)
    if idempotency_key is None and said.unique is None:
        idempotency_key = secrets.token_hex(16)
    request = add_request(payloads, said.said() | {"idempotency_key": idempotency_key})
    check_number(said, request.lines.count(b"\n") + 1 if request.rows is None else len(request.rows))
    return Call(
        "POST",
        ("job", job_type, "add"),
        request.query,
        request.rows,
        request.lines,
        is_repeatable=idempotency_key is not None,
    )
