"""The memory of accepted batches: what it answers, and that it stays as small as it says."""

from functory.intake.accepted_batches import AcceptedBatches
from functory.intake.job_options import PLAIN


def job_id(time_ms: int, counter: int) -> str:
    return f"{time_ms:013d}-0000abcd-{counter:06x}"


def test_a_job_is_found_in_its_batch_and_only_by_its_tenant() -> None:
    accepted = AcceptedBatches()
    accepted.note([job_id(5, n) for n in range(10, 20)], "acme-mail", PLAIN)
    found = accepted.find("acme", job_id(5, 13))
    assert found is not None
    assert found.jobtype == "acme-mail"
    assert accepted.find("globex", job_id(5, 13)) is None
    assert accepted.find("acme", job_id(5, 20)) is None
    assert accepted.find("acme", job_id(6, 13)) is None


def test_batches_of_one_moment_count_one_by_one() -> None:
    """Requests come many to a millisecond: a bound on milliseconds would bound nothing."""
    accepted = AcceptedBatches(max_batches=100)
    for time_ms in range(50):
        for counter in range(10):
            accepted.note([job_id(time_ms, counter)], "acme-mail", PLAIN)
    kept = [
        time_ms
        for time_ms in range(50)
        for counter in range(10)
        if accepted.find("acme", job_id(time_ms, counter)) is not None
    ]
    assert len(kept) <= 100
    assert set(kept) == set(range(40, 50))
