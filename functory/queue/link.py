"""What a queue asks of the other side, in process or remote. Values only."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from functory.wire.add_options import AddOptions
from functory.workers.values import Delivery, Report, Verdict, Worker


class Given(NamedTuple):
    """A job as it was handed out. lease_s: from now on. timeout_s None: it can be held as long as it is renewed."""

    id: str
    token: int
    type: str
    payload: bytes
    attempts: int
    lease_s: float
    timeout_s: float | None
    is_renewable: bool
    children: Sequence[Mapping[str, Any]] = ()
    follows: Mapping[str, str] | None = None


class Batch(NamedTuple):
    """drain: this worker gets no more jobs, and should stop."""

    jobs: list[Given]
    drain: bool


class Wish(NamedTuple):
    """Which jobs, how many, how long to wait for the first; lease_s None: as the type says."""

    types: tuple[str, ...]
    limit: int
    wait_s: float
    lease_s: float | None
    worker: Worker


class Link(Protocol):
    """Raises ServerUnreachable or another FunctoryError, StoreUnavailable, or JournalUnavailable; `take`, `add` and
    `register` what refusals.py lists."""

    async def take(self, wish: Wish) -> Batch: ...

    async def renew(self, deliveries: Sequence[Delivery], lease_s: float | None) -> list[Verdict]: ...

    async def report(self, reports: Sequence[Report]) -> list[Verdict]: ...

    async def give_back(self, deliveries: Sequence[Delivery], goodbye: str) -> list[Verdict]: ...

    async def add(self, job_type: str, payloads: Sequence[bytes], options: AddOptions) -> list[str]: ...

    async def register(self, job_type: str, fields: Mapping[str, object]) -> None:
        """Have a type served by workers. Fields that are not given stay as they are; a handler in another language is
        not replaced: Conflict."""

    async def language(self, job_type: str) -> str | None:
        """Of the handler of a type; None if it has none, and "" if that may not be known here."""

    async def worker_types(self) -> list[str] | None:
        """The types that workers serve; None if that may not be known here."""

    async def close(self) -> None: ...
