"""A client that a generator makes from `/openapi.json`, without a warning, takes the steps of the tutorial."""

import asyncio
import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from functory.web.api.openapi import build_openapi
from functory.web.app import ROUTES
from tests.support.daemon_process import DaemonProcess, daemon

pytestmark = pytest.mark.slow

DOUBLE = """
number = int(payload)
if number > 1000:
    return ctx.fail("too big")
return {"twice": 2 * number}
"""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The package that the generator makes."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(build_openapi(ROUTES)))
    (folder / "config.yaml").write_text("post_hooks: []\n")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"]
    options = ["--path", "openapi.json", "--config", "config.yaml", "--output-path", "functory_api"]
    done = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("functory_api")
    finally:
        sys.path.remove(str(folder))


class Steps:
    """Calls operations of the generated client by their names."""

    def __init__(self, package: ModuleType, url: str, key: str) -> None:
        self._package = package.__name__
        self.client = package.AuthenticatedClient(base_url=url, token=key)

    def call(self, tag: str, name: str, *arguments: object, **more: object) -> Any:
        operation = importlib.import_module(f"{self._package}.api.{tag}.{name}")
        with self.client.get_httpx_client():
            answer = operation.sync_detailed(*arguments, client=self.client, **more)
        self.client.set_httpx_client(None)
        assert int(answer.status_code) < 300, answer.content
        return answer.parsed

    def model(self, name: str) -> Any:
        return getattr(importlib.import_module(f"{self._package}.models"), name)


async def test_the_tutorial(tmp_path: Path, generated: ModuleType) -> None:
    async with daemon(tmp_path / "data") as server:
        await asyncio.to_thread(tutorial, server, generated)


def tutorial(server: DaemonProcess, generated: ModuleType) -> None:
    key = tenant(server, generated)
    acme = Steps(generated, server.url, key)
    body = acme.model("HandlerBody")(lang=acme.model("HandlerBodyLang").PYTHON, body=DOUBLE)
    handler = acme.call("handlers", "put_handler", "acme", "double", body=body)
    assert handler.version == 1
    jobs = [acme.model("NewJob")(payload=payload) for payload in ("21", "4", "2000")]
    added = acme.call("add", "add_jobs", "acme", "double", body=jobs)
    assert added.count == 3
    ended = [acme.call("jobs", "get_job", "acme", job_id, wait_s=30.0) for job_id in added.ids]
    assert [(job.code, job.exitcode) for job in ended] == [("ok", 200), ("ok", 200), ("failed", 400)]
    assert ended[0].result == '{"twice":42}'
    page = acme.call("results", "list_results", "acme", code="failed")
    assert [job.id for job in page.jobs] == [added.ids[2]]
    why = acme.call("jobs", "get_why", "acme", added.ids[2])
    assert why.reason == "ended"
    acme.call("jobs", "retry_job", "acme", added.ids[2], body=acme.model("RetryBody")())
    board = acme.call("results", "get_scoreboard", "acme")
    assert [row.type_ for row in board.types] == ["double"]


def tenant(server: DaemonProcess, generated: ModuleType) -> str:
    operator = Steps(generated, server.url, server.operator_key)
    operator.call("admin", "create_tenant", body=operator.model("NewTenant")(name="acme"))
    made = operator.call("admin", "create_key", "acme", body=operator.model("NewKey")())
    key: str = made.key
    return key
