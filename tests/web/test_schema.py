"""schemathesis against /openapi.json: whatever fits the description, or nearly does, is answered as described."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from functory.web.api.openapi import build_openapi
from functory.web.app import ROUTES
from functory.web.http.routes import Route
from tests.support.web import Site, open_site

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
JOB_IDS = [f"20270115T080000000Z-a7-{number:06x}" for number in (0, 1, 2, 255)]
"""What a clock that stands at T0 makes of the first jobs, and one that is not there."""
REAL = {"tenant": ["acme"], "name": ["scratch"], "sysid": ["a7", "zz"], "id": JOB_IDS}


class Running:
    """A service on a thread of its own, because schemathesis calls it from outside any event loop."""

    def __init__(self, folder: Any) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        async with open_site(self._folder) as site:
            self.site: Site = site
            site.waiters.max_wait_s = 0.001
            site.workers.stop()  # nobody waits for jobs
            assert await site.add("a", "b", "c") == JOB_IDS[:3]
            await site.run(1)
            await site.call("PUT", "/acme/handler/thumb?lang=sh", data=b"true")
            self._ready.set()
            await self._end.wait()

    def start(self) -> None:
        self.thread.start()
        assert self._ready.wait(60)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self.thread.join(60)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = Running(tmp_path_factory.mktemp("schema"))
    found.start()
    yield found
    found.stop()


def described() -> Any:
    """The description, with names that exist in place of the patterns, so that most calls reach something."""
    raw = json.loads(json.dumps(build_openapi(ROUTES)))
    for operations in raw["paths"].values():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                if parameter["in"] == "path" and parameter["name"] in REAL:
                    parameter["schema"] = {"enum": REAL[parameter["name"]]}
    return schemathesis.openapi.from_dict(raw)


SCHEMA = described()


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "unfitting"])
def test_every_operation_keeps_to_the_description(route: Route, mode: GenerationMode, running: Running) -> None:
    operation = SCHEMA[route.path][route.method]
    if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body):
        return  # nothing in it can be wrong
    is_tenants = route.is_of_tenant or route.path in {"/jobber/queue", "/add"}
    headers = {"Authorization": f"Bearer {running.site.keys['acme' if is_tenants else 'operator']}"}

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def check(case: Any) -> None:
        case.call_and_validate(base_url=running.site.url, headers=headers, checks=CHECKS)

    check()
