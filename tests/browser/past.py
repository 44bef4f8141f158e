"""An hour that never was: tenants, handlers and thousands of jobs written into a store as if daemons had run them.

The store takes the time as an argument, so an hour of work takes seconds. Seeded: the same pictures every time.
"""

import json
import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from functory.execution.failure_message import fingerprint
from store.base import (
    Archive,
    Code,
    ConsumerRecord,
    NewHandler,
    NewJob,
    Outcome,
    Release,
    Retry,
    Store,
    Tenant,
    WindowMove,
)
from store.values.scoreboard import MINUTE_MS

SYSID: Final = "a1"
AUTHOR: Final = "k3x9q2m7p1zd"


class Kind(NamedTuple):
    """A type of job: its handler's versions (the last is in force), how busy it is, and how it fails."""

    tenant: str
    name: str
    lang: str
    bodies: tuple[str, ...]
    per_minute: float
    typical_ms: float
    payload: str
    result: str = ""
    bad_share: float = 0.0
    bad_since_min: int = 60
    retry_share: float = 0.0
    message: str = ""
    waiting: int = 0
    deferred: int = 0
    paused: bool = False


_THUMB: Final = """import json
order = json.loads(payload)
width, height = order["size"]
return {"thumb": order["url"], "pixels": width * height}
"""
_THUMB_2: Final = """import json
order = json.loads(payload)
size = order["size"]
print("resizing", order["url"])
return {"thumb": order["url"], "pixels": size["width"] * size["height"]}
"""
_SLOW: Final = "import time\ntime.sleep(%s)\nreturn {'done': True}\n"

KINDS: Final = (
    Kind(
        "acme",
        "thumbnail",
        "python",
        (_THUMB, _THUMB_2),
        per_minute=34,
        typical_ms=42,
        payload='{"id": %d, "url": "s3://media/%d.jpg", "size": [320, 200]}',
        result='{"thumb": "s3://media/%d-320.webp"}',
        bad_share=0.31,
        bad_since_min=18,
        retry_share=0.01,
        message="TypeError: list indices must be integers or slices, not str",
    ),
    Kind(
        "acme",
        "mail.send",
        "python",
        ("return {'sent': True}\n",),
        per_minute=61,
        typical_ms=8,
        payload='{"to": "user%d@example.org", "template": "receipt-%d"}',
        result='{"sent": true}',
        bad_share=0.004,
        retry_share=0.03,
        message="ValueError: 'user@' is not an address",
        deferred=40,
    ),
    Kind(
        "acme",
        "invoice.render",
        "node",
        ("const { invoice } = JSON.parse(payload);\nreturn { pdf: `s3://invoices/${invoice}.pdf` };\n",),
        per_minute=14,
        typical_ms=210,
        payload='{"invoice": %d, "customer": %d}',
        result='{"pdf": "s3://invoices/%d.pdf"}',
        bad_share=0.01,
        message="Error: template 'reverse-charge' is missing",
    ),
    Kind(
        "acme",
        "webhook.deliver",
        "python",
        (_SLOW % 0.09,),
        per_minute=45,
        typical_ms=95,
        payload='{"event": "order.paid", "order": %d}',
        retry_share=0.09,
        deferred=118,
    ),
    Kind(
        "acme",
        "search.index",
        "python",
        (_SLOW % 0.3,),
        per_minute=88,
        typical_ms=310,
        payload='{"doc": %d, "rev": %d}',
        result='{"indexed": 1}',
        waiting=2400,
    ),
    Kind("acme", "report.nightly", "sh", ("cat\n",), per_minute=0.3, typical_ms=4200, payload='{"day": %d}'),
    Kind("acme", "legacy.sync", "python", (), per_minute=0, typical_ms=10, payload='{"row": %d}', waiting=31),
    Kind("acme", "transcode", "wasm", (), per_minute=0, typical_ms=10, payload='{"n": %d}', waiting=4, paused=True),
    Kind(
        "globex",
        "crawl",
        "python",
        (_SLOW % 0.5,),
        per_minute=72,
        typical_ms=530,
        payload='{"page": %d, "depth": %d}',
        result='{"links": 14}',
        bad_share=0.03,
        retry_share=0.05,
        message="TimeoutError: example.com took longer than 10 s",
        waiting=1830,
        deferred=60,
    ),
    Kind("globex", "classify", "python", ("return 'b'\n",), per_minute=25, typical_ms=61, payload='{"text": %d}'),
    Kind(
        "initech",
        "tps.report",
        "php",
        ("return 'done';\n",),
        per_minute=6,
        typical_ms=340,
        payload='{"cover": %d, "sheet": %d}',
        result="done",
        bad_share=0.08,
        message="Exception: cover sheet is missing",
    ),
)

TENANTS: Final = (("acme", 3, ""), ("globex", 2, '{"max_jobs":50000,"max_handlers":20}'), ("initech", 1, ""))


async def live_through_an_hour(store: Store, now_ms: int) -> str:
    """Everything up to now; the id of a job of acme that failed a moment ago."""
    dice = random.Random(7)
    began_ms = now_ms - 60 * MINUTE_MS
    for name, weight, limits in TENANTS:
        await store.create_tenant(Tenant(name, began_ms, weight, limits))
    for kind in KINDS:
        await _register(store, kind, began_ms)
    example = ""
    for minute in range(60):
        for kind in KINDS:
            ended = await _run_minute(store, kind, minute, began_ms + minute * MINUTE_MS, now_ms, dice)
            example = ended or example
    for kind in KINDS:
        await _leave(store, kind, now_ms, dice)
    await _consume(store, now_ms)
    return example


