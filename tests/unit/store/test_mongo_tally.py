"""Effects of single jobs become one update per counter document."""

from store.base import Code, Outcome
from store.mongo.server.tally import Effect, bucket_key, failure_key, of_run, type_key, updates_of
from store.values.histogram import cell_of
from store.values.scoreboard import DAY_MS, HOUR_MS, MINUTE_MS

NOW_MS = 1_800_000_061_234


def ended(job_id: str, code: Code, duration_us: int) -> Effect:
    outcome = Outcome(code, 500, started_ms=NOW_MS - 10, duration_us=duration_us, fingerprint="f", message=job_id)
    return of_run(Effect("acme-a", job_id, live=-1, size_bytes=5), outcome, since_ms=NOW_MS - 30)


def test_effects_of_one_type_are_one_update() -> None:
    effects = [Effect("acme-a", "1", live=1, jobs=1, size_bytes=10), Effect("acme-a", "2", live=1, deferred=1, jobs=1)]
    (key,) = updates = updates_of(effects, NOW_MS)
    assert key == type_key("acme-a")
    assert updates[key]["$inc"] == {"live": 2, "jobs": 2, "size_bytes": 10, "deferred": 1}


def test_a_run_counts_in_every_width_of_bucket_and_in_its_failure_group() -> None:
    updates = updates_of([ended("1", Code.ERROR, 100), ended("2", Code.ERROR, 100)], NOW_MS)
    keys = {bucket_key("acme-a", w, NOW_MS - NOW_MS % w) for w in (MINUTE_MS, HOUR_MS, DAY_MS)}
    assert updates.keys() == keys | {type_key("acme-a"), failure_key("acme-a", "f")}
    for key in keys:
        counts = updates[key]["$inc"]
        assert counts == {
            "error": 2,
            "runner_us": 200,
            f"duration.{cell_of(100)}": 2,
            f"wait.{cell_of(20_000)}": 2,
        }
    group = updates[failure_key("acme-a", "f")]
    assert group["$inc"] == {"runs": 2}
    assert group["$set"] == {"message": "2", "example": "2", "last": NOW_MS}


def test_an_end_without_a_run_has_no_duration() -> None:
    updates = updates_of([Effect("acme-a", "1", live=-1, code=Code.CANCELLED.value)], NOW_MS)
    assert updates[bucket_key("acme-a", DAY_MS, NOW_MS - NOW_MS % DAY_MS)]["$inc"] == {"cancelled": 1}


def test_nothing_is_no_update_and_an_idle_effect_changes_no_number() -> None:
    assert updates_of([], NOW_MS) == {}
    assert "$inc" not in updates_of([Effect("acme-a", "1")], NOW_MS)[type_key("acme-a")]
