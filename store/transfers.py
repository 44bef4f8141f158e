"""What all back ends share of moving a store's content: checks of arguments, cursors, and emptiness."""

import json
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from store.checks import check_page_limit, check_range
from store.errors import Conflict, InvalidValue
from store.names import checked_tenant_of
from store.protocol.transfer import StoreTransfer
from store.values.consumers import ConsumerRecord
from store.values.records import Content, Handler
from store.values.scoreboard import Bucket, FailureGroup
from store.values.transfer import PARTS, RECORD_OF, JobCopy, OnceRecord, Part, Record, TypeRecord

CONTENT: Final = tuple(part for part in PARTS if part not in {Part.POSITIONS, Part.DELETED, Part.SERIES})
"""What makes a store not empty. A position or a sysid is left by a daemon that only looked in."""


async def require_empty(store: StoreTransfer) -> None:
    for part in CONTENT:
        if (await store.export(part, limit=1)).records:
            raise Conflict(f"the store to be filled has {part} already: name one that is empty")


def require_same(source: str, found: str) -> None:
    """The store is being filled from `found`."""
    if found != source:
        raise Conflict(f"the store is being filled from {found}: finish that, or name a store that is empty")


def refuse_daemon(source: str) -> NoReturn:
    """No daemon starts on half a store."""
    raise Conflict(f"the store is being filled from {source}: let `functory migrate` finish before a daemon starts")


def check_export(limit: int, max_bytes: int) -> None:
    check_page_limit(limit)
    check_range("max_bytes", max_bytes, 1, 1 << 40)


def check_records(part: Part, records: Sequence[Record]) -> None:
    for record in records:
        if type(record) is not RECORD_OF[part]:
            raise InvalidValue(f"a {type(record).__name__} is no record of {part}")
        if isinstance(record, JobCopy):
            checked_tenant_of(record.job.jobtype)
        elif isinstance(record, TypeRecord | Handler | ConsumerRecord | Bucket | FailureGroup):
            checked_tenant_of(record.jobtype)


def size_of(record: Record) -> int:
    """The bytes of payload, result and log, or value: what makes a page big."""
    if isinstance(record, JobCopy):
        last = record.outcome
        return len(record.job.data) + (0 if last is None else len(last.result or b"") + len(last.log))
    if isinstance(record, Content):
        return len(record.data)
    return len(record.value) if isinstance(record, OnceRecord) else 0


def encode_cursor(part: Part, key: Sequence[Any]) -> str:
    return json.dumps([part, *key])


def decode_cursor(part: Part, cursor: str | None) -> list[Any] | None:
    if cursor is None:
        return None
    key: list[Any]
    try:
        found, *key = json.loads(cursor)
    except (ValueError, TypeError):
        found, key = "", []
    if found != part or not key:
        raise InvalidValue(f"cursor {cursor!r:.80} is not one of an export of {part}")
    return key