async def _consume(store: Store, now_ms: int) -> None:
    """A consumer that is stopped, with a window in which something of everything is seen."""
    await store.set_consumer(ConsumerRecord("acme", "verify", "acme-block", "{}", now_ms))
    jobs = [NewJob(f"verify-{n:04d}", "acme-block", b"%d" % n, now_ms, now_ms) for n in range(60)]
    await store.add_jobs(jobs, now_ms=now_ms)
    (led,) = await store.lead_consumers(SYSID, lease_ms=1, now_ms=now_ms)
    move = WindowMove("acme", "verify", led.token, 0, 40, 0, skip_failed=False, note="")
    await store.move_window(move, now_ms=now_ms)
    claimed = await store.claim_jobs("acme-block", 40, owner=SYSID, lease_ms=60_000, now_ms=now_ms)
    codes = {12: Code.FAILED, 13: None, 30: None, 31: None, 39: None}
    ends = [(job, codes.get(number, Code.OK)) for number, job in enumerate(claimed)]
    outcomes = [(job, Outcome(code, 200 if code is Code.OK else 400, now_ms)) for job, code in ends if code]
    await store.release_jobs(SYSID, [Archive(job.id, job.token, it) for job, it in outcomes], now_ms=now_ms)
    await store.move_window(move._replace(processed=40), now_ms=now_ms)
    await store.set_consumer_running("acme", "verify", running=False)


async def _register(store: Store, kind: Kind, began_ms: int) -> None:
    jobtype = f"{kind.tenant}-{kind.name}"
    for number, body in enumerate(kind.bodies):
        document = json.dumps({"lang": kind.lang, "body": body}).encode()
        at_ms = began_ms + number * 41 * MINUTE_MS
        await store.set_handler(kind.tenant, NewHandler(jobtype, kind.lang, document, at_ms, author=AUTHOR))
    if kind.paused:
        await store.set_type_paused(kind.tenant, jobtype, paused=True)


async def _run_minute(store: Store, kind: Kind, minute: int, start_ms: int, now_ms: int, dice: random.Random) -> str:
    """One minute of one type; the id of a job that failed in it."""
    wave = 1 + 0.45 * math.sin(minute / 9 + len(kind.name)) + dice.uniform(-0.25, 0.25)
    count = round(kind.per_minute * wave) if kind.per_minute >= 1 else int(dice.random() < kind.per_minute)
    if not count:
        return ""
    jobtype = f"{kind.tenant}-{kind.name}"
    at_ms = min(start_ms + 30_000, now_ms - 2000)
    jobs = _new_jobs(kind, count, at_ms, dice)
    await store.add_jobs(jobs, now_ms=at_ms)
    claimed = await store.claim_jobs(jobtype, count, owner=SYSID, lease_ms=60_000, now_ms=at_ms)
    is_bad_time = 60 - minute <= kind.bad_since_min
    releases: list[Release] = []
    failed = ""
    for job in claimed:
        duration_us = round(kind.typical_ms * 1000 * dice.lognormvariate(0, 0.5))
        outcome = Outcome(Code.OK, 200, at_ms, duration_us, _fill(kind.result, dice), b"", len(kind.bodies), "L2")
        if is_bad_time and dice.random() < kind.bad_share:
            text = f'Traceback (most recent call last):\n  File "body", line 5, in handler\n{kind.message}'
            outcome = outcome._replace(
                code=Code.FAILED,
                exitcode=400,
                result=text.encode(),
                fingerprint=fingerprint(500, kind.message),
                message=kind.message,
                log=b"resizing s3://media/4711.jpg\n",
            )
            failed = job.id
        if dice.random() < kind.retry_share:
            again = outcome._replace(code=Code.RETRY, exitcode=100, result=None)
            releases.append(Retry(job.id, job.token, at_ms + 3_600_000, again))
        else:
            releases.append(Archive(job.id, job.token, outcome))
    await store.release_jobs(SYSID, releases, now_ms=at_ms + 400)
    return failed if kind.name == "thumbnail" else ""


async def _leave(store: Store, kind: Kind, now_ms: int, dice: random.Random) -> None:
    """What waits at the end."""
    await store.add_jobs(_new_jobs(kind, kind.waiting, now_ms - 4000, dice), now_ms=now_ms)
    later = [job._replace(dt_ms=now_ms + 1_800_000) for job in _new_jobs(kind, kind.deferred, now_ms - 3000, dice)]
    await store.add_jobs(later, now_ms=now_ms)


_numbers = iter(range(1 << 24))


def _new_jobs(kind: Kind, count: int, at_ms: int, dice: random.Random) -> Sequence[NewJob]:
    stamp = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S") + f"{at_ms % 1000:03d}Z"
    return [
        NewJob(
            f"{stamp}-{SYSID}-{next(_numbers):06x}",
            f"{kind.tenant}-{kind.name}",
            _fill(kind.payload, dice),
            at_ms - dice.randrange(5, 900),
            at_ms - 1000,
        )
        for _ in range(count)
    ]


def _fill(text: str, dice: random.Random) -> bytes:
    numbers = tuple(dice.randrange(1000, 9999) for _ in range(text.count("%d")))
    return (text % numbers).encode() if numbers else text.encode()
