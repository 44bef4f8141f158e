"""The policies by name. A new one is a file, and a row here."""

from collections.abc import Callable
from typing import Final

from scheduler.deficit import DeficitRoundRobin
from scheduler.dice import RandomChoice
from scheduler.errors import UnknownPolicy
from scheduler.oldest import OldestFirst
from scheduler.policy import Policy
from scheduler.values import SchedulerOptions

POLICIES: Final[dict[str, Callable[[SchedulerOptions, Callable[[], float]], Policy]]] = {
    "deficit": lambda options, _roll: DeficitRoundRobin(options),
    "oldest": lambda options, _roll: OldestFirst(options),
    "random": RandomChoice,
}


def make_policy(name: str, options: SchedulerOptions, roll: Callable[[], float]) -> Policy:
    """The policy of that name. `roll` gives numbers in [0, 1) to those that use dice."""
    make = POLICIES.get(name)
    if make is None:
        raise UnknownPolicy(f"there is no policy {name!r:.80}; there are: {', '.join(POLICIES)}")
    return make(options, roll)
