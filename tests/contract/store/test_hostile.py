"""Values that break careless stores: NUL, quotes, '$', '.', unicode, numbers as text, a mebibyte."""

import pytest

from store.base import ApiKey, AuditEvent, Code, NewHandler, Store, Tenant
from tests.support.jobs import JOBTYPE, OWNER, T0, TENANT, archive, claim, claim_one, new_job

TEXTS = [
    "$set",
    "a.b.c",
    "nul\x00inside",
    "'; DROP TABLE jobs; --",
    '{"$gt": ""}',
    "quote\" ' ` \\",
    "Ünïcödé \U0001f600 \u202e rtl",
    "123",
    "",
    " ",
    "x" * 5000,
    "line\nbreak\ttab",
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text)[:20])
async def test_free_text_comes_back_as_it_was(store: Store, text: str) -> None:
    data = text.encode() + b"\x00\xff\xfe"
    await store.add_jobs([new_job(1, options=text, repeat=text, data=data)], now_ms=T0)
    job = await claim_one(store)
    assert (job.options, job.repeat, job.data) == (text, text, data)
    ended = archive(job, Code.FAILED, result=data, log=data, fingerprint="f", message=text[:1000])
    await store.release_jobs(OWNER, [ended], now_ms=T0)
    record = await store.get_job(TENANT, job.id, now_ms=T0)
    assert record is not None
    assert record.outcome == ended.outcome
    await store.create_tenant(Tenant(TENANT, T0, limits=text))
    tenant = await store.get_tenant(TENANT)
    assert tenant is not None
    assert tenant.limits == text
    event = AuditEvent(T0, text, text, TENANT, text)
    await store.append_audit(event)
    assert (await store.list_audit()).events == (event,)
    daemon = await store.reserve_sysid(info=text, lease_ms=9, now_ms=T0)
    assert await store.list_daemons(now_ms=T0) == [daemon]


@pytest.mark.parametrize("label", [t for t in TEXTS if t and len(t) < 255 and t.isprintable()] + ["\u202e"])
async def test_free_names_come_back_as_they_were(store: Store, label: str) -> None:
    job = new_job(1, domain=label, unique=label)
    assert (await store.create_job(job, now_ms=T0)).created
    assert not (await store.create_job(new_job(2, unique=label), now_ms=T0)).created
    (claimed,) = await claim(store)
    assert (claimed.domain, claimed.unique) == (label, label)
    await store.create_tenant(Tenant(TENANT, T0))
    key = ApiKey(label, TENANT, b"\x00", (label, "b"), T0, None, label)
    await store.add_key(key)
    assert await store.get_key(label) == key
    handler = await store.set_handler(TENANT, NewHandler(JOBTYPE, label, b"\x00$", T0, author=label))
    assert await store.get_handler(TENANT, JOBTYPE) == handler
    assert await store.put_once(TENANT, label, b"v", expires_ms=T0 + 9, now_ms=T0) == b"v"


async def test_jobtypes_with_every_allowed_character(store: Store) -> None:
    jobtypes = ["a_1-A.b:c-d_e", "0-0", "a-" + "x" * 127, "z" * 32 + "-t", "a-b.$".replace("$", "c")]
    await store.add_jobs([new_job(n, jobtype=jobtype) for n, jobtype in enumerate(jobtypes)], now_ms=T0)
    for jobtype in jobtypes:
        assert [job.jobtype for job in await claim(store, jobtype=jobtype)] == [jobtype]


async def test_types_that_differ_in_case_only_are_different(store: Store) -> None:
    await store.add_jobs([new_job(1, jobtype="a-Thumb"), new_job(2, jobtype="a-thumb")], now_ms=T0)
    assert [w.jobtype for w in await store.get_waiting_jobtypes(now_ms=T0)] == ["a-Thumb", "a-thumb"]
