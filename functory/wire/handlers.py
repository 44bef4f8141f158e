"""Handlers on the wire."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, UnsetType, field

from functory.wire.base import Answer, Encoding, Request, Version


class MethodQuery(Request):
    """`method` is the language; it may also be given as `lang`."""

    method: Annotated[str, Meta(max_length=32)] | None = None
    lang: Annotated[str, Meta(max_length=32)] | None = None
    upgrade: Annotated[bool, Meta(description="resolve its packages anew")] = False
    merge: Annotated[
        bool,
        Meta(description="fields that are not given stay, if the language does; workers replace no handler"),
    ] = False


class HandlerBody(Request):
    """What is registered. `handlers.validation` checks it; this is its description for clients."""

    lang: Literal["python", "node", "sh", "wasm", "php", "http", "worker"]
    body: Annotated[str, Meta(description="the code; base64 of a module for wasm, a URL for http, a text for worker")]
    before: Annotated[str, Meta(description="code that runs once in every new context")] | None = ""
    beforeEach: Annotated[str, Meta(description="code that runs before every batch")] | None = ""  # noqa: N815 (its name in JSON)
    afterEach: Annotated[str, Meta(description="code that runs after every batch")] | None = ""  # noqa: N815
    eid: Annotated[str, Meta(description="handlers with the same eid may share contexts")] | None = ""
    env: dict[str, str] = field(default_factory=dict)
    secrets: Annotated[list[str], Meta(max_length=16, description="names of secrets that the code gets")] = field(
        default_factory=list
    )
    timeout_s: Annotated[float, Meta(ge=0, le=2_592_000, description="per job")] = 60.0
    memory_mb: Annotated[int, Meta(ge=16, le=4096, description="per context")] = 128
    network: bool = False
    hosts: Annotated[
        list[str],
        Meta(max_length=32, description="what the code calls by name, such as api.example.org or *.x.org:8443"),
    ] = field(default_factory=list)
    returns: Annotated[Literal["value", "status"], Meta(description="what a returned whole number is")] = "value"
    then: Annotated[str, Meta(max_length=127, description="type that gets the result of jobs that ended ok")] = ""
    on_failure: Annotated[str, Meta(max_length=127, description="type that gets the result of jobs that failed")] = ""
    keep: Annotated[Literal["all", "failed", "none"], Meta(description="which ended jobs are kept")] = "all"
    domain: Annotated[str, Meta(max_length=255, description="rate domain of its jobs that name none")] = ""
    options: Annotated[dict[str, int], Meta(description="max_batch, max_per_key, max_wait_s, max_attempts, ...")] = (
        field(default_factory=dict)
    )
    lock: Annotated[dict[str, Any] | None, Meta(description="the lock of its packages, as it was shown")] = None
    entry: Annotated[str, Meta(max_length=240, description="of a folder: the file whose text is the body")] | None = ""
    tree: Annotated[str, Meta(max_length=64, description="of a folder: the digest of its files")] | None = ""


class VersionQuery(Request):
    """`format=tar` gives the files of a handler that is a folder."""

    version: Version | None = None
    format: Literal["json", "tar"] = "json"


class HandlerPackages(Answer):
    """How far they are on the daemon that answers: `ready`, `building`, `failed`, or `absent` until a job needs them.
    `text` is the step that is under way, or why it failed."""

    state: str
    text: str


class Handler(Answer):
    """One version, with all its fields under `handler`. `packages` is null if it asks for none."""

    type: str
    version: int
    created_ms: int
    author: str
    restored_from: int | None
    handler: dict[str, Any]
    packages: HandlerPackages | None = None


class HandlerRow(Answer):
    type: str
    version: int
    created_ms: int
    lang: str
    author: str
    restored_from: int | None
    size_bytes: int
    current: bool


class HandlerList(Answer):
    handlers: list[HandlerRow]


class RollbackBody(Request):
    version: Version


class InvokeBody(Request):
    """With `handler` that one is run, without storing it; otherwise the one in force for the type."""

    payload: Raw | UnsetType = UNSET
    payload_base64: Annotated[str, Meta(max_length=2_000_000)] | None = None
    handler: Annotated[Raw, Meta(extra_json_schema={"type": ["object", "null"]})] | UnsetType = UNSET


class NewJobLine(Answer):
    type: str
    payload: str
    payload_encoding: Encoding
    options: str = ""
    """As in a `J:` line, such as `unique=daily&delay_s=60`."""


class Invoked(Answer):
    """How the run went. Jobs that it would have made are shown and not queued."""

    code: str
    exitcode: int
    result: str
    result_encoding: Encoding
    log: str
    log_encoding: Encoding
    duration_ms: float
    isolation: str
    new_jobs: list[NewJobLine]
    carried: str | None = None
    """What it carries on: the payload of its next attempt or round."""
    carried_encoding: Encoding = "text"
