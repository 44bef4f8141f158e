"""Consumers of the tenant acme, and what they work through, short to write."""

from typing import Any

from functory.consumers.terms import Terms
from functory.daemon.daemon import Daemon
from functory.intake.job_options import JobOptions
from functory.operations import consumers
from functory.operations.consumers import Standing
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.tenant_limits import TenantLimits
from tests.support.polling import until

WHO = Principal("test", "acme", frozenset({"manage", "read", "submit"}), TenantLimits())
OK = "return payload"


async def put(service: Service, name: str = "verify", source: str = "block", **settings: Any) -> bool:
    start_index = settings.pop("start_index", None)
    return await consumers.put_consumer(service, WHO, name, source, Terms(**settings), start_index)


async def add(daemon: Daemon, payloads: list[bytes], source: str = "block") -> list[str]:
    return await daemon.intake.write(f"acme-{source}", payloads, JobOptions())


async def standing_at(service: Service, processed: int, name: str = "verify") -> Standing:
    """The consumer, once it has come so far."""

    async def look() -> Standing | None:
        standing = await consumers.get_consumer(service, "acme", name)
        return standing if standing.report.processed >= processed else None

    return await until(look)


async def blocked_by(service: Service, code: str) -> Standing:
    """The consumer, once an index blocks it that ended so."""

    async def look() -> Standing | None:
        standing = await consumers.get_consumer(service, "acme", "verify")
        return standing if [it.code for it in standing.note.blocked] == [code] else None

    return await until(look)
