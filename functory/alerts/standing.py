"""How a rule stands, as the store keeps it beside the rule."""

from typing import Literal

import msgspec

Phase = Literal["ok", "rising", "firing", "calming"]
Told = Literal["firing", "resolved", "test"]


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A notification that is on its way. It is written together with the change that it tells of, and taken away when
    its job is added. Whoever repeats that in between, under the same key, adds nothing."""

    key: str
    at_ms: int
    payload: str


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """phase: `rising` holds, but not for long enough to fire; `calming` fires, and does not hold any more."""

    phase: Phase = "ok"
    since_ms: int = 0
    """When the phase began."""
    fired_ms: int = 0
    """When the rule last began to fire; 0: it never did."""
    value: float = 0
    """The figure that was compared when the phase began."""
    is_told: bool = False
    """Whether the last notification said that it fires."""
    muted_until_ms: int = 0
    notice: Notice | None = None
    trouble: str = ""
    """Why the job of the notice could not be added yet."""

    @property
    def is_firing(self) -> bool:
        return self.phase in {"firing", "calming"}


def encode_standing(standing: Standing) -> str:
    return msgspec.json.encode(standing).decode()


def standing_from(text: str) -> Standing:
    """What cannot be read counts as a rule that has just begun."""
    try:
        return msgspec.json.decode(text, type=Standing) if text else Standing()
    except (msgspec.MsgspecError, RecursionError):
        return Standing()
