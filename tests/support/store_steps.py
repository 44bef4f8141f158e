"""What the machine that compares the stores with a model draws: jobs, outcomes, changes of schedules."""

import hypothesis.strategies as st

from store.base import Code, JobChange, NewJob, Outcome, Pause, Timing
from store.names import PRIORITIES
from tests.support.jobs import T0
from tests.support.schedules import HOURLY

JOBTYPES = ("acme-a", "acme-b", "zeta-a")
numbers = st.integers(0, 25)
payloads = st.sampled_from([b"", b"x", b"\x00" * 3000])
offsets = st.integers(-60, 120)
ages = st.integers(0, 300)
repeats = st.sampled_from(["", "", HOURLY, "0 9 * * *"])
said_again = st.frozensets(st.sampled_from(["data", "repeat", "priority", "due"]))
final_codes = st.sampled_from([Code.OK, Code.OK, Code.FAILED, Code.ABANDONED])


def job_id(number: int) -> str:
    return f"id-{number:03d}"


@st.composite
def new_jobs(draw: st.DrawFn, *, related: bool) -> NewJob:
    parents = st.sampled_from(["", ""]) | numbers.map(job_id)
    parent = draw(parents) if related else ""
    return NewJob(
        job_id(draw(numbers)),
        draw(st.sampled_from(JOBTYPES)),
        draw(payloads),
        dt_ms=draw(offsets),  # relative: the rule adds the clock
        create_ms=T0,
        priority=draw(st.sampled_from(PRIORITIES)),
        domain=draw(st.sampled_from(["", "", "slow"])),
        retry_after_ms=draw(st.sampled_from([None, None, 20])),
        indexed=draw(st.booleans()),
        unique=draw(st.sampled_from(["", "u1", "u2"])) if related else "",
        repeat="" if parent else draw(repeats),
        parent=parent,
    )


@st.composite
def outcomes(draw: st.DrawFn, codes: st.SearchStrategy[Code]) -> Outcome:
    code = draw(codes)
    return Outcome(
        code,
        {Code.RETRY: 100, Code.OK: 200, Code.FAILED: 400, Code.ERROR: 500}.get(code, 504),
        started_ms=T0,
        duration_us=draw(st.integers(0, 10**6)),
        result=draw(st.none() | payloads),
        log=draw(st.sampled_from([b"", b"log"])),
        message=draw(st.sampled_from(["", "ü" * 150])),
    )


@st.composite
def schedule_changes(draw: st.DrawFn) -> JobChange:
    """Its times are relative: see from_now_on. A pause and a resume never come together."""
    kind = draw(st.sampled_from(["pause", "pause", "resume", "extra", "extra", "anew", "repeat", "ending", "many"]))
    change = JobChange(at_rest=draw(st.booleans()) and kind != "pause")
    if kind in {"pause", "many"}:
        change = change._replace(pause=Pause(draw(offsets), draw(st.sampled_from(["k1", "k2"]))))
    if kind == "resume":
        change = change._replace(resume_ms=draw(offsets))
    if kind in {"extra", "anew", "many"}:
        timings = {"extra": [Timing.EXTRA], "anew": [Timing.ANEW]}.get(kind, list(Timing))
        change = change._replace(dt_ms=draw(offsets), timing=draw(st.sampled_from(timings)))
    if kind in {"repeat", "many"}:
        change = change._replace(repeat=draw(st.sampled_from(["", HOURLY, "0 9 * * *"])))
    if kind in {"anew", "many"}:
        change = change._replace(priority=draw(st.none() | st.sampled_from(PRIORITIES)))
    if kind == "ending":
        change = change._replace(ending_ms=draw(offsets))
    return change


def from_now_on(change: JobChange, now_ms: int) -> JobChange:
    times = {name: getattr(change, name) for name in ("dt_ms", "resume_ms", "ending_ms")}
    if change.pause is not None:
        change = change._replace(pause=change.pause._replace(since_ms=now_ms))
    return change._replace(**{name: now_ms + ms for name, ms in times.items() if ms is not None})
