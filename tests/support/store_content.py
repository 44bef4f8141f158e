"""A store with something of everything in it: every state of a job, every kind of record, and sizes on both sides of
what is kept inline."""

import random
from collections.abc import Sequence

from store.base import (
    AlertRecord,
    ApiKey,
    AuditEvent,
    Code,
    ConsumerRecord,
    Content,
    JournalPosition,
    NewHandler,
    NewJob,
    RateDomain,
    Rearm,
    Secret,
    Store,
    Tenant,
    Unclaim,
    WebhookRecord,
    WindowMove,
)
from store.values.transfer import PARTS, Part, Record
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, new_job, new_jobs, outcome, retry

BIG = 300 * 1024
"""More than either back end keeps inline."""


async def fill(store: Store, *, many: int = 0) -> None:
    """`many` plain jobs are added to the rest."""
    await _records(store)
    await _endings(store)
    await _queue(store)
    await _relatives(store)
    await _consumer(store)
    dice = random.Random(7)
    for start in range(0, many, 500):
        jobs = [new_job(10_000 + start + n, jobtype="acme-many", data=dice.randbytes(90)) for n in range(500)]
        await store.add_jobs(jobs[: many - start], now_ms=T0)
        ended = await claim(store, 200, jobtype="acme-many")
        await store.release_jobs(OWNER, [archive(job, result=dice.randbytes(50)) for job in ended], now_ms=T0 + start)


async def _records(store: Store) -> None:
    await store.create_tenant(Tenant(TENANT, T0, weight=3, limits='{"max_jobs": 10}'))
    await store.create_tenant(Tenant("other", T0 + 1))
    await store.update_tenant("other", suspended=True)
    await store.add_key(ApiKey("op", "", b"\x00hash", ("operator",), T0))
    await store.add_key(ApiKey("k$1.", TENANT, b"h" * 32, ("submit", "read"), T0, T0 + 99, "ci"))
    for number in range(7):
        tenant = TENANT if number % 2 else ""
        await store.append_audit(AuditEvent(T0 + number, "op", f"did {number}", tenant, '{"é": "\\u0000"}'))
    await store.put_once(TENANT, "a|b", b"value", expires_ms=T0 + 99, now_ms=T0)
    await store.put_secret(Secret(TENANT, "API_KEY", 1, T0, "key1", "k1", b"sealed\x00"))
    await store.put_alert(AlertRecord(TENANT, "mail", 1, T0, "key1", '{"type": "m\\u0000*"}', ""))
    await store.put_alert(AlertRecord(TENANT, "mail", 2, T0, "key1", '{"type": "mail*"}', '{"phase": "firing"}'))
    await store.put_webhook(WebhookRecord(TENANT, "github", T0, "key1", '{"type": "build\\u0000"}'))
    await store.put_webhook(WebhookRecord("other", "github", T0, "key2", ""))
    await store.put_once("other", "key", b"\x00" * 900, expires_ms=T0 + 99, now_ms=T0)
    await store.put_note("who|is|in", b"note", expires_ms=T0 + 10**9)
    await store.set_rate_domain(RateDomain(TENANT, "api|ü", 2.5, 10), now_ms=T0)
    await store.set_rate_domain(RateDomain("other", "api", 1.0, 1), now_ms=T0)
    await store.set_rate_domain(RateDomain(TENANT, "fr*", 0.001, 1000), now_ms=T0)
    pieces = [Content(TENANT, digit * 64, T0 + 1, digit.encode() * size) for digit, size in (("a", 3), ("b", BIG))]
    await store.put_contents(TENANT, pieces)
    await store.put_contents("other", [pieces[0]._replace(tenant="other")])
    await store.set_handler(TENANT, NewHandler("acme-folder", "sh", b"one", T0, tree="a" * 64))
    for body in (b"one", b"two", b"three"):
        await store.set_handler(TENANT, NewHandler("acme-thumb", "sh", body, T0, author="k1"))
    await store.roll_back_handler(TENANT, "acme-thumb", 1, now_ms=T0 + 1, author="k2")
    await store.set_handler(TENANT, NewHandler("acme-gone", "python", b"x" * 5000, T0))
    await store.delete_handler(TENANT, "acme-gone")
    await store.set_type_paused(TENANT, "acme-paused", paused=True)
    for reader in ("aaaa", "zz"):
        position = JournalPosition(reader, "17", 4096, 3, new_job(2).id, ("a1", "b2"))
        await store.add_jobs([], now_ms=T0, position=position)
    sysids = [(await store.reserve_sysid(info="{}", lease_ms=10, now_ms=T0)).sysid for _ in range(3)]
    await store.release_sysid(sysids[1])


async def _endings(store: Store) -> None:
    jobs = [new_job(number, data=b"d" * size) for number, size in enumerate((0, 10, 3000, BIG, 5, 6, 7, 8))]
    await store.add_jobs(jobs, now_ms=T0)
    ok, empty, none, big, failed, abandoned, purged, replayed = await claim(store)
    failure = {"fingerprint": "Value|Error", "message": "bad\x00 value", "log": b"trace\n" * 20}
    await store.release_jobs(
        OWNER,
        [
            archive(ok, result=b"r" * 2500, log=b"line\n", handler_version=2, isolation="L2"),
            archive(empty, result=b""),
            archive(none, result=None),
            archive(big, result=b"b" * BIG, duration_us=123_456),
            archive(failed, Code.FAILED, **failure),
            archive(abandoned, Code.ABANDONED, fingerprint="other kind", message="m"),
            archive(purged),
            archive(replayed, result=b"dropped when it is replayed"),
        ],
        now_ms=T0 + 61_000,
    )
    await store.delete_jobs(TENANT, [purged.id], now_ms=T0)
    await store.replay_jobs(TENANT, [replayed.id], dt_ms=T0 + 10**7, now_ms=T0 + 70_000)


