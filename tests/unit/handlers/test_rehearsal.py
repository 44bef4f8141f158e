"""The rehearsal of a blank context: the whole way of a first job, and nothing of it stays."""

import sys
from pathlib import Path
from typing import Any

from handlers.bootstraps import python


class Engine:
    """Notes what it is asked to do."""

    log: python.Log

    def __init__(self) -> None:
        self.loaded: list[dict[str, Any]] = []
        self.payloads: list[bytes] = []

    def load(self, spec: dict[str, Any]) -> python.Slot:
        self.loaded.append(spec)
        return python.Slot(spec["type"], spec["limits"], self.run)

    def run(self, _: str, ctx: python.Context) -> None:
        self.payloads.append(ctx.payload_bytes)


def test_a_handler_is_loaded_and_a_job_of_it_is_run() -> None:
    engine = Engine()
    python.rehearse(engine, {"body": "text"}, b"attached" * 100_000)  # more than a pipe would hold
    assert [(spec["body"], len(spec["attachment"])) for spec in engine.loaded] == [("text", 800_000)]
    assert engine.payloads == [b"x"]


def test_no_descriptor_is_left_open() -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    python.rehearse(Engine(), {"body": ""})
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_the_tenants_namespace_is_none_that_was_rehearsed_in() -> None:
    python.rehearse_python()
    assert "handler" not in sys.modules
    rehearsed, engine = python.Python(), python.Python()
    python.rehearse(rehearsed, {"body": "return None"})
    assert sys.modules.pop("handler") is rehearsed.module
    assert "handler" in rehearsed.globals
    assert {name for name in engine.globals if not name.startswith("__")} == set()
