"""What a python handler defines belongs to a module, as what any file defines: the standard library looks there."""

from dataclasses import replace

import pytest

from handlers.model import Handler
from runner.runner import Runner
from tests.support.engines import jobs, run

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOOKED_UP = {
    "a dataclass with annotations that are texts": """from __future__ import annotations
from dataclasses import dataclass
@dataclass
class Point: x: int
def handler(payload, ctx): return Point(int(payload)).x""",
    "pickle": """import pickle
class Own:
    def __init__(self, x): self.x = x
def handler(payload, ctx): return pickle.loads(pickle.dumps(Own(int(payload)))).x""",
    "type hints of a named tuple": """import typing
class Node(typing.NamedTuple): next: 'Node | None'
def handler(payload, ctx): return int(payload) * (typing.get_type_hints(Node)['next'] == Node | None)""",
    "a pool of processes": """import multiprocessing
def own(x): return x
def handler(payload, ctx):
    with multiprocessing.get_context('fork').Pool(1) as pool: return pool.map(own, [int(payload)])[0]""",
}


@pytest.mark.parametrize("name", LOOKED_UP)
async def test_what_a_handler_defines_is_found(runner: Runner, name: str) -> None:
    seen = await run(runner, Handler("python", LOOKED_UP[name]), jobs("7", "8"))
    assert seen.results == [b"7", b"8"]


async def test_also_of_each_of_several_types_in_one_context(runner: Runner) -> None:
    first = Handler("python", LOOKED_UP["pickle"], eid="module")
    second = replace(first, body=LOOKED_UP["pickle"].replace("Own", "Other"))
    for made, jobtype in ((first, "acme-one"), (second, "acme-two"), (first, "acme-one")):
        assert (await run(runner, made, jobs("7"), jobtype)).results == [b"7"]


async def test_what_before_defines_is_found_too(runner: Runner) -> None:
    made = Handler("python", "return pickle.loads(pickle.dumps(Own())).x", before="import pickle\nclass Own: x = 7")
    assert (await run(runner, made, jobs("x"))).results == [b"7"]
