"""The mutants by area. To add one, add a row to the table of its area, and see it killed: `make mutants ONLY=name`."""

from tests.mutants.mutant import Mutant
from tests.mutants.tables import (
    alerts,
    bedrock,
    consumers,
    daemon,
    deleted,
    durability,
    egress,
    families,
    folders,
    held_up,
    http_handlers,
    job_limits,
    journal,
    late_jobs,
    making,
    operations,
    rate_domains,
    runner,
    sandbox,
    scheduler,
    schedules,
    store_consumers,
    store_mongo,
    store_sqlite,
    straight,
    sync,
    tenants,
    web,
    webhooks,
    workers,
)

AREAS: dict[str, list[Mutant]] = {
    "durability": durability.MUTANTS,
    "journal": journal.MUTANTS,
    "late_jobs": late_jobs.MUTANTS,
    "job_limits": job_limits.MUTANTS,
    "store_sqlite": store_sqlite.MUTANTS,
    "store_mongo": store_mongo.MUTANTS,
    "store_consumers": store_consumers.MUTANTS,
    "families": families.MUTANTS,
    "making": making.MUTANTS,
    "rate_domains": rate_domains.MUTANTS,
    "tenants": tenants.MUTANTS,
    "runner": runner.MUTANTS,
    "sandbox": sandbox.MUTANTS,
    "http_handlers": http_handlers.MUTANTS,
    "egress": egress.MUTANTS,
    "folders": folders.MUTANTS,
    "held_up": held_up.MUTANTS,
    "consumers": consumers.MUTANTS,
    "scheduler": scheduler.MUTANTS,
    "schedules": schedules.MUTANTS,
    "web": web.MUTANTS,
    "operations": operations.MUTANTS,
    "daemon": daemon.MUTANTS,
    "deleted": deleted.MUTANTS,
    "alerts": alerts.MUTANTS,
    "webhooks": webhooks.MUTANTS,
    "straight": straight.MUTANTS,
    "workers": workers.MUTANTS,
    "sync": sync.MUTANTS,
    "bedrock": bedrock.MUTANTS,
}


def choose(only: str) -> list[Mutant]:
    """All mutants, those of an area, or those whose file or name contains the words."""
    if only in AREAS:
        return AREAS[only]
    every = [mutant for mutants in AREAS.values() for mutant in mutants]
    return [mutant for mutant in every if only.lower() in f"{mutant.file} {mutant.name}".lower()]
