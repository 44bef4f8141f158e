"""Jobs that fail for different reasons are different groups of failures, however the reason is given."""

from pathlib import Path

import pytest

from functory.daemon.service import service_of
from functory.operations.scoreboard import failures
from tests.support.service import ended, register, running_daemon


@pytest.mark.parametrize("given", ["payload", "{'error': payload}", "{'message': payload, 'at': 7}"])
async def test_each_reason_of_a_handler_is_a_group(tmp_path: Path, given: str) -> None:
    reasons = ["disk is full", "can't open the door, it isn't there", "can't pay the bill, it isn't there"]
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-grp", f"ctx.fail({given})")
        lines = [reason.encode() for reason in [*reasons, "disk is full"]]
        for job_id in await daemon.intake.write("acme-grp", lines):
            await ended(daemon, job_id)
        groups = await failures(service_of(daemon), "acme", named="grp", since_ms=0, limit=10)
        assert {group.message: group.runs for group in groups} == dict.fromkeys(reasons, 1) | {"disk is full": 2}


async def test_jobs_that_fail_without_a_word_are_groups_too(tmp_path: Path) -> None:
    bodies = {"python": "ctx.fail()", "sh": "exit 65"}
    async with running_daemon(tmp_path) as daemon:
        for lang, body in bodies.items():
            await register(daemon, f"acme-{lang}", body, lang)
            (job_id,) = await daemon.intake.write(f"acme-{lang}", [b"x"])
            await ended(daemon, job_id)
        groups = await failures(service_of(daemon), "acme", named=None, since_ms=0, limit=10)
        assert [(group.message, group.runs) for group in groups] == [("failed with 400", 1)] * 2
