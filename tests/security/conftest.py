"""What the attack suites share: the set of layers that this machine gives, found once, and a launcher with them."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from runner.sandbox import layers
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import Layer, LayerState
from tests.support.needs import missing, need_command


@pytest.fixture(scope="session")
def states() -> tuple[LayerState, ...]:
    return layers.detect()


@pytest.fixture(scope="session")
def machine(states: tuple[LayerState, ...]) -> frozenset[Layer]:
    """The layers of this machine."""
    return layers.available(states)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launcher(machine: frozenset[Layer]) -> AsyncIterator[SandboxLauncher]:
    made = SandboxLauncher(machine)
    await made.start()
    yield made
    await made.close()


@pytest.fixture(scope="session")
def all_layers(states: tuple[LayerState, ...], machine: frozenset[Layer]) -> frozenset[Layer]:
    """For tests that take layers away one by one: they need a machine that has them all."""
    need_command("bwrap", "bubblewrap")
    for state in states:
        if not state.available:
            missing(f"the layer {state.layer}", state.remedy)
    return machine
