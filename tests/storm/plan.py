"""Which faults strike which deployment, in which order: a pure function of the seed, so that a seed replays."""

import random
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    KILL = "kill daemon"
    RESTART = "restart daemon in good order"
    FREEZE = "freeze daemon past its lease"
    KILL_CONTEXT = "kill context"
    FREEZE_CONTEXT = "freeze context past its lease"
    TORN_REQUEST = "drop connection in mid-request"
    UNREAD_ANSWER = "drop connection before the answer"
    FULL_DISK = "fill the disk"
    CLOCK_AHEAD = "step the clock ahead"
    CLOCK_BACK = "step the clock back"
    STORE_KILL = "kill the store's server"
    STORE_LINK = "cut the connections to the store"


_SHARED_STORE: Final = frozenset({Kind.STORE_KILL, Kind.STORE_LINK})


@dataclass(frozen=True, slots=True)
class Form:
    """One shape of the deployment."""

    name: str
    daemons: int
    store: str
    is_sandboxed: bool
    """Tenants' code in the sandbox, as users run it. Without one, handlers can tell an observer what they execute."""
    lease_s: float
    share: float
    """Its part of the jobs: MongoDB's tests run on a server that takes a tenth of what SQLite does."""
    straight: str = "on"
    """Whether jobs start before the store has them: on, off, or mixed."""

    @property
    def kinds(self) -> frozenset[Kind]:
        return frozenset(Kind) - (_SHARED_STORE if self.store == "sqlite" else frozenset())


FORMS: Final = (
    Form("sqlite-two", daemons=2, store="sqlite", is_sandboxed=False, lease_s=3.0, share=0.4),
    Form("sqlite-one", daemons=1, store="sqlite", is_sandboxed=True, lease_s=3.0, share=0.4),
    Form("mongodb-two", daemons=2, store="mongodb", is_sandboxed=False, lease_s=5.0, share=0.1),
    Form("mongodb-one", daemons=1, store="mongodb", is_sandboxed=True, lease_s=5.0, share=0.1),
)


OTHER_WAYS: Final = (
    Form("sqlite-mixed", daemons=2, store="sqlite", is_sandboxed=False, lease_s=3.0, share=0.1, straight="mixed"),
    Form("sqlite-long", daemons=1, store="sqlite", is_sandboxed=False, lease_s=3.0, share=0.1, straight="off"),
)
"""The same with other settings of the straight way, which is on otherwise. They have a plan of their own."""


class Fault(NamedTuple):
    number: int
    kind: Kind
    target: int
    """Which daemon, if it is about one."""
    size: float
    """0 to 1: how long, how far, how many, within what the kind allows."""


def make_plan(seed: int, count: int, forms: tuple[Form, ...] = FORMS) -> dict[str, list[Fault]]:
    """`count` faults over all forms. Every kind comes about equally often, so that a short storm has them all."""
    dice = random.Random(seed)
    used: Counter[Kind] = Counter()
    plan: dict[str, list[Fault]] = {}
    for index, form in enumerate(forms):
        kinds: list[Kind] = []
        for _ in range(count // len(forms) + (index < count % len(forms))):
            left = sorted(form.kinds)
            rarest = min(used[kind] for kind in left)
            kinds.append(dice.choice([kind for kind in left if used[kind] == rarest]))
            used[kinds[-1]] += 1
        dice.shuffle(kinds)
        plan[form.name] = [
            Fault(number, kind, dice.randrange(form.daemons), dice.random()) for number, kind in enumerate(kinds, 1)
        ]
    return plan