async def _queue(store: Store) -> None:
    jobs = new_jobs(3, 100, jobtype="acme-queue", priority=1000)
    jobs += new_jobs(3, 110, jobtype="acme-queue", priority=0, options='{"a": 1}', retry_after_ms=7_200_000)
    jobs += new_jobs(4, 120, jobtype="acme-queue", dt_ms=T0 + 10**8, repeat="1 day", domain="api|ü")
    jobs += new_jobs(6, 130, jobtype="acme-runs", data=b"x" * 2100, domain="api|ü")
    jobs += new_jobs(5, 140, jobtype="acme-indexed", indexed=True)
    jobs += new_jobs(2, 150, jobtype="other-x")
    jobs += new_jobs(3, 170, jobtype="acme-keyed", key="ada|ü", domain="free")
    jobs += new_jobs(2, 160, jobtype="stray-x", create_ms=T0 - 5)
    await store.add_jobs(jobs, now_ms=T0)
    _, again, rearmed, given_back, _ = await claim(store, 5, jobtype="acme-runs")
    await store.release_jobs(
        OWNER,
        [
            retry(again, T0 + 5000, Code.ERROR, fingerprint="f", message="m", log=b"l"),
            Rearm(rearmed.id, rearmed.token, T0 + 10**7, outcome(result=b"kept" * 700), data=b"new data"),
            Unclaim(given_back.id, given_back.token),
        ],
        now_ms=T0 + 1,
    )
    await claim(store, 4, jobtype="acme-queue", owner="z9")
    await store.cancel_job(TENANT, new_job(120).id, now_ms=T0)
    first, second, *_ = await claim(store, 3, jobtype="acme-indexed")
    await store.release_jobs(OWNER, [archive(first), archive(second, Code.FAILED)], now_ms=T0)


async def _relatives(store: Store) -> None:
    await store.add_jobs(new_jobs(3, 200, jobtype="acme-parent"), now_ms=T0)
    waits, runs, ends = await claim(store, 3, jobtype="acme-parent")

    async def child(number: int, parent: str) -> None:
        await store.create_job(NewJob(f"child-{number:04d}", "acme-child", b"c", T0, T0, parent=parent), now_ms=T0)

    for number in range(4):
        await child(number, waits.id)
    for number in range(4, 6):
        await child(number, runs.id)
    await child(6, ends.id)
    await store.release_jobs(OWNER, [archive(waits), archive(ends, Code.FAILED)], now_ms=T0 + 2)
    done, other, *_ = await claim(store, 2, now_ms=T0 + 2, jobtype="acme-child")
    await store.release_jobs(OWNER, [archive(done, result=b"x"), archive(other, Code.FAILED)], now_ms=T0 + 3)
    await store.delete_jobs(TENANT, [done.id], now_ms=T0)
    await store.replay_jobs(TENANT, [other.id], dt_ms=T0 + 9, now_ms=T0 + 4)
    for number, name in enumerate(("live", "ended", "live")):
        await store.create_job(new_job(300 + number, jobtype="acme-unique", unique=name, domain="free"), now_ms=T0)
    ended = await claim_one(store, jobtype="acme-unique")
    await store.release_jobs(OWNER, [archive(ended)], now_ms=T0)
    await store.number_jobs(TENANT, ["child-0003", waits.id, "child-0005"])
    await store.number_jobs("other", [new_job(151).id])


async def _consumer(store: Store) -> None:
    """One that is led, with a job that is over, one in the queue, and two that it holds."""
    await store.set_consumer(ConsumerRecord(TENANT, "stage", "acme-stage", '{"é": 1}', T0, is_running=True))
    await store.add_jobs(new_jobs(4, 400, jobtype="acme-stage"), now_ms=T0)
    (led,) = await store.lead_consumers(OWNER, lease_ms=10, now_ms=T0)
    move = WindowMove(TENANT, "stage", led.token, 0, 1, 0, skip_failed=False, note="half way")
    await store.move_window(move, now_ms=T0)
    await store.release_jobs(OWNER, [archive(await claim_one(store, jobtype="acme-stage"))], now_ms=T0)
    await store.move_window(move._replace(processed=1, released=2), now_ms=T0)


async def read_content(store: Store, *, limit: int = 100, max_bytes: int = 1 << 20) -> dict[Part, Sequence[Record]]:
    """Everything, by part, in an order that does not depend on the back end."""
    content: dict[Part, Sequence[Record]] = {}
    for part in PARTS:
        records: list[Record] = []
        cursor: str | None = None
        while True:
            page = await store.export(part, cursor=cursor, limit=limit, max_bytes=max_bytes)
            records += page.records
            cursor = page.cursor
            if cursor is None:
                break
        content[part] = sorted(records, key=repr)
    return content
