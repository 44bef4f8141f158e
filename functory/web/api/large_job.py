"""A job with a large payload, result or log as JSON, made in pieces; and a result as its bytes.

The whole of it would be several times as large as what it shows (a control character is six in JSON), and the event
loop would wait while it is made. So the JSON is made without the large texts, and these are put in while it is sent. A
large result is never read as a whole: it comes from the store piece by piece, when its answer has its turn.
"""

import asyncio
import codecs
import secrets
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

import msgspec
from aiohttp import web

from functory.errors import Missing
from functory.operations.jobs import Queued, get_job, is_whole, read_result
from functory.operations.service import Service
from functory.web.api.rendering import show_job
from functory.web.http.answers import JSON_HEADERS
from functory.web.http.outflow import LARGE_BYTES, PIECE_BYTES, LargeAnswer, cut
from functory.wire.base import Encoding
from functory.wire.jobs import Job
from store.base import JobRecord

_UTF8: Final = codecs.getincrementaldecoder("utf-8")
_READ_BYTES: Final = PIECE_BYTES // 4 * 3 * 8
"""Of a result that is read from the store at once. A whole number of pieces, and of triples for base64."""

Source = Callable[[], AsyncIterator[bytes]]
"""Bytes in pieces. It can be called again."""


def job_answer(service: Service, tenant: str, found: JobRecord | Queued) -> Job | LargeAnswer:
    """The job that was read with LARGE_BYTES, or an answer in pieces if it has more than that. One that is there as a
    whole is not read again: it may not be kept."""
    if isinstance(found, Queued) or (is_whole(found) and kept_bytes(found) <= LARGE_BYTES):
        return show_job(found)
    job_id, data_bytes = found.job.id, found.data_bytes

    async def pieces() -> AsyncIterator[bytes]:
        read: JobRecord | Queued = found
        if not is_whole(found):
            read = await get_job(service, tenant, job_id, max_bytes=max(data_bytes, PIECE_BYTES))
        if isinstance(read, Queued):
            raise Missing(f"there is no job {job_id}")
        sources: dict[str, Source] = {"payload": in_memory(read.job.data)}
        if read.outcome is not None:
            sources["log"] = in_memory(read.outcome.log)
            if is_whole(read):
                sources["result"] = in_memory(read.outcome.result or b"")
            else:
                sources["result"] = lambda: read_result(service, tenant, read, _READ_BYTES)
        sizes = {"payload": read.data_bytes, "log": len(read.outcome.log) if read.outcome else 0}
        sizes["result"] = read.result_bytes
        large = {name: source for name, source in sources.items() if sizes[name] > PIECE_BYTES}
        async for piece in json_in_pieces(show_job(_without(read, large)), large):
            yield piece

    held_bytes = kept_bytes(found) if is_whole(found) else data_bytes + _READ_BYTES
    return LargeAnswer(pieces, 2 * kept_bytes(found), headers=dict(JSON_HEADERS), held_bytes=held_bytes)


def result_answer(
    service: Service, tenant: str, found: JobRecord, content_type: str, disposition: str
) -> web.StreamResponse:
    """The bytes of the result of a job that has one, and that was read with LARGE_BYTES."""
    headers = {**JSON_HEADERS, "Content-Type": content_type, "Content-Disposition": disposition}
    result = found.outcome.result if found.outcome else None
    if result is not None and len(result) == found.result_bytes:
        return web.Response(body=result, headers=headers)
    answer = LargeAnswer(
        lambda: read_result(service, tenant, found, _READ_BYTES),
        found.result_bytes,
        headers=headers,
        held_bytes=_READ_BYTES,
    )
    answer.content_length = found.result_bytes
    return answer


async def json_in_pieces(shown: msgspec.Struct, large: Mapping[str, Source]) -> AsyncIterator[bytes]:
    """The JSON of a struct with large texts put into it: each is a field that has its encoding in another one."""
    encodings = {name: await _encoding(source()) for name, source in large.items()}
    marks = {name: f"\N{OBJECT REPLACEMENT CHARACTER}{secrets.token_hex(16)}" for name in large}
    frame = rest = msgspec.json.encode(
        msgspec.structs.replace(shown, **marks, **{f"{name}_encoding": it for name, it in encodings.items()})
    )
    for name in sorted(large, key=lambda name: frame.index(marks[name].encode())):
        before, _, rest = rest.partition(marks[name].encode())
        yield before
        async for piece in _text_pieces(large[name](), encodings[name]):
            yield piece
    yield rest


def in_memory(data: bytes) -> Source:
    """A text that is there as a whole."""

    async def pieces() -> AsyncIterator[bytes]:
        for piece in cut(data, _READ_BYTES):
            yield piece

    return pieces


def kept_bytes(found: JobRecord) -> int:
    """Of its payload, result and log, read or not."""
    return found.data_bytes + found.result_bytes + (len(found.outcome.log) if found.outcome else 0)


def _without(found: JobRecord, large: Mapping[str, Source]) -> JobRecord:
    job = found.job._replace(data=b"") if "payload" in large else found.job
    if found.outcome is None:
        return found._replace(job=job)
    outcome = found.outcome
    if "result" in large:
        outcome = outcome._replace(result=b"")
    if "log" in large:
        outcome = outcome._replace(log=b"")
    return found._replace(job=job, outcome=outcome)


async def _encoding(source: AsyncIterator[bytes]) -> Encoding:
    """As `to_wire` has it, in pieces."""
    decoder = _UTF8()
    try:
        async for part in source:
            for piece in cut(part):
                decoder.decode(piece)
                await asyncio.sleep(0)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "base64"
    return "text"


async def _text_pieces(source: AsyncIterator[bytes], encoding: Encoding) -> AsyncIterator[bytes]:
    """In small pieces: those of JSON can be six times as long."""
    decoder = _UTF8()
    async for part in source:
        for piece in cut(part, PIECE_BYTES // 4 * 3):
            yield b64encode(piece) if encoding == "base64" else msgspec.json.encode(decoder.decode(piece))[1:-1]
