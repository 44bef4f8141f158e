"""What a storm found, in words: a table for people, and for a failure the seed and the history of the job."""

from pathlib import Path
from typing import Final

from tests.storm.campaign import Result
from tests.storm.records import history_of

BAR_S: Final = 5.0
"""Serving again after a fault, on a machine that has nothing else to do."""
_MOST_COMPLAINTS: Final = 5
_MOST_LINES: Final = 60


def summary(result: Result, seed: int) -> str:
    verdict, requests = result.verdict, result.story.requests
    facts = {
        "submitted": len(requests.submitted),
        "acknowledged": len(requests.acknowledged),
        "ended": len(result.story.rows),
        "lost": len(verdict.lost),
        "unexpected": len(verdict.unexpected),
        "doubled": len(verdict.doubled),
        "not one outcome": len(verdict.outcomes),
        "recovered": verdict.recovered,
        "redelivered": verdict.redelivered,
        "given back": verdict.given_back,
        "executed again": verdict.duplicated if result.story.executions is not None else "not observed",
    }
    lines = [
        "",
        f"storm {result.form.name}, seed {seed}, {len(result.recoveries)} faults:",
        "  " + ", ".join(f"{name} {value}" for name, value in facts.items()),
        f"  without a good answer: {requests.unanswered or 'none'}",
        f"  {'fault':36}{'times':>6}{'accepts again, most':>21}{'finishes again, most':>22}",
    ]
    for kind in sorted({recovery.kind for recovery in result.recoveries}):
        those = [recovery for recovery in result.recoveries if recovery.kind == kind]
        accepted_s, finished_s = max(it.accepted_s for it in those), max(it.finished_s for it in those)
        lines.append(f"  {kind:36}{len(those):6}{accepted_s:19.2f} s{finished_s:20.2f} s")
    late = sum(it.finished_s > BAR_S for it in result.recoveries)
    lines.append(f"  not within {BAR_S:g} s: {late} (a first start took {result.calm_s:.2f} s)")
    if not result.counted:
        lines.append("  the scoreboard's counters do not agree with the jobs")
    lines += [f"  left out on this machine: {kind}, {count} times" for kind, count in result.left_out.items()]
    return "\n".join(lines)


def complaint(result: Result, seed: int, records: Path) -> str:
    """The seed, what is wrong, and everything that any file says about the jobs concerned."""
    lines = [summary(result, seed), f"FUNCTORY_STORM_SEED={seed} replays it. The records are in {records}."]
    for name, id_, text in list(result.verdict.complaints())[:_MOST_COMPLAINTS]:
        payload = result.story.requests.acknowledged.get(id_, result.story.payloads.get(id_, ""))
        lines.append(f"{name}: {id_}: {text}")
        words = [id_] + ([f" {payload.partition('.')[0]} "] if payload else [])
        lines += [f"    {line}" for line in history_of(records, words)[:_MOST_LINES]]
    return "\n".join(lines)
