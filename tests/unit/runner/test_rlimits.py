"""Limits that the kernel keeps for each process, by the layers of a context."""

import resource

from handlers.languages import LANGUAGES
from runner.limits import ContextLimits
from runner.sandbox import rlimits
from runner.sandbox.layers import Layer

MB = 1 << 20


def test_memory_is_counted_by_process_where_no_cgroup_counts_it() -> None:
    limits = ContextLimits().for_launch(100)
    assert dict(rlimits.of(limits, {Layer.UID}))[resource.RLIMIT_DATA] == 100 * MB
    assert resource.RLIMIT_DATA not in dict(rlimits.of(limits, {Layer.UID, Layer.CGROUP}))


def test_what_a_language_reserves_is_not_taken_from_the_memory_of_its_handlers() -> None:
    limits = ContextLimits().for_launch(100, LANGUAGES["node"].reserved_mb)
    assert dict(rlimits.of(limits, set()))[resource.RLIMIT_DATA] == 612 * MB
    assert limits.memory_bytes == 100 * MB, "where a cgroup counts what is used, it is no more than that"
