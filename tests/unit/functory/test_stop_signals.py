"""Which signals ask to stop, and which are a wish to hurry: a second call of `stop`."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from functory.supervision.stop_signals import when_asked_to_stop

TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


@pytest.fixture
def signals() -> Iterator[None]:
    """As they were before, afterwards."""
    before = {number: signal.getsignal(number) for number in (TERM, INT, HUP)}
    signal.signal(HUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("sent", "calls"),
    [
        ((TERM,), 1),
        ((TERM, TERM), 2),
        ((HUP, HUP), 1),
        ((TERM, HUP), 1),
        ((INT, HUP, HUP), 1),
        ((HUP, TERM), 2),
        ((HUP, INT, HUP), 2),
    ],
)
@pytest.mark.usefixtures("signals")
async def test_a_terminal_that_is_closed_does_not_hurry(sent: tuple[signal.Signals, ...], calls: int) -> None:
    stops: list[str] = []
    loop = asyncio.get_running_loop()
    when_asked_to_stop(lambda: stops.append("stop"))
    heard = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, heard.set)
    try:
        for number in sent:
            heard.clear()
            signal.raise_signal(number)
            signal.raise_signal(signal.SIGUSR1)  # heard after the one before it
            await heard.wait()
        assert len(stops) == calls
    finally:
        for number in (TERM, INT, HUP, signal.SIGUSR1):
            loop.remove_signal_handler(number)
