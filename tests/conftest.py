"""For every suite: a blocking call on the event loop fails the test; what shares a fixture runs in one process."""

from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx


@pytest.fixture(autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    with blockbuster_ctx() as bb:
        yield bb


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """When the suite runs in several processes (`make test`): a module stays together, for its fixtures, and so do
    all tests on a MongoDB server, of which one is enough."""
    for item in items:
        needs_server = "mongo" in item.nodeid
        item.add_marker(pytest.mark.xdist_group("mongo" if needs_server else item.nodeid.partition("::")[0]))
