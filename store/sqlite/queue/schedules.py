"""Changes of what is kept of a job that repeats, by its tenant: its pattern, its next round, a pause."""

from typing import Final

from store.refusals import check_extra
from store.sqlite.file.schema import QUEUED, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.endings import Row, enter_place, keep_schedule, move_next_round
from store.sqlite.queue.row_changes import leave, queued_state
from store.sqlite.queue.rows import decode_schedule
from store.values.job_changes import JobChange, Timing
from store.values.schedules import Standing, planned

ANEW: Final = (
    f"UPDATE jobs SET attempts = 0, begun = NULL, planned = NULL, history = NULL WHERE n = ? AND state {QUEUED}"
)
"""A round that begins anew."""


def change_schedule(tx: Tx, row: Row, change: JobChange, now_ms: int) -> None:
    """Of a job that is not over. One that runs, or waits for children, stays where it is."""
    schedule = decode_schedule(row.schedule)
    in_queue, on_hold = row.state <= State.DEFERRED, row.state == State.HELD and schedule.pause is not None
    has_begun = row.attempts > 0 or row.planned is not None
    if change.timing is Timing.EXTRA:
        is_due = in_queue and row.due <= now_ms
        check_extra(row.id, is_between_rounds=(in_queue or on_hold) and not has_begun and not is_due)
    plan = planned(schedule, change, Standing(in_queue, on_hold, has_begun, row.due))
    keep_schedule(tx, row.n, plan.schedule)
    if plan.is_anew:
        tx.conn.execute(ANEW, (row.n,))
    if change.dt_ms is not None and row.state == State.BLOCKED and not has_begun:
        move_next_round(tx, row.id, change.dt_ms)
    if change.repeat is not None:
        tx.conn.execute("UPDATE jobs SET repeat = ? WHERE n = ?", (change.repeat, row.n))
    state = row.state
    if in_queue or on_hold:
        state = State.HELD if plan.on_hold else queued_state(plan.due_ms, now_ms)
    if (state, plan.due_ms) != (row.state, row.due):
        tx.conn.execute("UPDATE jobs SET state = ?, due = ? WHERE n = ?", (state, plan.due_ms, row.n))
        if state != row.state or state <= State.DEFERRED:
            leave(tx, row.state, row.type, row.lane)
            enter_place(tx, state, row.type, row.lane, plan.due_ms)
