"""Types of the interface: alert rules of a tenant."""

from typing import Annotated, Literal

from msgspec import Meta

from functory.wire.base import Answer, Request, TimeMs, TypeName
from functory.wire.scoreboard import NamedTypes

When = Literal["failures", "waiting", "backlog", "silent", "no_worker", "quota"]
Phase = Literal["ok", "rising", "firing", "calming"]
Jobs = Annotated[int, Meta(ge=0, le=1_000_000_000)]
WindowSeconds = Annotated[int, Meta(ge=60, le=604_800)]


class AlertBody(Request):
    """A rule: when the condition holds for the type, or for all types that the pattern matches taken together, a job of
    the type `notify` is added, and another when it is over.

    `failures`: in the last `window_s` more than `more_than` runs failed; or, of at least `at_least` runs, a share above
    `share_above`. `waiting`: a job has waited for more than `longer_than_s`. `backlog`: more than `more_than` jobs
    wait. `silent`: in the last `window_s` no job ended ok. `no_worker`: jobs wait, and for `longer_than_s` no worker
    has asked for them, or there is no handler. `quota`: of a quota of the tenant, what is stored or its types, a share
    above `share_above` is used; `type` is `*`. It must hold for `for_s` to fire, and not hold for `calm_s` to be over.
    """

    type: NamedTypes
    notify: TypeName
    when: When
    more_than: Jobs = 0
    share_above: Annotated[float, Meta(ge=0, lt=1)] | None = None
    at_least: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 1
    window_s: WindowSeconds | None = None
    longer_than_s: Annotated[int, Meta(ge=1, le=31_536_000)] | None = None
    for_s: Annotated[int, Meta(ge=0, le=86_400)] = 0
    calm_s: Annotated[int, Meta(ge=60, le=86_400)] = 60


class Alert(Answer):
    """`state` is `rising` while the condition holds, but not for `for_s` yet, and `calming` while it fires and the
    condition does not hold any more. `since_ms`: in this state since. `fired_ms`: when it last began to fire. `value`:
    the figure then, in jobs, runs, a share or seconds. `trouble`: why a notification could not be added yet."""

    name: str
    type: str
    notify: str
    when: str
    condition: str
    more_than: int
    share_above: float | None
    at_least: int
    window_s: int
    longer_than_s: int
    for_s: int
    calm_s: int
    state: Phase
    since_ms: int
    fired_ms: int | None
    value: float
    muted_until_ms: int | None
    trouble: str
    created_ms: int
    author: str


class AlertList(Answer):
    now_ms: int
    alerts: list[Alert]


class AlertSet(Answer):
    created: bool


class MuteBody(Request):
    """For so long nothing is told; 0 ends that."""

    for_s: Annotated[int, Meta(ge=0, le=31_536_000)]


class AlertMuted(Answer):
    until_ms: TimeMs | None


class AlertTested(Answer):
    """The job of the notification."""

    id: str
