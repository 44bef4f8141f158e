"""The handler as a value: what a tenant registered for one jobtype, in memory and as JSON.

Owns the names: the JSON names are those of the HTTP interface (`beforeEach`), the attributes are Python's. A
`Handler` that exists has passed `handlers.validation` or came back from the store where only validated ones
are put; nothing here checks.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from handlers.packages import Lock

DEFAULT_TIMEOUT_S: Final = 60.0
DEFAULT_MEMORY_MB: Final = 128

VALUE: Final = "value"
STATUS: Final = "status"

KEEP_ALL: Final = "all"
KEEP_FAILED: Final = "failed"
KEEP_NONE: Final = "none"

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

# attribute -> JSON name; the order is the one in which a handler is shown.
JSON_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "lang": "lang",
        "body": "body",
        "before": "before",
        "before_each": "beforeEach",
        "after_each": "afterEach",
        "eid": "eid",
        "env": "env",
        "secrets": "secrets",
        "timeout_s": "timeout_s",
        "memory_mb": "memory_mb",
        "network": "network",
        "hosts": "hosts",
        "returns": "returns",
        "then": "then",
        "on_failure": "on_failure",
        "keep": "keep",
        "domain": "domain",
        "options": "options",
        "lock": "lock",
        "entry": "entry",
        "tree": "tree",
    }
)


@dataclass(frozen=True)
class Handler:
    """Code and limits for one jobtype. Two handlers with the same `version` behave alike."""

    lang: str
    body: str
    before: str = ""  # once per context
    before_each: str = ""  # once per batch
    after_each: str = ""  # once per batch; the batch's outcomes wait for it
    eid: str = ""  # handlers of one tenant with the same eid may share contexts
    env: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    secrets: tuple[str, ...] = ()  # names of the tenant's secrets that its contexts get, beside `env`
    timeout_s: float = DEFAULT_TIMEOUT_S  # per job
    memory_mb: int = DEFAULT_MEMORY_MB  # per context
    network: bool = False
    hosts: tuple[str, ...] = ()  # what its contexts may call through the daemon's proxy, as `handlers.hosts` writes it
    returns: str = VALUE  # what a returned whole number is: VALUE or STATUS
    then: str = ""  # the type that gets the result of a job that ended ok, as its payload
    on_failure: str = ""  # the type that gets that of a job that failed or was abandoned
    keep: str = KEEP_ALL  # which ended jobs are kept: KEEP_ALL, KEEP_FAILED or KEEP_NONE
    domain: str = ""  # the rate domain of its jobs that name none
    options: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    lock: Lock | None = None  # the packages that its text asks for, as they were resolved
    entry: str = ""  # of a folder: the file whose text is the body
    tree: str = ""  # of a folder: the digest of the list of its files (handlers.folders.manifest)

    def to_json(self) -> dict[str, Any]:
        """All fields under their JSON names, also those at their default."""
        out: dict[str, Any] = {}
        for attribute, name in JSON_NAMES.items():
            value = getattr(self, attribute)
            if isinstance(value, Lock):
                value = value.to_json()
            out[name] = (
                dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
            )
        return out

    @cached_property
    def version(self) -> str:
        """Sixteen hex digits that depend on every field and on nothing else."""
        return _digest(self.to_json())

    @cached_property
    def surroundings(self) -> str:
        """Digest of what a context is made of before it sees a body; sharers of an eid must agree on it."""
        packages = self.lock.digest if self.lock is not None else ""
        made_of = [self.lang, self.eid, self.before, dict(self.env), list(self.secrets), self.memory_mb, self.network]
        made_of = [*made_of, packages, list(self.hosts), *([self.tree] if self.tree else [])]
        return _digest(made_of if self.prints_jobs else [*made_of, "no printed jobs"])

    @cached_property
    def max_batch(self) -> int | None:
        """The tenant's own bound for the jobs of one batch."""
        return self.options.get("max_batch")

    @cached_property
    def max_per_key(self) -> int | None:
        """How many jobs with the same key may run at once; None: any number."""
        return self.options.get("max_per_key")

    @cached_property
    def max_wait_s(self) -> int | None:
        """How long after its time a job may start; None: however late."""
        return self.options.get("max_wait_s")

    @cached_property
    def lease_s(self) -> int | None:
        """How long a worker has a job without renewal, if it does not say so itself."""
        return self.options.get("lease_s")

    @cached_property
    def prints_jobs(self) -> bool:
        """Whether a printed line `J: type|payload` makes a job."""
        return bool(self.options.get("printed_jobs", 1))

    @cached_property
    def keeps_processes(self) -> bool:
        """Whether what a batch leaves running is frozen until the next one; otherwise it is ended."""
        return bool(self.options.get("keep_processes"))


def _digest(value: object) -> str:
    # surrogatepass: a lone surrogate in a body is odd but must not make registration fail with a stack trace.
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
