"""What this object remembers of the jobs that it handed out, so that most releases need not read them again.

Only a hint. Every release is conditional on what it was computed from, so a memory that is out of date
makes it fail and be computed again from what is read.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from store.mongo.server.driver import Document

MOST: Final = 20_000
"""Deliveries remembered at once, oldest forgotten first: some 10 MB."""

_REMEMBERED: Final = (
    "_id",
    "type",
    "s",
    "at",
    "due",
    "create",
    "done",
    "lock",
    "token",
    "attempts",
    "size",
    "d",
    "kin",
    "kids",
    "pend",
    "parent",
    "blob",
    "rev",
    "begun",
    "planned",
    "key",
    "dom",
    "prio",
)


class Deliveries:
    def __init__(self) -> None:
        self._held: dict[str, Document] = {}

    def remember(self, documents: Iterable[Document]) -> None:
        """Documents as they are after the claim. Ensures: neither payload nor result is kept alive."""
        for document in documents:
            if "past" in document or "repeat" in document:
                continue  # what is kept of earlier runs may be long, and they are rare enough to be read again
            short: Document = {field: document[field] for field in _REMEMBERED if field in document}
            if "out" in document:
                last = document["out"]
                short["out"] = {field: last[field] for field in ("size", "log_size", "blob") if field in last}
            self._held[document["_id"]] = short
        while len(self._held) > MOST:
            del self._held[next(iter(self._held))]

    def recall(self, owner: str, tokens: Mapping[str, int]) -> dict[str, Document]:
        """Those of the deliveries that are remembered, and forgets them."""
        found = {}
        for job_id, token in tokens.items():
            document = self._held.pop(job_id, None)
            if document is not None and (document["lock"], document["token"]) == (owner, token):
                found[job_id] = document
        return found
