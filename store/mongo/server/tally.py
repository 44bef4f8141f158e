"""What a change of a job means for the counters: effects per job, summed into updates of counter documents.

Pure. The ledger decides when, and ensures that each effect is counted once.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from store.values.histogram import cell_of
from store.values.jobs import Outcome
from store.values.scoreboard import RESOLUTIONS


class Effect(NamedTuple):
    """How the counters of a jobtype change with one job.

    live: jobs that are not archived. deferred: those counted as deferred. blocked: those paused. jobs and
    size_bytes: all that is stored. code, when not "", is what ended now; run says that it ended a run, which
    took duration_us and started wait_us after it could. key is that of the job. domain, if it has no key and enters
    the queue, is its rate domain; then it has this priority and is not due before due_ms.
    """

    jobtype: str
    job_id: str
    live: int = 0
    deferred: int = 0
    blocked: int = 0
    jobs: int = 0
    size_bytes: int = 0
    code: str = ""
    run: bool = False
    duration_us: int = 0
    wait_us: int = 0
    fingerprint: str = ""
    message: str = ""
    key: str = ""
    domain: str = ""
    priority: int = 0
    due_ms: int = 0


def entering(effect: Effect, document: Mapping[str, Any], due_ms: int = 0) -> Effect:
    """The effect, and that the job of the document enters the queue."""
    domain: str | None = document.get("dom")
    return effect._replace(domain=domain, priority=document["prio"], due_ms=due_ms) if domain else effect


def of_run(effect: Effect, outcome: Outcome, since_ms: int) -> Effect:
    """The effect, and that a run ended with this outcome. since_ms: when it could have started."""
    return effect._replace(
        code=outcome.code.value,
        run=True,
        duration_us=outcome.duration_us,
        wait_us=max(outcome.started_ms - since_ms, 0) * 1000,
        fingerprint=outcome.fingerprint,
        message=outcome.message,
    )


def type_key(jobtype: str) -> str:
    return f"t|{jobtype}"


def bucket_key(jobtype: str, width_ms: int, start_ms: int) -> str:
    return f"b|{width_ms}|{start_ms}|{jobtype}"


def failure_key(jobtype: str, fingerprint: str) -> str:
    return f"f|{jobtype}|{fingerprint}"


def updates_of(effects: Iterable[Effect], now_ms: int) -> dict[str, dict[str, dict[str, Any]]]:
    """Per counter document, the update that adds the effects to it. None of it is empty."""
    updates: dict[str, dict[str, dict[str, Any]]] = {}
    for effect in effects:
        counts = _opened(updates, type_key(effect.jobtype), {"k": "t", "type": effect.jobtype})["$inc"]
        for field in ("live", "deferred", "blocked", "jobs", "size_bytes"):
            if amount := getattr(effect, field):
                counts[field] = counts.get(field, 0) + amount
        if effect.code:
            counts[effect.code] = counts.get(effect.code, 0) + 1
            _count_in_buckets(updates, effect, now_ms)
        if effect.fingerprint:
            _count_failure(updates, effect, now_ms)
    for update in updates.values():
        if not update["$inc"]:
            del update["$inc"]
    return updates


def _opened(updates: dict[str, dict[str, dict[str, Any]]], key: str, made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    update = updates.get(key)
    if update is None:
        update = updates[key] = {"$inc": {}, "$setOnInsert": made}
    return update


def _count_in_buckets(updates: dict[str, dict[str, dict[str, Any]]], effect: Effect, now_ms: int) -> None:
    for width_ms in RESOLUTIONS:
        start_ms = now_ms - now_ms % width_ms
        made = {"k": "b", "type": effect.jobtype, "width": width_ms, "start": start_ms}
        counts = _opened(updates, bucket_key(effect.jobtype, width_ms, start_ms), made)["$inc"]
        fields = {effect.code: 1}
        if effect.run:
            fields |= {
                "runner_us": effect.duration_us,
                f"duration.{cell_of(effect.duration_us)}": 1,
                f"wait.{cell_of(effect.wait_us)}": 1,
            }
        for field, amount in fields.items():
            counts[field] = counts.get(field, 0) + amount


def _count_failure(updates: dict[str, dict[str, dict[str, Any]]], effect: Effect, now_ms: int) -> None:
    made = {"k": "f", "type": effect.jobtype, "fingerprint": effect.fingerprint, "first": now_ms}
    update = _opened(updates, failure_key(effect.jobtype, effect.fingerprint), made)
    update["$inc"]["runs"] = update["$inc"].get("runs", 0) + 1
    update["$set"] = {"message": effect.message, "example": effect.job_id, "last": now_ms}
