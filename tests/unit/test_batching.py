"""Batch sizes and messages: pure numbers."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.batching import FIRST_BATCH, MAX_JOBS, TARGET_MS, Pace, batch_size
from runner.launch import Exit
from runner.modules import CompiledModules
from runner.outcome import describe_exit, is_status, name_of
from runner.runner import _messages
from tests.support.engines import jobs


def test_nothing_known_starts_small_and_fast_jobs_fill_a_batch() -> None:
    assert batch_size(None) == FIRST_BATCH
    assert batch_size(Pace(0.005)) == MAX_JOBS
    assert batch_size(Pace(0.0)) == MAX_JOBS
    assert batch_size(Pace(10.0)) == 10
    assert batch_size(Pace(5000.0)) == 1
    assert batch_size(Pace(0.001), max_jobs=7) == 7


@given(st.floats(0, 1e7), st.integers(1, 1000))
def test_a_batch_is_about_the_target(job_ms: float, max_jobs: int) -> None:
    size = batch_size(Pace(job_ms), max_jobs=max_jobs)
    assert 1 <= size <= max_jobs
    assert size == 1 or size * job_ms <= TARGET_MS * 1.0001


def test_getting_slower_is_believed_at_once_and_faster_bit_by_bit() -> None:
    pace = Pace.of(None, 10, 10.0)
    assert pace == Pace(1.0)
    assert Pace.of(pace, 1, 500.0) == Pace(500.0)
    assert Pace.of(pace, 0, 500.0) == pace
    faster = Pace.of(pace, 10, 1.0)
    assert faster is not None
    assert 0.1 < faster.job_ms < 1.0


@given(st.lists(st.integers(0, 6 << 20), max_size=30), st.integers(1, 10))
def test_messages_hold_every_job_once_and_in_order(sizes: list[int], max_jobs: int) -> None:
    class Sized(bytes):
        size = 0

        def __len__(self) -> int:
            return self.size

    batch = []
    for job, size in zip(jobs(*["x"] * len(sizes)), sizes, strict=True):
        data = Sized()
        data.size = size
        batch.append(job._replace(data=data))
    messages = [list(message) for message in _messages(batch, max_jobs)]
    assert [job for message in messages for job in message] == batch
    assert all(0 < len(message) <= max_jobs for message in messages)
    assert all(len(m) == 1 or sum(len(job.data) for job in m) <= 8 << 20 for m in messages)


@pytest.mark.parametrize(
    ("end", "exitcode", "says"),
    [
        (Exit(3, None), 502, "exit status 3"),
        (Exit(None, 11), 502, "SIGSEGV"),
        (Exit(None, 9, oom=True), 507, "the limit is 64 MB"),
        (Exit(None, 24), 502, "CPU time"),
        (Exit(None, 200), 502, "signal 200"),
    ],
)
def test_an_end_is_put_into_words(end: Exit, exitcode: int, says: str) -> None:
    code, text = describe_exit(end, memory_mb=64)
    assert code == exitcode
    assert says in text


def test_statuses() -> None:
    assert [name_of(code) for code in (100, 200, 299, 400, 500, 599)] == [
        "retry",
        "ok",
        "ok",
        "failed",
        "error",
        "error",
    ]
    assert [code for code in (99, 100, 299, 300, 399, 400, 599, 600) if is_status(code)] == [
        100,
        299,
        400,
        599,
    ]


async def test_a_module_is_compiled_once_and_the_oldest_is_forgotten() -> None:
    modules = CompiledModules(max_bytes=25)
    made: list[str] = []

    async def get(name: str) -> bytes:
        async def make() -> bytes:
            made.append(name)
            await asyncio.sleep(0)
            return b"0123456789"

        return await modules.get(("acme", name), make)

    await asyncio.gather(get("a"), get("a"), get("b"))
    assert made == ["a", "b"]
    await get("a")
    await get("c")
    await get("a")
    assert made == ["a", "b", "c"]
    await get("b")
    assert made == ["a", "b", "c", "b"]


async def test_a_module_that_does_not_compile_is_asked_for_again() -> None:
    modules = CompiledModules(max_bytes=25)

    async def fail() -> bytes:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await modules.get(("acme", "a"), fail)
