"""One call of the runner: how jobs that were cancelled are reported."""

from handlers.model import Handler
from runner.launch import Level
from runner.outcome import Stopped
from runner.run import Run
from tests.support.engines import jobs
from vocabulary.new_job import NewJob


def test_what_a_cancelled_job_asks_for_is_not_done() -> None:
    """It stopped by itself before it was asked to: it was cancelled before, and that is how it ended."""
    batch = jobs("0", "1")
    seen: list[Stopped] = []
    call = Run("acme-test", Handler("python", "pass"), seen.extend, lambda: True, batch, 0)
    call.cancel(batch[0].id)
    more = NewJob("more", b"")
    call.stopped([Stopped(job.id, "ok", 200, b"z", b"said", 1.0, (more,), Level.L0, None, b"y") for job in batch])
    assert seen == [
        Stopped(batch[0].id, "cancelled", 499, b"cancelled", b"said", 1.0, (), Level.L0, None, None),
        Stopped(batch[1].id, "ok", 200, b"z", b"said", 1.0, (more,), Level.L0, None, b"y"),
    ]
