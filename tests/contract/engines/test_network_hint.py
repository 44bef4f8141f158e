"""A handler without network that calls somebody is told in its error which setting it lacks, in every language."""

from typing import Final

import pytest

from handlers.model import Handler
from runner.launch import Level
from runner.limits import NO_NETWORK
from runner.runner import Runner
from tests.support.engines import jobs, languages, run

pytestmark = pytest.mark.asyncio(loop_scope="module")

CALLS: Final = {
    "python": "from urllib.request import urlopen\nurlopen(payload, timeout=20)",
    "node": "await fetch(payload)",
    "sh": "echo 'curl: (6) Could not resolve host: functory.example' >&2; exit 6",
    "php": "file_get_contents($payload);",
}
RAISED: Final = "raise OSError('[Errno -3] Temporary failure in name resolution')"


@pytest.mark.parametrize("lang", languages(*CALLS))
async def test_a_name_that_is_not_resolved(runner: Runner, lang: str) -> None:
    _need_isolation(runner)
    seen = await run(runner, Handler(lang, CALLS[lang]), jobs("http://functory.example/"))
    assert seen.exitcodes == [500]
    assert seen.results[0].endswith(NO_NETWORK.encode()), seen.results[0].decode()


@pytest.mark.parametrize("lang", languages("python", "node"))
async def test_an_address(runner: Runner, lang: str) -> None:
    _need_isolation(runner)
    seen = await run(runner, Handler(lang, CALLS[lang]), jobs("http://192.0.2.1/"))
    told = seen.results[0].decode()
    assert told.endswith(NO_NETWORK), told
    assert ("[Errno 1] Operation not permitted" if lang == "python" else "connect EPERM") in told


async def test_before_that_calls(runner: Runner) -> None:
    _need_isolation(runner)
    seen = await run(runner, Handler("python", "return 1", before=RAISED), jobs("x"))
    assert seen.results[0].endswith(NO_NETWORK.encode()), seen.results[0].decode()


async def test_without_isolation_the_network_is_that_of_the_machine(runner: Runner) -> None:
    seen = await run(runner, Handler("python", RAISED), jobs("x"))
    assert seen.results[0].endswith(NO_NETWORK.encode()) == (runner.level > Level.L0)


def _need_isolation(runner: Runner) -> None:
    if runner.level == Level.L0:
        pytest.skip("without isolation a handler has the network of the machine")
