"""The calls of a worker: take jobs, renew their leases, report them."""

from collections.abc import Mapping, Sequence

from functory.client.transport import Transport
from functory.wire import workers


class WorkerCalls(Transport):
    async def take_jobs(self, *types: str, **request: object) -> workers.TakenJobs:
        """Jobs of types that workers serve, or of all that GLOB patterns match; `wait_s` waits for the first."""
        return await self._call("POST", self._path("work", "take"), workers.TakenJobs, body={"types": types, **request})

    async def renew_jobs(self, leases: Sequence[tuple[str, int]], *, lease_s: float | None = None) -> workers.Verdicts:
        """Keep jobs (id and token) for longer."""
        body = {"leases": _leases(leases), "lease_s": lease_s}
        return await self._call("POST", self._path("work", "renew"), workers.Verdicts, body=body)

    async def report_jobs(self, reports: Sequence[Mapping[str, object]], *, take: object = None) -> workers.Reported:
        """Say how jobs ended, or what they do; with `take`, the next jobs come with the answer."""
        body = {"reports": reports, "take": take}
        return await self._call("POST", self._path("work", "report"), workers.Reported, body=body)

    async def return_jobs(self, leases: Sequence[tuple[str, int]] = (), *, goodbye: str = "") -> workers.Verdicts:
        """Give jobs back that were not begun; with `goodbye`, all that the worker of this name holds."""
        body = {"leases": _leases(leases), "goodbye": goodbye}
        return await self._call("POST", self._path("work", "return"), workers.Verdicts, body=body)

    async def move_job(self, lease: tuple[str, int], job_type: str, **request: object) -> None:
        """Have a job go on as one of another type: `delay_s` from now, with a `payload` or its own."""
        body = {**_leases([lease])[0], "type": job_type, **request}
        await self._fetch("POST", self._path("work", "move"), {}, body, None)

    async def drain_worker(self, name: str, *, drained: bool = True) -> None:
        """Have a worker take no more jobs for an hour, or let it take some again."""
        await self._fetch("POST", self._path("workers", "drain"), {}, {"worker": name, "drained": drained}, None)

    async def list_workers(self) -> workers.WorkerList:
        return await self._call("GET", self._path("workers"), workers.WorkerList)


def _leases(leases: Sequence[tuple[str, int]]) -> list[dict[str, object]]:
    return [{"id": job_id, "token": token} for job_id, token in leases]
