"""Who follows a log sees what was printed once, whatever that reads like."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from functory.operations.job_log import follow_log, get_log
from functory.workers.values import Answer
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.workers import Shop, open_shop

LIKE_A_NOTE = b"[1000 bytes before this were dropped]\n"


@pytest.fixture(params=back_end_params())
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    async with BACK_ENDS[request.param](tmp_path) as url, open_shop(tmp_path, store=url) as opened:
        yield opened


async def test_a_line_that_reads_like_a_note_of_ours(shop: Shop) -> None:
    await shop.serve("resize")
    (job_id,) = await shop.post("1")
    (job,) = await shop.take()
    assert await shop.report(job, None, log=LIKE_A_NOTE + b"one\n") is Answer.OK
    following = follow_log(shop.service, "acme", job_id)
    seen = (await anext(following)).text
    assert await shop.report(job, 200, log=b"two\n") is Answer.OK
    async for part in following:
        seen += part.text
    assert seen == LIKE_A_NOTE + b"one\ntwo\n"
    kept = await get_log(shop.service, "acme", job_id)
    assert kept == b"[0 bytes before this were dropped]\n" + seen, "so that it is known whose line is the first"


async def test_what_was_dropped_is_counted_once(shop: Shop) -> None:
    await shop.serve("resize")
    (job_id,) = await shop.post("1")
    (job,) = await shop.take()
    assert await shop.report(job, None, log=b"a\n" * 10) is Answer.OK
    following = follow_log(shop.service, "acme", job_id)
    assert (await anext(following)).text == b"a\n" * 10
    assert await shop.report(job, 200, log=b"b\n" * 10_000) is Answer.OK
    rest = b"".join([part.text async for part in following])
    assert rest == b"[%d bytes were dropped]\n" % (20_000 - 16_384) + b"b\n" * 8192
    kept = await get_log(shop.service, "acme", job_id)
    assert kept == b"[%d bytes before this were dropped]\n" % (20_020 - 16_384) + b"b\n" * 8192
