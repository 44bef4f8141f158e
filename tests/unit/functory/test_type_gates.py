"""Gates of types: what is wanted while it is asked for is not asked for again, unless it has changed since."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import cast

from functory.execution.straight.type_gates import TypeGates
from store.base import Store, TypeGate
from store.errors import InvalidValue, StoreUnavailable
from tests.support.clocks import FakeClock


class SlowStore:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.is_away = False
        self.go = asyncio.Event()
        self.version = 1

    async def get_type_gates(self, jobtypes: Sequence[str]) -> list[TypeGate]:
        self.asked.append(list(jobtypes))
        version = self.version
        await self.go.wait()
        if self.is_away:
            raise StoreUnavailable("away")
        if "acme-a\n" in jobtypes:
            raise InvalidValue("no jobtype")
        return [TypeGate(jobtype, is_open=True, handler_version=version) for jobtype in jobtypes]


class Gates:
    def __init__(self) -> None:
        self.store = SlowStore()
        self.known = asyncio.Event()
        self.clock = FakeClock()
        self.gates = TypeGates(cast("Store", self.store), self.clock, 1.0, self._runs)
        self.gates.when_known(self._told)

    async def _runs(self, _jobtype: str, _version: int) -> bool:
        return True

    def _told(self, _jobtypes: Iterable[str]) -> None:
        self.known.set()

    async def want(self, *jobtypes: str) -> None:
        for jobtype in jobtypes:
            self.gates.want(jobtype)
        await asyncio.sleep(0)

    async def answered(self) -> None:
        self.store.go.set()
        async with asyncio.timeout(30):
            while self.gates._asking is not None:
                await self.known.wait()
                self.known.clear()
                await asyncio.sleep(0)

    def version(self, jobtype: str) -> int | None:
        gate = self.gates.ask(jobtype)
        return None if gate is None else gate.handler_version


async def test_what_is_asked_for_is_not_asked_for_again() -> None:
    it = Gates()
    await it.want("acme-a", "acme-b")
    await it.want("acme-b", "acme-c")
    await it.answered()
    assert it.store.asked == [["acme-a", "acme-b"], ["acme-c"]]
    assert [it.version(name) for name in ("acme-a", "acme-b", "acme-c")] == [1, 1, 1]


async def test_what_has_changed_since_it_was_asked_for_is_asked_for_again() -> None:
    it = Gates()
    await it.want("acme-a", "other-a")
    it.store.version = 2
    it.gates.forget("acme")
    await it.want("acme-a")
    await it.answered()
    assert it.store.asked == [["acme-a", "other-a"], ["acme-a"]]
    assert (it.version("acme-a"), it.version("other-a")) == (2, 1)


async def test_what_the_store_could_not_say_can_be_asked_for_again() -> None:
    it = Gates()
    it.store.is_away = True
    await it.want("acme-a")
    await it.answered()
    assert it.version("acme-a") is None
    it.store.is_away = False
    await it.want("acme-a")
    await it.answered()
    assert it.version("acme-a") == 1


async def test_who_is_told_that_the_store_could_not_say_may_ask_again() -> None:
    it = Gates()
    it.store.is_away = True

    def ask_again(jobtypes: Iterable[str]) -> None:
        it.store.is_away = False
        for jobtype in jobtypes:
            if it.version(jobtype) is None:
                it.gates.want(jobtype)
        it.known.set()

    it.gates.when_known(ask_again)
    await it.want("acme-a")
    await it.answered()
    assert it.version("acme-a") == 1


async def test_an_answer_that_is_used_is_renewed_before_it_is_old() -> None:
    it = Gates()
    await it.want("acme-a", "acme-b")
    await it.answered()
    it.clock.elapsed_s = 0.5
    assert it.version("acme-a") == 1
    assert len(it.store.asked) == 1, "it is young"
    it.clock.elapsed_s, it.store.version = 0.8, 2
    assert it.version("acme-a") == 1
    await it.answered()
    assert it.store.asked[1:] == [["acme-a"]], "nobody has used the other"
    it.clock.elapsed_s = 1.5
    assert (it.version("acme-a"), it.version("acme-b")) == (2, None)


async def test_a_name_that_the_store_refuses_is_closed_and_the_others_are_known() -> None:
    it = Gates()
    told: list[str] = []

    def listen(jobtypes: Iterable[str]) -> None:
        told.extend(jobtypes)
        it.known.set()

    it.gates.when_known(listen)
    await it.want("acme-a", "acme-a\n", "acme-b")
    await it.answered()
    assert told == ["acme-a", "acme-a\n", "acme-b"]
    assert [it.version(name) for name in told] == [1, 0, 1]
    refused = it.gates.ask("acme-a\n")
    assert refused is not None
    assert not refused.is_open
