"""The handler of a source: the one in force is asked, it has a minute, and its contexts end with it."""

from pathlib import Path

import pytest

from functory.daemon.service import service_of
from functory.execution import trial_runs
from functory.operations import consumers
from functory.operations.handlers import delete_handler, put_handler
from functory.operations.tenants import create_tenant
from functory.tenant_limits import TenantLimits
from tests.support.consumers import put
from tests.support.polling import until
from tests.support.service import running_daemon
from tests.support.workers import ACME

SOURCE = "import json\nreturn 3 if json.loads(payload)['ask'] == 'head' else payload"
LONGER_THAN_A_QUESTION = 300


@pytest.mark.parametrize("timeout_s", [60, LONGER_THAN_A_QUESTION])
async def test_the_contexts_of_a_deleted_source_end(tmp_path: Path, timeout_s: int) -> None:
    async with running_daemon(tmp_path / "data") as daemon:
        service = service_of(daemon)
        await create_tenant(service, "test", "acme", 1, TenantLimits())
        await put_handler(service, ACME, "chain", {"lang": "python", "body": SOURCE, "timeout_s": timeout_s})
        await put(service, pull="chain", max_processing=3)

        async def is_pulled() -> bool:
            standing = await consumers.get_consumer(service, "acme", "verify")
            return standing.report.released == 3

        await until(is_pulled)
        assert daemon.trial_runs._runner.gauges()["idle"] == 1
        await delete_handler(service, ACME, "chain")
        assert daemon.trial_runs._runner.gauges()["contexts"] == 0


async def test_a_source_that_may_run_long_has_a_minute_for_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_runs, "_MOST_QUESTION_S", 0.25)
    async with running_daemon(tmp_path / "data") as daemon:
        service = service_of(daemon)
        await create_tenant(service, "test", "acme", 1, TenantLimits())
        body = {"lang": "python", "body": "import time\ntime.sleep(600)", "timeout_s": LONGER_THAN_A_QUESTION}
        await put_handler(service, ACME, "chain", body)
        await put(service, pull="chain")

        async def trouble() -> str:
            return (await consumers.get_consumer(service, "acme", "verify")).note.trouble

        assert await until(trouble) == "asked for head, the source ended with error: timed out after 0.25 s"


async def test_a_question_that_waited_is_put_to_the_handler_that_is_in_force_by_then(tmp_path: Path) -> None:
    async with running_daemon(tmp_path / "data") as daemon:
        service = service_of(daemon)
        await create_tenant(service, "test", "acme", 1, TenantLimits())
        await put_handler(service, ACME, "chain", {"lang": "python", "body": "return 'the old one'"})
        places = daemon.trial_runs.questions

        async def is_waiting() -> bool:
            return places._lines["acme"].users == 3

        async with places.of("acme-chain"), places.of("acme-chain"):
            await put(service, pull="chain", max_processing=3)
            await until(is_waiting)
            await put_handler(service, ACME, "chain", {"lang": "python", "body": SOURCE})

        async def state() -> str | int:
            standing = await consumers.get_consumer(service, "acme", "verify")
            return standing.note.trouble or standing.report.head

        assert isinstance(await until(state), int)
