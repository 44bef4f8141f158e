"""Moves all content of a store to another store of any kind. It can be interrupted at any moment, and goes on later.

Every page of records is written together with the place where it ended (see `store.protocol.transfer`), so a run that
was killed continues when it is started again. At the end both stores are read and compared, by count and checksum of
all records. Until then the target gives out no sysid, so no daemon can start on half a store.

Ensures: when it returns, the target holds exactly what the source holds. No record of the source is changed.
"""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from functory.errors import Missing, StillRunning, TransferFailed
from store.base import Histogram, Store
from store.url import open_store
from store.values.transfer import PARTS, SYSIDS, ExportPage, ImportPlace, Part, Record, SeriesRecord
from vocabulary.time_text import iso_time

_DIGEST_BITS: Final = 256

Progress = Callable[[str, Part, int], None]
"""Called with what is done (copied or verified), the part, and the number of records so far."""


class Content(NamedTuple):
    """How many records a part has, and the sum of their checksums, which does not depend on their order."""

    records: int
    checksum: str


async def migrate(
    source: Store,
    target: Store,
    *,
    label: str,
    now_ms: Callable[[], int],
    force: bool = False,
    page_records: int = 500,
    on_progress: Progress = lambda *_: None,
) -> dict[Part, Content]:
    """Fill the target and return what it holds. The target is empty, or was being filled from the same source.

    label names the source, so that an interrupted run is recognised. Raises StillRunning (a daemon uses one of the
    stores, unless `force`, or was started meanwhile), Conflict (the target has other content), TransferFailed (what
    arrived is not what was sent).
    """
    if not force:
        for store, which in ((source, "source"), (target, "target")):
            await require_rest(store, which, now_ms())
    await source.begin_export(now_ms=now_ms())
    sysids = await _last_sysid(source)
    place = await target.begin_import(label)
    for part in PARTS[PARTS.index(place.part) :]:
        await _copy(
            source, target, part, place.cursor if part is place.part else None, now_ms, page_records, on_progress
        )
    sent, arrived = await asyncio.gather(
        read_content(source, page_records, on_progress), read_content(target, page_records)
    )
    if await _last_sysid(source) != sysids and not force:
        raise StillRunning("a daemon was started on the source meanwhile: stop it, empty the target, and start again")
    for part in PARTS:
        if sent[part] != arrived[part]:
            raise TransferFailed(
                f"{part}: {sent[part].records} records were sent and {arrived[part].records} arrived, or their content"
                " differs. The target stays closed to daemons: empty it, and start again"
            )
    await target.end_import()
    return arrived


def missing_store(url: str) -> Missing:
    """Elsewhere three slashes begin a path from the current folder. Here it is from the root: the message says so."""
    place = urlsplit(url)
    where = f": no file {unquote(place.path)}" if place.scheme == "sqlite" else ""
    meant = Path(unquote(place.path).lstrip("/"))
    if place.scheme == "sqlite" and meant.is_file():
        where += f". For the one in this folder, write sqlite://{meant.absolute()}"
    return Missing(f"there is no store at {label_of(url)}{where}")


async def require_store(url: str) -> None:
    """Raises Missing if there is none: whoever opened it would make an empty one."""
    if (await open_store(url).get_version()).schema == 0:
        raise await asyncio.to_thread(missing_store, url)


async def require_rest(store: Store, which: str, now_ms: int) -> None:
    """Raises StillRunning if daemons of the store are alive. `which` is what the message calls it."""
    daemons = await store.list_daemons(now_ms=now_ms)
    if daemons:
        names = ", ".join(f"{daemon.sysid} (until {iso_time(daemon.until_ms)})" for daemon in daemons)
        raise StillRunning(
            f"daemons of the {which} are alive: sysid {names}. Stop them; one that was killed lapses at the time given."
            " --force goes on all the same"
        )


async def _last_sysid(store: Store) -> int:
    page = await store.export(Part.SERIES)
    return max(record.last for record in page.records if isinstance(record, SeriesRecord) and record.name == SYSIDS)


async def _copy(
    source: Store,
    target: Store,
    part: Part,
    cursor: str | None,
    now_ms: Callable[[], int],
    page_records: int,
    on_progress: Progress,
) -> None:
    count = 0
    page = await source.export(part, cursor=cursor, limit=page_records)
    while True:
        # The next page is read while this one is written.
        following = asyncio.ensure_future(_next_page(source, part, page, page_records))
        try:
            await target.import_records(part, page.records, after=_place_after(part, page), now_ms=now_ms())
        except BaseException:
            following.cancel()
            raise
        count += len(page.records)
        on_progress("copied", part, count)
        next_page = await following
        if next_page is None:
            return
        page = next_page


async def _next_page(source: Store, part: Part, page: ExportPage, page_records: int) -> ExportPage | None:
    return None if page.cursor is None else await source.export(part, cursor=page.cursor, limit=page_records)


def _place_after(part: Part, page: ExportPage) -> ImportPlace:
    """The place to go on from. The last part is one record, and is repeated when all is copied."""
    if page.cursor is not None:
        return ImportPlace(part, page.cursor)
    return ImportPlace(PARTS[min(PARTS.index(part) + 1, len(PARTS) - 1)], None)


async def read_content(
    store: Store, page_records: int = 500, on_progress: Progress = lambda *_: None
) -> dict[Part, Content]:
    """Read everything, for counts and checksums."""
    content: dict[Part, Content] = {}
    for part in PARTS:
        records = total = 0
        page: ExportPage | None = await store.export(part, limit=page_records)
        while page is not None:
            total += await asyncio.to_thread(_sum_of, page.records)
            records += len(page.records)
            on_progress("verified", part, records)
            page = await _next_page(store, part, page, page_records)
        content[part] = Content(records, f"{total % (1 << _DIGEST_BITS):064x}")
    return content


def _sum_of(records: tuple[Record, ...]) -> int:
    return sum(int.from_bytes(hashlib.sha256(_encoder.encode(record)).digest()) for record in records)


def _encode_histogram(value: object) -> str:
    if isinstance(value, Histogram):
        return value.encode()
    raise NotImplementedError(f"{type(value).__name__} is not part of a record")


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_encode_histogram)


def label_of(url: str) -> str:
    """A store's URL without user, password and options. It is kept in the other store, and shown."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:255]
