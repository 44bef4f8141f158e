"""Changes of what is kept of a job that repeats, by its tenant: its pattern, its next round, a pause."""

from typing import Final

from store.refusals import check_extra
from store.sqlite.file.schema import State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.endings import Row, enter_place, get_next_round, keep_schedule, move_next_round
from store.sqlite.queue.row_changes import leave, queued_state
from store.sqlite.queue.rows import decode_schedule
from store.values.job_changes import JobChange, Timing
from store.values.schedules import Standing, planned

_ANEW: Final = "UPDATE jobs SET attempts = 0, begun = NULL, planned = NULL, history = NULL WHERE n = ?"
"""A round that begins anew."""


def change_schedule(tx: Tx, row: Row, change: JobChange, now_ms: int) -> None:
    """Of a job that is not over. One that runs, or waits for children, stays where it is."""
    schedule = decode_schedule(row.schedule)
    in_queue, on_hold = row.state <= State.DEFERRED, row.state == State.HELD and schedule.pause is not None
    has_begun = row.attempts > 0 or row.planned is not None
    if change.timing is Timing.EXTRA:
        is_due = in_queue and row.due <= now_ms
        check_extra(row.id, is_between_rounds=(in_queue or on_hold) and not has_begun and not is_due)
    next_ms = get_next_round(tx, row.id) if row.state == State.BLOCKED and not has_begun else None
    due_ms = row.due if next_ms is None else next_ms
    plan = planned(schedule, change, Standing(in_queue, on_hold, has_begun, due_ms))
    keep_schedule(tx, row.n, plan.schedule)
    if plan.is_anew and (in_queue or on_hold):
        tx.conn.execute(_ANEW, (row.n,))
    if next_ms is not None:
        move_next_round(tx, row.id, plan.due_ms)
    if change.repeat is not None and row.repeat is not None:
        tx.conn.execute("UPDATE jobs SET repeat = ? WHERE n = ?", (change.repeat, row.n))
    state = row.state
    if in_queue or on_hold:
        state = State.HELD if plan.on_hold else queued_state(plan.due_ms, now_ms)
    if (state, plan.due_ms) != (row.state, due_ms):
        tx.conn.execute("UPDATE jobs SET state = ?, due = ? WHERE n = ?", (state, plan.due_ms, row.n))
        if state != row.state or state <= State.DEFERRED:
            leave(tx, row.state, row.type, row.lane)
            enter_place(tx, state, row.type, row.lane, plan.due_ms)
