"""The parts that a service can be without: no workers, no consumers, no secrets, no packages, no straight way."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from functory.errors import Missing
from functory.workers.presence import Seen
from functory.workers.unasked import Unasked
from functory.workers.values import Answer, Delivery, Order, Report, Taken, Verdict
from handlers.packages import Lock, Wanted
from runner.errors import PackagesMissingError, SecretMissingError, SecretsLockedError
from runner.packages.source import Progress, State, Tell, nobody
from runner.secrets import GivenSecrets
from store.base import JobRecord, Secret, WaitingType

_NO_PACKAGES: Final = "this service installs no packages"


class NoStraight:
    """Every job takes the long way."""

    def is_here(self, job_id: str) -> bool:
        return False

    def look(self, tenant: str, job_id: str, now_ms: int) -> JobRecord | None:
        return None

    def just_ended(self, tenant: str, job_id: str, *, also_kept: bool) -> JobRecord | None:
        return None

    def awaiting(self, tenant: str, job_ids: Sequence[str]) -> AbstractContextManager[None]:
        return nullcontext()

    def hurry(self, jobtype: str) -> None:
        """Nothing waits here."""

    def unseen(self, tenant: str | None) -> dict[str, tuple[int, int]]:
        return {}


class NoWorkers:
    """No job is handed out: for services that serve no workers."""

    async def take(self, order: Order) -> list[Taken]:
        return []

    async def renew(self, tenant: str, deliveries: Sequence[Delivery], lease_ms: int | None = None) -> list[Verdict]:
        return [Verdict(each.id, Answer.UNKNOWN) for each in deliveries]

    async def report(
        self,
        tenant: str,
        reports: Sequence[Report],
        begun: Callable[[], None] | None = None,
    ) -> list[Verdict]:
        return [Verdict(each.delivery.id, Answer.UNKNOWN) for each in reports]

    async def give_back(self, tenant: str, deliveries: Sequence[Delivery], goodbye: str = "") -> list[Verdict]:
        return [Verdict(each.id, Answer.UNKNOWN) for each in deliveries]

    def moved(self, tenant: str, delivery: Delivery) -> None: ...

    async def seen(self, tenant: str) -> list[Seen]:
        return []

    def is_draining(self, tenant: str, name: str) -> bool:
        return False

    async def drain(self, tenant: str, name: str, *, drained: bool) -> None:
        """Nobody is there to drain."""

    def holder(self, tenant: str, delivery: Delivery) -> str:
        return ""

    def room(self, jobtype: str) -> int:
        return 0

    async def unasked(self, waiting: Iterable[WaitingType], running: Mapping[str, int]) -> list[Unasked]:
        return []

    async def unasked_now(self) -> list[Unasked]:
        return []

    async def unasked_of(self, tenant: str) -> list[Unasked]:
        return []


class NoConsumers:
    """Leads none."""

    def changed(self) -> None: ...

    def check(self, tenant: str, name: str) -> bool:
        return False


class NoVault:
    """No secret can be set: for services without keys."""

    def why_locked(self, tenant: str, names: tuple[str, ...]) -> str:
        return "this service keeps no secrets"

    async def put(self, blank: Secret, value: str) -> Secret:
        raise SecretsLockedError("this service keeps no secrets")

    async def list_set(self, tenant: str) -> list[Secret]:
        return []

    async def delete(self, tenant: str, name: str, now_ms: int) -> None:
        raise Missing(f"there is no secret {name}")

    async def missing(self, tenant: str, names: tuple[str, ...]) -> list[str]:
        return list(names)

    async def read(self, tenant: str, names: tuple[str, ...]) -> GivenSecrets:
        raise SecretMissingError("this service keeps no secrets")


class NoPackages:
    """No packages can be had: for services that install none."""

    async def lock(
        self,
        tenant: str,
        requirements: Wanted,
        *,
        anew: bool = False,
        tell: Tell = nobody,
    ) -> Lock:
        raise PackagesMissingError(_NO_PACKAGES)

    async def have(self, jobtype: str, lock: Lock, tell: Tell = nobody) -> object:
        raise PackagesMissingError(_NO_PACKAGES)

    async def known(self, tenant: str, lock: Lock) -> Progress:
        return Progress(State.ABSENT, _NO_PACKAGES)
