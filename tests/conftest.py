"""For every suite: a blocking call on the event loop fails the test, and no property test is judged by the clock.

Suites that start whole daemons, sandboxes or processes for most of their tests are slow as a whole.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import HealthCheck, Phase, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "first failure", settings.get_profile("any machine"), phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
settings.load_profile(os.environ.get("FUNCTORY_HYPOTHESIS", "any machine"))

_SLOW_SUITES: Final = frozenset({"crash", "deploy", "security", "service"})
_LONGEST_FIRST: Final = ("storm", "acceptance", "crash", "deploy", "browser", "service", "security", "property")
"""Suites whose files take long: begun last, one of them would keep a single process busy when all others are done."""

_LONG: Final = (
    "acceptance/test_hostile.py::test_every_act_is_borne",
    "acceptance/test_jobs_page.py",
    "browser/test_everyone.py::test_every_page_is_for_everyone",
    "contract/store/test_family_races.py::test_a_child_is_added_while_its_parent_ends[set_up-mongodb",
    "contract/store/test_family_races.py::test_a_child_is_added_while_its_parent_ends[set_up_with_child-mongodb",
    "contract/store/test_races.py::test_between_two_steps_anything_may_happen[sqlite-abandon",
    "contract/store/test_races.py::test_between_two_steps_anything_may_happen[sqlite-purge",
    "crash/test_migration_kill.py",
    "deploy/test_networks.py",
    "deploy/test_systemd.py::TestInstall",
    "property/test_schedule_agreement.py",
    "property/test_store_agreement.py::TestServersAgreement",
    "service/test_consumer_page.py",
    "service/test_worker_storm.py::test_nothing_is_lost_and_nothing_ends_twice[1-mongodb",
    "service/test_worker_storm.py::test_nothing_is_lost_and_nothing_ends_twice[2-",
    "storm/test_consumer_storm.py",
    "storm/test_storm.py::test_storm[mongodb",
    "storm/test_storm.py::test_storm[sqlite-long",
    "storm/test_storm.py::test_storm[sqlite-mixed",
    "storm/test_storm.py::test_storm[sqlite-two",
    "storm/test_worker_storm.py",
)
"""Take a quarter of a minute or more, together several minutes. `make test` runs them; CI has no time for them."""
_MANY: Final = {
    "acceptance/": 4,
    "acceptance/test_stop.py": 3,
    "acceptance/test_wrong_settings.py": 3,
    "browser/": 6,
    "contract/engines/": 6,
    "contract/store/": 32,
    "crash/": 5,
    "deploy/": 4,
    "mongo/": 8,
    "security/": 6,
    "security/test_layers.py": 3,
    "security/test_node_packages.py": 4,
    "security/test_packages.py": 3,
    "security/test_probe.py": 3,
    "service/": 12,
    "service/test_held_up.py": 5,
    "service/test_names_unheard.py": 4,
    "service/test_names_used_again.py": 4,
    "service/test_queue_ends.py": 4,
    "web/test_schema.py": 2,
}
"""Of the slow tests of these CI has time for one in so many, chosen by name; where two lines fit, by both. On two cores
that others use, too, all of them take half an hour. Where both stores are tried, that is said of MongoDB."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The fast loop does not read suites of which it runs nothing."""
    is_suite = collection_path.parent == Path(__file__).parent and collection_path.name in _SLOW_SUITES
    return True if is_suite and config.option.markexpr == "not slow" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)  # keeps the order within a suite
    for item in items:
        if _suite(item) in _SLOW_SUITES:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and _is_long(item.nodeid.removeprefix("tests/")):
            item.add_marker(pytest.mark.long)


def _is_long(name: str) -> bool:
    if name.startswith(_LONG):
        return True
    if "[sqlite" in name:
        return False
    return any(name.startswith(start) and crc32(name.encode()) % one_in for start, one_in in _MANY.items())


def _place(item: pytest.Item) -> int:
    suite = _suite(item)
    return _LONGEST_FIRST.index(suite) if suite in _LONGEST_FIRST else len(_LONGEST_FIRST)


def _suite(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


@pytest.fixture(autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    with blockbuster_ctx() as bb:
        yield bb
