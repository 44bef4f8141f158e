"""What a rule watches for, and whom it tells: as the store keeps it."""

from typing import Literal

import msgspec

When = Literal["failures", "waiting", "backlog", "silent", "no_worker", "quota"]


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a rule. Fields that this version does not know are passed over.

    failures    in the last window_s more than `more_than` runs failed; or, of at least `at_least` runs, a share above
                `share_above`
    waiting     a job has waited for more than longer_than_s
    backlog     more than `more_than` jobs wait
    silent      in the last window_s no job ended ok
    no_worker   jobs wait, and for longer_than_s no worker has asked for them, or their type has had no handler
    quota       the tenant has more than a share `share_above` of what it may have stored, or of its types
    """

    type: str
    """A type, or a GLOB pattern: then the figures of all types that it matches count together. `*` for a quota."""
    notify: str
    """The type of the jobs that tell of a change."""
    when: When
    more_than: int = 0
    share_above: float | None = None
    at_least: int = 1
    window_s: int = 0
    longer_than_s: int = 0
    for_s: int = 0
    """For how long the condition must hold before the rule fires."""
    calm_s: int = 60
    """For how long it must not hold before the rule is over."""
    since_ms: int = 0
    """Since when the rule has watched for this. Silence before that is not counted."""


def encode_terms(terms: Terms) -> str:
    return msgspec.json.encode(terms).decode()


def terms_from(text: str) -> Terms:
    """Raises msgspec.MsgspecError for what a newer version may have written."""
    return msgspec.json.decode(text, type=Terms)
