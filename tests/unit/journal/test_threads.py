"""The thread that makes calls for the event loop."""

import asyncio
import gc
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from journal import Journal
from journal.threads import OneThread


async def test_calls_are_made_in_their_order_and_a_stop_comes_after_them() -> None:
    thread, made = OneThread("test"), list[int]()
    for number in range(100):
        thread.post(lambda number=number: made.append(number))  # type: ignore[misc]
    last = thread.submit(made.append, 100)
    await asyncio.to_thread(thread.shutdown)
    assert made == list(range(101))
    assert last.result() is None
    with pytest.raises(RuntimeError, match="has ended"):
        thread.submit(made.append, 101)


async def test_who_waits_for_a_call_gets_its_result_or_its_error() -> None:
    thread, loop = OneThread("test"), asyncio.get_running_loop()
    try:
        assert await loop.run_in_executor(thread, int, "7") == 7
        with pytest.raises(ValueError, match="seven"):
            await loop.run_in_executor(thread, int, "seven")
        assert await loop.run_in_executor(thread, int, "8") == 8
    finally:
        thread.shutdown(wait=False)


async def test_a_journal_that_cannot_be_opened_for_want_of_a_thread_leaves_none_behind(tmp_path: Path) -> None:
    begun = list[Thread]()

    def start(name: str) -> OneThread:
        if begun:
            raise RuntimeError("can't start new thread")
        thread = OneThread(name)
        begun.append(thread._thread)
        return thread

    async def open_it() -> None:
        with pytest.raises(RuntimeError, match="start new thread"):
            await Journal(tmp_path, "a7", make_executor=start).open()

    await open_it()
    gc.collect()
    await asyncio.to_thread(begun[0].join, 20)
    assert not begun[0].is_alive()


async def test_a_writer_that_cannot_hear_of_its_write_does_not_keep_others_from_it(tmp_path: Path) -> None:
    faults, settled = list[Any](), list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault["exception"]))

    def cannot(_: Exception | None) -> None:
        raise RuntimeError("it cannot")

    async with Journal(tmp_path, "a7") as journal:
        journal.begin_write("a-b", [b"1"], {}, (), cannot)
        journal.begin_write("a-b", [b"2"], {}, (), lambda error: settled.append(str(error)))
        await journal.wsync()
    assert settled == ["None"]
    assert [str(fault) for fault in faults] == ["it cannot"]
