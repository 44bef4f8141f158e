"""The description of the interface is made when it is asked for, once, and not on the event loop."""

import asyncio
import threading

import pytest

from functory.web.http.description import Described, Description

TEXTS = Described(b"{}", b"<html>")


async def test_it_is_made_once_for_all_who_ask_and_on_a_thread_of_its_own() -> None:
    makers: list[threading.Thread] = []

    def make() -> Described:
        makers.append(threading.current_thread())
        return TEXTS

    description = Description(make)
    await asyncio.sleep(0)
    assert makers == []
    first, second = await asyncio.gather(description.get(), description.get())
    assert first is second is TEXTS
    assert await description.get() is TEXTS
    assert len(makers) == 1
    assert makers[0] is not threading.main_thread()


async def test_one_that_failed_is_tried_again() -> None:
    answers: list[MemoryError | Described] = [MemoryError(), TEXTS]

    def make() -> Described:
        answer = answers.pop(0)
        if isinstance(answer, MemoryError):
            raise answer
        return answer

    description = Description(make)
    with pytest.raises(MemoryError):
        await description.get()
    assert await description.get() == TEXTS
