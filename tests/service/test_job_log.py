"""The log of a daemon: a line for each job that enters, starts and stops, also of those that stop with the daemon."""

from pathlib import Path

from functory.client import Client
from tests.support.daemon_process import daemon, make_key


async def test_every_job_has_its_lines_up_to_the_stop(tmp_path: Path) -> None:
    async with daemon(tmp_path / "data", log_jobs="true") as running:
        async with Client(running.url, await make_key(running, "acme"), tenant="acme") as client:
            await client.put_handler("echo", "python", "return payload")
            ids = (await client.add_jobs("echo", [str(number) for number in range(20)])).ids
            assert isinstance(ids, list)
            for job_id in ids:
                await client.get_job(job_id, wait_s=30)
        assert await running.stop() == 0
        lines = running.log.splitlines()
    for event in ("job.entered", "job.started", "job.stopped"):
        logged = [line.split(" id=")[1].split()[0] for line in lines if f" {event} " in line]
        assert sorted(logged) == sorted(ids)
