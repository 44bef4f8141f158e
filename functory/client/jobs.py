"""The calls about jobs: their life, results and figures, and what a tenant sets for all of them."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from math import inf
from typing import Final

import msgspec
from aiohttp import ClientError as TransportError
from aiohttp import ClientTimeout

from functory.client.events import EventReader
from functory.client.transport import Transport, failed
from functory.errors import ServerUnreachable
from functory.wire import admin, jobs, secrets
from functory.wire.payloads import encode
from functory.wire.refusals import problem
from functory.wire.requests import add_request
from functory.wire.schedules import NextTimes
from functory.wire.scoreboard import Allowance, BucketList, FailureList, Scoreboard

MOST_AT_ONCE: Final = 1000
_LOOK_S: Final = 30.0
"""Of jobs that are waited for together: so many, and so long in one request."""


class JobCalls(Transport):
    async def add_jobs(self, job_type: str, payloads: Iterable[object], **options: object) -> jobs.Added:
        """One job for each payload, all with the same options (`delay_s`, `priority`, `idempotency_key`, ...). Text and
        bytes are payloads as they are, anything else is written as JSON. Raises InvalidInput for what JSON cannot say.

        Payloads that a body of lines cannot carry travel as JSON instead.
        """
        adding = add_request(payloads, options)
        path = self._path("job", job_type, "add")
        return await self._call("POST", path, jobs.Added, query=adding.query, body=adding.rows, data=adding.lines)

    async def create_jobs(
        self, new_jobs: Sequence[Mapping[str, object]], *, idempotency_key: str | None = None
    ) -> jobs.Added:
        """Jobs of several types, all or none. Each names its `type`, and its `payload` or `payload_base64`."""
        body = {"jobs": list(new_jobs), **({} if idempotency_key is None else {"idempotency_key": idempotency_key})}
        return await self._call("POST", self._path("jobs"), jobs.Added, body=body)

    async def get_job(self, job_id: str, *, wait_s: float = 0.0) -> jobs.Job:
        """With `wait_s`, returns as soon as the job has ended, or when the time is up."""
        return await self._call("GET", self._path("job", job_id), jobs.Job, query={"wait_s": wait_s} if wait_s else {})

    async def get_jobs(self, job_ids: Sequence[str], *, wait_s: float = 0.0) -> jobs.EndedJobs:
        """Up to 1,000 jobs, once all of them have ended or when the time is up. An answer has 256 KiB at most: ask
        again for those that are left. A job with more than this comes without payload, result and log."""
        body = {"ids": list(job_ids), "wait_s": wait_s}
        return await self._call("POST", self._path("jobs", "wait"), jobs.EndedJobs, body=body)

    async def wait_for_jobs(
        self, job_ids: Sequence[str], *, timeout_s: float | None = None
    ) -> dict[str, jobs.Job | None]:
        """All of them, once they have ended, or as they are when the time is up; None for one that is not there."""
        now_s = asyncio.get_running_loop().time
        deadline_s = inf if timeout_s is None else now_s() + timeout_s
        found: dict[str, jobs.Job | None] = dict.fromkeys(job_ids)
        open_ids = list(found)
        while open_ids:
            left_s = deadline_s - now_s()
            wait_s = min(max(left_s, 0.0), _LOOK_S, (self._session.timeout.total or inf) / 2)
            answer = await self.get_jobs(open_ids[:MOST_AT_ONCE], wait_s=wait_s)
            found.update(dict.fromkeys(answer.gone))
            found.update({job.id: job for job in answer.jobs})
            over = {*answer.gone, *(job.id for job in answer.jobs if left_s <= 0 or job.state == "archived")}
            if left_s <= 0 and not over:  # whether they are there cannot be told yet: this raises the reason
                found[open_ids[0]] = await self.get_job(open_ids[0])
                over.add(open_ids[0])
            open_ids = [job_id for job_id in open_ids if job_id not in over]
        return found

    async def get_result(self, job_id: str) -> bytes:
        """The whole result as it is, up to 16 MB."""
        return await self._fetch("GET", self._path("job", job_id, "result"), {}, None, None)

    async def get_log(self, job_id: str) -> bytes:
        """What it has printed so far, if the daemon that answers runs it; otherwise what is kept of its last run."""
        return await self._fetch("GET", self._path("job", job_id, "log"), {}, None, None)

    async def follow_log(self, job_id: str) -> AsyncIterator[str]:
        """What a job prints, as it is printed, until it has ended."""
        async with aclosing(self.follow_job(job_id)) as parts:
            async for part in parts:
                if isinstance(part, str):
                    yield part

    async def follow_job(self, job_id: str) -> AsyncGenerator[str | jobs.LogEnd, None]:
        """The same, and then how it ended; nothing of that if the server stops before, or after an hour."""
        path = self._url + self._path("job", job_id, "log")
        try:
            async with self._session.get(path, params={"follow": "1"}, timeout=ClientTimeout(total=None)) as response:
                if response.status >= 400:
                    raise problem(response.status, await response.read(), response.headers.get("Retry-After"))
                async for name, data in EventReader(response.content.iter_any()):
                    if name == "log":
                        yield msgspec.json.decode(data, type=str)
                    elif name == "end":
                        yield msgspec.json.decode(data, type=jobs.LogEnd)
                    elif name == "error":
                        raise problem(*failed(data))
        except (TransportError, TimeoutError) as error:
            raise ServerUnreachable(f"{self._url}: the log ended early: {str(error) or 'no answer in time'}") from error

    async def why(self, job_id: str) -> jobs.Why:
        return await self._call("GET", self._path("job", job_id, "why"), jobs.Why)

    async def cancel_job(self, job_id: str) -> None:
        """Cancel a job that is not over. One that is running is stopped."""
        await self._fetch("POST", self._path("job", job_id, "cancel"), {}, None, None)

    async def retry_job(
        self,
        job_id: str,
        *,
        delay_s: float | None = None,
        next_run: str | None = None,
        payload: object = None,
        job_type: str | None = None,
    ) -> None:
        """Run a job again that has ended, or a deferred one now; or at another time, with another payload, or as a job
        of another type."""
        when = {"delay_s": delay_s, "next_run": next_run, "type": job_type}
        body: dict[str, object] = {name: value for name, value in when.items() if value is not None}
        if payload is not None:
            body["payload_base64"] = _base64(payload)
        await self._fetch("POST", self._path("job", job_id, "retry"), {}, body, None)

    async def update_job(
        self,
        job_id: str,
        payload: object = None,
        *,
        priority: int | None = None,
        repeat: str | None = None,
        delay_s: float | None = None,
        next_run: str | None = None,
    ) -> None:
        """Change a job that has not started: its payload or priority, and of a schedule its pattern or next round."""
        said = {"priority": priority, "repeat": repeat, "delay_s": delay_s, "next_run": next_run}
        body: dict[str, object] = {name: value for name, value in said.items() if value is not None}
        if payload is not None:
            body["payload_base64"] = _base64(payload)
        await self._fetch("PATCH", self._path("job", job_id), {}, body, None)

    async def pause_job(self, job_id: str) -> None:
        """Pause a schedule: no round of it begins until it is resumed."""
        await self._fetch("POST", self._path("job", job_id, "pause"), {}, None, None)

    async def resume_job(self, job_id: str) -> None:
        """Resume a schedule that is paused."""
        await self._fetch("POST", self._path("job", job_id, "resume"), {}, None, None)

    async def next_times(self, repeat: str, *, count: int = 5) -> NextTimes:
        """When rounds of a schedule with this pattern would be due."""
        query = {"repeat": repeat, "count": count}
        return await self._call("GET", self._path("schedules", "next"), NextTimes, query=query)

    async def delete_job(self, job_id: str) -> int:
        """Remove all trace of a job that is not running. Returns how many jobs are gone, with its children."""
        return (await self._call("DELETE", self._path("job", job_id), jobs.DeletedJobs)).deleted

    async def results(self, **filters: object) -> jobs.Page:
        """Jobs by `state`, `type`, `code`, time, `unique`, `key`, `failure` or what each `contains`, with the first
        `payload_bytes` of each payload."""
        return await self._call("GET", self._path("results"), jobs.Page, query=filters)

    async def schedules(self, **filters: object) -> jobs.Page:
        """The jobs that repeat and are not over. Their outcome is that of the last round."""
        return await self._call("GET", self._path("schedules"), jobs.Page, query=filters)

    async def replay(self, **request: object) -> jobs.Replayed:
        return await self._call("POST", self._path("replay"), jobs.Replayed, body=request)

    async def cancel_jobs(self, job_type: str | None = None, **request: object) -> jobs.Changed:
        """Cancel jobs of a type, or of all that a GLOB pattern matches, or by `failure` or `key`. With `dry_run`, only
        count them."""
        return await self._call("POST", self._path("cancel"), jobs.Changed, body={"type": job_type, **request})

    async def delete_jobs(self, job_type: str | None = None, **request: object) -> jobs.Changed:
        """Delete ended jobs of a type, or of all that a GLOB pattern matches, or by `failure` or `key`. With `dry_run`,
        only count them."""
        return await self._call("POST", self._path("delete"), jobs.Changed, body={"type": job_type, **request})

    async def scoreboard(self, *, window_s: int = 3600) -> Scoreboard:
        query = {"window_s": window_s}
        return await self._call("GET", self._path("scoreboard"), Scoreboard, query=query)

    async def limits(self) -> Allowance:
        """What the tenant has of what it may have."""
        return await self._call("GET", self._path("limits"), Allowance)

    async def failures(self, **filters: object) -> FailureList:
        return await self._call("GET", self._path("failures"), FailureList, query=filters)

    async def children(self, job_id: str, **filters: object) -> jobs.Page:
        return await self._call("GET", self._path("job", job_id, "children"), jobs.Page, query=filters)

    async def timeline(self, **filters: object) -> BucketList:
        return await self._call("GET", self._path("timeline"), BucketList, query=filters)

    async def index(self, job_type: str) -> jobs.IndexAnswer:
        return await self._call("GET", self._path("index", job_type), jobs.IndexAnswer)

    async def list_rates(self) -> admin.RateList:
        return await self._call("GET", self._path("rate"), admin.RateList)

    async def get_rate(self, domain: str) -> admin.DomainRate:
        """The limit that holds for a domain, which may be one of a pattern, and its tokens."""
        return await self._call("GET", self._path("rate", domain), admin.DomainRate)

    async def set_rate(self, domain: str, rate_per_s: float, *, burst: int = 1) -> None:
        body = {"rate_per_s": rate_per_s, "burst": burst}
        await self._fetch("PUT", self._path("rate", domain), {}, body, None)

    async def delete_rate(self, domain: str) -> None:
        await self._fetch("DELETE", self._path("rate", domain), {}, None, None)

    async def list_secrets(self) -> secrets.SecretList:
        return await self._call("GET", self._path("secret"), secrets.SecretList)

    async def set_secret(self, name: str, value: str) -> secrets.SecretRow:
        return await self._call("PUT", self._path("secret", name), secrets.SecretRow, body={"value": value})

    async def delete_secret(self, name: str) -> None:
        await self._fetch("DELETE", self._path("secret", name), {}, None, None)

    async def pause_type(self, job_type: str) -> None:
        await self._fetch("POST", self._path("type", job_type, "pause"), {}, None, None)

    async def resume_type(self, job_type: str) -> None:
        await self._fetch("POST", self._path("type", job_type, "resume"), {}, None, None)


def _base64(payload: object) -> str:
    return b64encode(encode(payload)).decode()
