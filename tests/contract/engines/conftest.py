"""The engine suite runs on both launchers: the plain one in `make check`, the sandbox in `make test`."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from runner.launch import Launcher
from runner.limits import ContextLimits
from runner.plain import PlainLauncher
from runner.runner import Runner, RunnerSettings
from runner.sandbox.launcher import SandboxLauncher


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["plain", pytest.param("sandbox", marks=pytest.mark.slow)]
)
async def launcher(request: pytest.FixtureRequest) -> AsyncIterator[Launcher]:
    made: Launcher = PlainLauncher() if request.param == "plain" else SandboxLauncher()
    await made.start()
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner(launcher: Launcher) -> AsyncIterator[Runner]:
    settings = RunnerSettings(limits=replace(ContextLimits(), kill_grace_s=0.2))
    made = Runner(launcher, settings)
    yield made
    await made.close()
