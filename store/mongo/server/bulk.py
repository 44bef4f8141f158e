"""Changes of many documents at once: in one order for all callers, or they would wait for each other.

MongoDB changes one document after the other. FerretDB makes each command one transaction of PostgreSQL, and that keeps
every document that it has changed locked until the end. Two commands that come to the same documents in different
orders wait for each other. After a second PostgreSQL breaks off one change of one of them, and that command goes on to
its next document with all its locks: so two of a hundred documents each can take minutes, and whoever needs one of
these waits as long.

Ensures: documents are changed in the order of their ids.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from pymongo import DeleteOne, ReplaceOne, UpdateOne

from store.mongo.server.driver import Collection, Document

_AT_ONCE: Final = 1000
_WORTH_A_COMMAND: Final = 20
"""Documents that are alike. Fewer cost less one by one in a command with others."""
_ID: Final = attrgetter("id")


class Write(NamedTuple):
    """A change of one document."""

    id: Any
    request: UpdateOne | DeleteOne | ReplaceOne[Document]


class Written(NamedTuple):
    """How many documents met the condition of their change, and how many were made by it."""

    matched: int
    modified: int
    upserted: int


def update_one(which: Document, update: Document, *, upsert: bool = False) -> Write:
    return Write(which["_id"], UpdateOne(which, update, upsert=upsert))


def replace_one(which: Document, document: Document, *, upsert: bool = False) -> Write:
    return Write(which["_id"], ReplaceOne(which, document, upsert=upsert))


def delete_one(which: Document) -> Write:
    return Write(which["_id"], DeleteOne(which))


async def write_each(collection: Collection, writes: Iterable[Write]) -> Written:
    """All of them, also after one was refused. An error names them by their place in the order of their ids."""
    requests = [write.request for write in sorted(writes, key=_ID)]
    done = await collection.bulk_write(requests, ordered=False)
    return Written(done.matched_count, done.modified_count, done.upserted_count)


class Group(NamedTuple):
    """A change of documents that are alike: `which` is their condition beside their ids."""

    ids: Sequence[Any]
    which: Document
    update: Document


async def update_groups(collection: Collection, groups: Sequence[Group]) -> Written:
    """A command for each large group, because one with several of them would come to their ids group by group, and one
    for all that are in small ones."""
    matched = modified = 0
    singly: list[Write] = []
    for ids, which, update in groups:
        if len(groups) > 1 and len(ids) < _WORTH_A_COMMAND:
            singly += [update_one({"_id": one, **which}, update) for one in ids]
            continue
        done = await collection.update_many({"_id": {"$in": ids}, **which}, update)
        matched, modified = matched + done.matched_count, modified + done.modified_count
    if singly:
        rest = await write_each(collection, singly)
        matched, modified = matched + rest.matched, modified + rest.modified
    return Written(matched, modified, 0)


def places_in_order(documents: Sequence[Document]) -> list[int]:
    """Of documents that are to be inserted together: their places, in the order in which they are to be sent."""
    return sorted(range(len(documents)), key=lambda place: documents[place]["_id"])


async def update_found(collection: Collection, which: Document, update: Document, *, hint: str | None = None) -> None:
    """Whatever meets a condition that does not name ids: found first, since the server would change it in the order in
    which it finds it."""
    rows = await collection.find(which, {"_id": 1}, hint=hint).to_list(None)
    ids = sorted(row["_id"] for row in rows)
    for start in range(0, len(ids), _AT_ONCE):
        await collection.update_many({**which, "_id": {"$in": ids[start : start + _AT_ONCE]}}, update)
