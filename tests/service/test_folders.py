"""A folder from the archive to a job's result, on a whole daemon; and after its tree and its version are gone."""

import asyncio
from pathlib import Path

from functory.daemon.service import service_of
from functory.operations.folders import Archive, take_archive
from functory.operations.handlers import put_handler
from functory.operations.principal import Principal
from functory.tenant_limits import TenantLimits
from runner.sandbox.handover import remove
from tests.support.archives import tar_of
from tests.support.service import ended, running_daemon

FILES = {"main.py": b"import helper\nreturn helper.word()", "helper.py": b"def word():\n    return open('w').read()"}


async def test_a_folder_runs_also_after_its_tree_was_lost(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service, who = service_of(daemon), Principal("k", "acme", frozenset({"handlers"}), TenantLimits())
        trees = daemon.settings.data_dir / "trees"
        for word in (b"first", b"second"):
            fields = await take_archive(service, who, Archive(tar_of({**FILES, "w": word}), "tar"), None)
            await put_handler(service, who, "folder", fields)
            [job_id] = await daemon.intake.write("acme-folder", [b"x"])
            record = await ended(daemon, job_id)
            assert record.outcome is not None
            assert record.outcome.result == b'"' + word + b'"', record.outcome
            await asyncio.to_thread(remove, trees)
        await daemon._parts.folders.collect(daemon.clock.now_ms())
