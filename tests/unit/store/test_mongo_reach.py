"""Whether a database can be reached is asked once, for all calls, with a driver on paper."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from pymongo.errors import AutoReconnect, OperationFailure, ServerSelectionTimeoutError

from store.errors import StoreUnavailable
from store.mongo.server.reach import Reach


class PaperDriver:
    def __init__(self) -> None:
        self.knows_server = True
        self.questions: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

    async def ask(self) -> None:
        answer = asyncio.get_running_loop().create_future()
        self.questions.put_nowait(answer)
        await answer

    async def answer(self, error: Exception | None = None) -> None:
        """The question that is under way, or the next one."""
        question = await self.questions.get()
        self.knows_server = not isinstance(error, ServerSelectionTimeoutError)
        if error is None:
            question.set_result(None)
        else:
            question.set_exception(error)


@pytest.fixture
def driver() -> PaperDriver:
    return PaperDriver()


@pytest.fixture
async def reach(driver: PaperDriver) -> AsyncIterator[Reach]:
    made = Reach(lambda: driver.knows_server, driver.ask)
    yield made
    await made.close()


def checks(reach: Reach, count: int = 100) -> "list[asyncio.Task[None]]":
    return [asyncio.create_task(reach.check("get_key")) for _ in range(count)]


async def test_nothing_is_asked_while_a_server_is_known(driver: PaperDriver, reach: Reach) -> None:
    await asyncio.gather(*checks(reach))
    assert driver.questions.empty()


@pytest.mark.parametrize("error", [None, OperationFailure("not authorized", 13), OperationFailure("busy", 112)])
async def test_calls_without_a_server_wait_for_one_question(
    driver: PaperDriver, reach: Reach, error: Exception | None
) -> None:
    driver.knows_server = False
    waiting = checks(reach)
    await driver.answer(error)
    await asyncio.gather(*waiting)
    assert driver.questions.empty()


async def test_when_it_was_asked_in_vain_calls_fail_at_once_until_it_is_answered(
    driver: PaperDriver, reach: Reach
) -> None:
    driver.knows_server = False
    waiting = checks(reach)
    await driver.answer(ServerSelectionTimeoutError("refused"))
    assert all(isinstance(it, StoreUnavailable) for it in await asyncio.gather(*waiting, return_exceptions=True))
    for error in (ServerSelectionTimeoutError("refused"), AutoReconnect("gone again")):
        with pytest.raises(StoreUnavailable, match=r"get_key: MongoDB cannot be reached: refused"):
            await reach.check("get_key")
        await driver.answer(error)
    await driver.answer()
    await asyncio.sleep(0)  # to those who asked
    await asyncio.gather(*checks(reach))


async def test_a_call_that_looked_in_vain_tells_the_others(driver: PaperDriver, reach: Reach) -> None:
    reach.lost(ServerSelectionTimeoutError("refused"))
    with pytest.raises(StoreUnavailable):
        await reach.check("get_key")
    await driver.answer()
    await asyncio.sleep(0)
    await reach.check("get_key")


async def test_closing_ends_the_question_and_lets_those_go_who_wait(driver: PaperDriver, reach: Reach) -> None:
    driver.knows_server = False
    waiting = checks(reach, 3)
    question = await driver.questions.get()
    await reach.close()
    await asyncio.gather(*waiting)
    assert question.cancelled()
