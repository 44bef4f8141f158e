"""What a consumer of the service is told, and what its leader writes down: as the store keeps them."""

from typing import Literal

import msgspec

OnFailed = Literal["block", "skip"]


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a consumer. Fields that this version does not know are passed over."""

    max_processing: int = 100
    max_search_ahead: int = 1000
    on_failed: OnFailed = "block"
    start_index: int | None = None
    """Where it began, if that was said."""
    pull: str = ""
    """The type whose handler is asked for the jobs; "": they are posted."""
    next_type: str = ""
    """The type of the next stage of a pipeline; "": none."""
    max_lag: int = 1000
    """Nothing new starts while the next stage has more than this left to do."""
    on_progress: str = ""
    """The type of the jobs that tell of progress; "": none."""


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """An index whose job did not end well. The job is tried again at next_ms, or not at all if that is 0."""

    index: int
    job_id: str
    code: str
    since_ms: int
    tries: int
    next_ms: int
    why: str = ""
    """Why the job was not queued when it was to be tried again."""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    job_id: str
    code: str
    at_ms: int


class Note(msgspec.Struct, kw_only=True):
    """What a leader leaves to the next. blocked and skipped have only a few: the lowest, and the last."""

    told: int = 0
    """The last index that a job was told of."""
    has_held: bool = False
    """Jobs that were in the queue before the consumer are held."""
    trouble: str = ""
    """What is wrong with the source that is pulled."""
    skips: int = 0
    """Indexes that were skipped so far."""
    skipped: list[Skipped] = []
    blocks: int = 0
    """Indexes that block now."""
    blocked: list[Blocked] = []


def encode(value: Terms | Note) -> str:
    return msgspec.json.encode(value).decode()


def terms_from(text: str) -> Terms:
    """Raises msgspec.MsgspecError for what a newer version may have written."""
    return msgspec.json.decode(text, type=Terms)


def note_from(text: str) -> Note:
    """What cannot be read is as good as nothing: a note only spares work."""
    try:
        return msgspec.json.decode(text, type=Note) if text else Note()
    except msgspec.MsgspecError:
        return Note()
