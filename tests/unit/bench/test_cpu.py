"""Processor time by thread: the parser against /proc's traps, the sums, and a real process with named threads."""

import subprocess
import sys
from pathlib import Path

import pytest

import bench.tools.daemon
from bench.tools.cpu import (
    CLIENT,
    CONTEXTS,
    EVENT_LOOP,
    OTHER,
    Stat,
    by_thread,
    cpu_seconds,
    parse_stat,
    spent,
    told_apart,
)
from bench.tools.vitals import parse_status

BUSY_S = 0.2
PROGRAM = f"""
import threading, time
def burn():
    while time.thread_time() < {BUSY_S}: pass
thread = threading.Thread(target=burn, name="store-writer")
keep = threading.Event()
thread.run, run = (lambda: (run(), print("burnt", flush=True), keep.wait())), thread.run
thread.start()
input()
keep.set()
"""


def test_a_name_may_hold_parentheses_and_blanks() -> None:
    fields = ["S", "7", *["0"] * 9, "150", "50", "30", "20", *["0"] * 30]
    stat = parse_stat("42 (a) b (c) " + " ".join(fields))
    assert stat.name == "a) b (c"
    assert stat.parent == 7
    ticks_per_s = 200 / stat.own_s
    assert stat.reaped_s == pytest.approx(50 / ticks_per_s)


def test_the_parts_of_a_process_add_up_to_the_whole_of_it() -> None:
    threads = {
        10: Stat("python", 1, 4.0, 0.0),
        11: Stat("store-reader_0", 1, 1.0, 0.0),
        12: Stat("store-reader_1", 1, 0.5, 0.0),
        13: Stat("python", 1, 0.25, 0.0),
    }
    found = by_thread(8.0, threads, 10, "python")
    assert found == {EVENT_LOOP: 4.0, "store-reader": 1.5, OTHER: 2.5}  # 2.25 s of threads that have ended
    assert sum(found.values()) == 8.0


def test_a_thread_that_runs_on_between_two_reads_makes_nothing_negative() -> None:
    assert by_thread(1.0, {10: Stat("python", 1, 1.5, 0.0)}, 10, "python")[OTHER] == 0.0


def test_a_thread_that_nobody_asked_for_is_among_the_others() -> None:
    seconds = {EVENT_LOOP: 2.0, "store-checkpoint": 0.5, OTHER: 1.0}
    assert told_apart(seconds, (EVENT_LOOP, "store-writer", OTHER)) == {
        EVENT_LOOP: 2.0,
        "store-writer": 0.0,
        OTHER: 1.5,
    }


def test_spent_counts_parts_that_were_not_there_before() -> None:
    assert spent({"a": 1.0}, {"a": 1.5, "b": 2.0}) == {"a": 0.5, "b": 2.0}


def test_a_real_process_tells_its_threads_apart() -> None:
    environ = {"PYTHONPATH": str(Path(bench.tools.daemon.__file__).parent / "named_threads")}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"burnt\n"
        found = cpu_seconds(process.pid)
        process.communicate(b"\n")
    assert found["store-writer"] >= BUSY_S / 2  # the kernel's ticks are coarse
    assert {EVENT_LOOP, OTHER, CONTEXTS, CLIENT} <= found.keys()


def test_memory_is_read_in_bytes() -> None:
    memory = parse_status("Name:\tpython: x\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n")
    assert (memory.now_bytes, memory.peak_bytes) == (1 << 20, 2 << 20)
