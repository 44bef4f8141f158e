"""Verbs on contents: pieces of the files of handlers that are folders, by what they hold."""

import abc
from collections.abc import Sequence

from store.values.records import Content, ContentSummary


class ContentShelf(abc.ABC):
    """Pieces of a tenant by their digest, each kept once however many versions refer to it.

    The store does not know which piece refers to which: `touched_ms` says when a piece was last needed, and whoever
    collects what nothing refers to leaves alone what was touched lately.
    """

    @abc.abstractmethod
    async def put_contents(self, tenant: str, contents: Sequence[Content]) -> None:
        """Keep pieces; one that is there already is touched. Idempotent. Raises InvalidValue: a piece over
        MAX_CONTENT_BYTES, what is no digest, more than MAX_CONTENTS_AT_ONCE."""

    @abc.abstractmethod
    async def touch_contents(self, tenant: str, digests: Sequence[str], *, now_ms: int) -> list[str]:
        """Those of them that are there, in order; they count as touched now. Idempotent."""

    @abc.abstractmethod
    async def get_contents(self, tenant: str, digests: Sequence[str]) -> list[Content]:
        """Those of them that are there, in order of digest. The caller bounds their bytes."""

    @abc.abstractmethod
    async def list_contents(self, tenant: str, *, after: str = "", limit: int = 1000) -> list[ContentSummary]:
        """In order of digest, from the one that follows `after`."""

    @abc.abstractmethod
    async def list_content_tenants(self) -> list[str]:
        """The tenants that have contents, in order."""

    @abc.abstractmethod
    async def remove_contents(self, tenant: str, digests: Sequence[str], *, before_ms: int) -> int:
        """Remove those of them that were last touched before that time. Returns how many. Idempotent."""

    @abc.abstractmethod
    async def list_trees(self, tenant: str) -> list[str]:
        """The trees that versions of the tenant's handlers refer to, each once, in order; deleted handlers' too."""
