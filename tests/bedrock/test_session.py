"""The sample session of docs/jobs.md, byte by byte, and with `nc` itself."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.bedrock import Session, on_every_store, open_bedrock
from tests.support.clocks import FakeClock
from tests.support.needs import need_command
from vocabulary.time_text import to_ms

PAGE = Path(__file__).parents[2] / "docs" / "jobs.md"


class Exchange(NamedTuple):
    request: bytes
    answer: bytes


def exchanges() -> list[Exchange]:
    """What is typed ends with the first blank line; the answer is the rest."""
    found = []
    for block in re.findall(r"```text\n(.*?)\n```", PAGE.read_text(), re.DOTALL):
        request, answer = block.split("\n\n", 1)
        found.append(Exchange(f"{request}\n\n".encode(), (answer if "\n\n" in answer else f"{answer}\n\n").encode()))
    return found


SESSION = exchanges()
MOMENTS = ("07:38:51", "07:39:04", "07:39:05", "07:39:06", "07:39:08", "07:39:09", "07:39:10", "07:40:08")
"""When each request of the page is made."""


def clock_at(moment: str) -> int:
    return to_ms(datetime.fromisoformat(f"2014-12-29 {moment}").replace(tzinfo=UTC))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(clock_at(MOMENTS[0]))


@on_every_store
async def test_the_session_of_the_page_byte_by_byte(session: Session, clock: FakeClock) -> None:
    for (request, answer), moment in zip(SESSION, MOMENTS, strict=True):
        clock.advance((clock_at(moment) - clock.wall_ms) / 1000)
        session.send_bytes(request)
        assert await session.reader.readexactly(len(answer)) == answer, request
    session.writer.write_eof()
    assert await session.rest() == b""


async def test_the_session_in_one_piece_gets_the_same_answers(tmp_path: Path, clock: FakeClock) -> None:
    """Pipelined, and byte for byte in pieces of one."""
    asked = b"".join(request for request, _ in SESSION[:6])
    async with open_bedrock(tmp_path, clock) as bedrock, bedrock.session() as session:
        for place in range(len(asked)):
            session.send_bytes(asked[place : place + 1])
            if place % 50 == 0:
                await session.writer.drain()
        session.writer.write_eof()
        assert await session.rest() == b"".join(answer for _, answer in SESSION[:6])


async def test_lines_that_end_as_in_http_are_answered_so(tmp_path: Path) -> None:
    request, answer = SESSION[0]
    async with open_bedrock(tmp_path) as bedrock, bedrock.session() as session:
        session.send_bytes(request.replace(b"\n", b"\r\n"))
        session.writer.write_eof()
        assert await session.rest() == answer.replace(b"\n", b"\r\n")


@pytest.fixture
def nc() -> str:
    return need_command("nc", "netcat-openbsd")


async def test_the_session_with_nc_itself(tmp_path: Path, clock: FakeClock, nc: str) -> None:
    async with open_bedrock(tmp_path, clock) as bedrock:
        process = await asyncio.create_subprocess_exec(
            nc,
            "127.0.0.1",
            str(bedrock.listener.port),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin
        assert process.stdout
        try:
            for (request, answer), moment in zip(SESSION, MOMENTS, strict=True):
                clock.advance((clock_at(moment) - clock.wall_ms) / 1000)
                process.stdin.write(request)
                async with asyncio.timeout(60):
                    assert await process.stdout.readexactly(len(answer)) == answer, request
        finally:
            process.kill()
            await process.wait()
