"""Refusals that every back end makes alike, once it has read what they are about."""

from store.errors import Conflict
from store.values.consumers import ConsumerRecord
from store.values.job_changes import JobChange, Timing
from store.values.jobs import NewJob


def check_holder(job: NewJob, holder_id: str, parent: str, *, is_running: bool, is_ending: bool) -> None:
    """Whether `job` may replace what a live job with its unique name is to do. is_running: and that one has something
    else to do. is_ending: that one is being cancelled. Raises Conflict."""
    if is_ending:
        raise Conflict(
            f"the unique name {job.unique!r} is taken by job {holder_id}, which is being cancelled:"
            " add the job again in a moment"
        )
    if parent != job.parent:
        whose = f"a child of job {parent}" if parent else "not a child of any job"
        raise Conflict(
            f"the unique name {job.unique!r} is taken by job {holder_id}, which is {whose}: choose another name"
        )
    if is_running:
        raise Conflict(
            f"the unique name {job.unique!r} is taken by job {holder_id}, which is running with its payload:"
            " add the job when it has ended"
        )


def check_append(consumer: ConsumerRecord, job: NewJob, seq: int, last: int) -> None:
    """Whether a job may get this number of a pulled consumer, whose last number is this. Raises Conflict."""
    if not consumer.is_pulled:
        raise Conflict(f"consumer {consumer.name} is not pulled: jobs of its type get their numbers by themselves")
    if job.jobtype != consumer.jobtype:
        raise Conflict(f"consumer {consumer.name} works on {consumer.jobtype}, and not on {job.jobtype}")
    if seq > last + 1:
        raise Conflict(f"the next number of {consumer.jobtype} is {last + 1}, and not {seq}")


def check_start(consumer: ConsumerRecord, start_index: int | None, last: int) -> None:
    """Whether a new consumer may begin there, if this is the last number of its type. Raises Conflict."""
    if consumer.is_pulled and start_index is not None and start_index <= last:
        raise Conflict(
            f"the numbers of {consumer.jobtype} up to {last} are given, and would count as pulled: the lowest"
            f" start_index is {last + 1}. Leave it out to go on where progress stands, or pull into another type"
        )


def check_cancel(job_id: str, *, is_running: bool, has_ended: bool) -> None:
    """Whether a job can be ended without having run: to cancel it, or to delete it. is_running: and that keeps it from
    that. Raises Conflict."""
    if is_running:
        raise Conflict(f"job {job_id} is running: cancel it, or wait until it has ended")
    if has_ended:
        raise Conflict(f"job {job_id} has ended: there is nothing to cancel")


def check_update(job_id: str, change: JobChange, delivery: int | None, *, repeat: str, has_ended: bool) -> None:
    """Whether a job can be changed so. delivery: the token of its current one, if it is running. Raises Conflict."""
    if has_ended:
        raise Conflict(f"job {job_id} is archived: it cannot be changed, only replayed")
    if change.token is not None and change.token != delivery:
        raise Conflict(f"job {job_id}: token {change.token} is not that of its current delivery")
    if delivery is not None and change.needs_rest:
        raise Conflict(f"job {job_id} is running: it cannot be changed now")
    if not repeat and (change.repeat or change.pause is not None or change.timing is Timing.EXTRA):
        raise Conflict(f"job {job_id} does not repeat: it has no schedule that could be changed or paused")


def check_extra(job_id: str, *, is_between_rounds: bool) -> None:
    """Whether a job can have a round beside the regular ones. Raises Conflict."""
    if not is_between_rounds:
        raise Conflict(f"job {job_id} is not between two rounds: one is due already, or has begun")


def check_move(
    job_id: str, token: int | None, delivery: int | None, *, is_at_rest: bool, is_bound: bool, is_consumed: bool
) -> None:
    """Whether a job can become one of another type. token: of the delivery that asks for it; delivery: the token of its
    current one, if it is running; is_consumed: that type has a consumer, and its jobs have numbers. Raises Conflict."""
    if token is not None and token != delivery:
        raise Conflict(f"job {job_id}: token {token} is not that of its current delivery")
    if token is None and not is_at_rest:
        raise Conflict(f"job {job_id} is running or paused: it cannot get another type now")
    if is_bound:
        raise Conflict(f"job {job_id} has a unique name or a number, which are of its type: it cannot get another one")
    if is_consumed:
        raise Conflict(f"job {job_id} has no number, which that type needs for its consumer: add a new job there")


def check_family(job_id: str, *, is_being_cancelled: bool) -> None:
    """Whether a job that ended can be queued again: not while its children are being cancelled. Raises Conflict."""
    if is_being_cancelled:
        raise Conflict(f"job {job_id} has ended, and its children are still being cancelled: try again in a moment")
