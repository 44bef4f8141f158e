"""What a context printed last is read, also if its log is not read at the moment."""

import os

import pytest

from runner.context import ProcessContext
from runner.errors import ContextEndedError
from runner.flow import Flow
from runner.launch import Exit, Level
from runner.limits import ContextLimits
from runner.masking import Masker
from runner.pipes import PipedChild, close_all, open_pipes


class Ended(PipedChild):
    """It printed something and ended, before anybody looked."""

    pid = 1
    level = Level.L0
    is_metered = False

    def __init__(self, said: bytes) -> None:
        ours, theirs = open_pipes()
        super().__init__(*ours)
        os.write(theirs[2], said)
        close_all(*theirs)

    async def terminate(self) -> None: ...

    async def kill(self) -> None: ...

    async def wait(self) -> Exit:
        return Exit(status=3, signal=None)

    def memory_bytes(self) -> int:
        return 0

    def oom_kills(self) -> int:
        return 0

    def tasks(self) -> int:
        return 0

    def cpu_s(self) -> float:
        return 0.0

    async def tidy(self, *, keep_children: bool) -> int:
        return 0

    def set_frozen(self, *, frozen: bool) -> bool:
        return False


@pytest.fixture
def ended() -> Ended:
    return Ended(b"no such library\n")


async def test_the_last_words_are_read_of_a_context_that_waits_to_be_searched(ended: Ended) -> None:
    """Its tenant has used up its share of searching for secrets, so its log is left alone. When the end of its replies
    was read with its exit, what it had printed was lost."""
    flow = Flow()
    flow.searches.take("acme", 10_000_000)
    context = ProcessContext(ended, ContextLimits(), tenant="acme", flow=flow, memory_mb=64)
    context.log.masker = Masker(["a secret value"])
    with pytest.raises(ContextEndedError, match="ended with exit status 3: no such library"):
        await context.hello()
