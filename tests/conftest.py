"""For every suite: a blocking call on the event loop fails the test, and no property test is judged by the clock.

Suites that start whole daemons, sandboxes or processes for most of their tests are slow as a whole.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

_SLOW_SUITES: Final = frozenset({"crash", "deploy", "security", "service"})


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in _SLOW_SUITES:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    with blockbuster_ctx() as bb:
        yield bb
