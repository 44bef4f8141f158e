"""Arguments outside the protocol: every back end refuses the same ones, with the same words."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from store.base import (
    ApiKey,
    AuditEvent,
    Binding,
    ConsumerRecord,
    Creation,
    JobChange,
    JobFilter,
    JobState,
    Lease,
    NewHandler,
    RateDomain,
    Store,
    Tenant,
    WindowMove,
)
from store.errors import InvalidValue
from store.values.scoreboard import MINUTE_MS
from store.values.transfer import ImportPlace, Part
from tests.support.jobs import JOBTYPE, OWNER, T0, TENANT, job_id, new_job

BEFORE_TIME = -1
A_TIME = " is not a time in milliseconds since 1970, up to the year 9999"
A_TENANT = " is not a tenant name: [a-z0-9] then up to 31 of [a-z0-9_]"
AN_ID = " is not a job id: 1 to 64 letters, digits, '-' and '_'"
A_SYSID = " is not a sysid: 1 to 8 of [a-z0-9]"
A_LABEL = " must be 1 to 255 characters of text without control characters"
WHERE = JobFilter(JobState.WAITING)
ID = job_id(1)

Call = Callable[[Store], Awaitable[object]]


async def refusal(call: Call, store: Store) -> str:
    with pytest.raises(InvalidValue) as refused:
        await call(store)
    return str(refused.value)


SOUND: dict[str, dict[str, Any]] = {
    "add_jobs": {"jobs": [new_job(1)], "now_ms": T0},
    "add_jobs_once": {"binding": Binding(TENANT, "k", b"", "d", T0), "jobs": [new_job(1)], "now_ms": T0},
    "get_waiting_jobtypes": {"now_ms": T0},
    "claim_jobs": {"jobtype": JOBTYPE, "limit": 1, "owner": OWNER, "lease_ms": 1, "now_ms": T0},
    "renew_locks": {"owner": OWNER, "leases": [Lease(ID, 1)], "lease_ms": 1, "now_ms": T0},
    "get_leases": {"owner": OWNER, "leases": [Lease(ID, 1)]},
    "release_with_jobs": {"owner": OWNER, "ends": [], "now_ms": T0},
    "release_jobs": {"owner": OWNER, "releases": [], "now_ms": T0},
    "add_running_jobs": {"owner": OWNER, "jobs": [new_job(1)], "lease_ms": 1, "now_ms": T0},
    "add_ended_jobs": {"owner": OWNER, "jobs": [], "releases": [], "now_ms": T0},
    "expire_locks": {"now_ms": T0},
    "cut_leases": {"now_ms": T0, "longest_ms": 1},
    "get_key_state": {"tenant": TENANT, "jobtype": JOBTYPE, "key": "ada", "limit": 1, "now_ms": T0},
    "expire_jobs": {"now_ms": T0, "done_before_ms": 0, "waiting_before_ms": 0},
    "create_job": {"job": new_job(1), "now_ms": T0},
    "create_jobs": {"creations": [Creation(new_job(1))], "now_ms": T0},
    "get_job": {"tenant": TENANT, "job_id": ID, "now_ms": T0},
    "get_job_at": {"tenant": TENANT, "jobtype": JOBTYPE, "seq": 1, "now_ms": T0},
    "get_states": {"tenant": TENANT, "job_ids": [ID], "now_ms": T0},
    "get_codes": {"tenant": TENANT, "job_ids": [ID]},
    "list_jobs": {"tenant": TENANT, "where": WHERE, "now_ms": T0},
    "list_repeating": {"tenant": TENANT, "now_ms": T0},
    "list_children": {"tenant": TENANT, "parent_id": ID, "now_ms": T0},
    "get_position": {"tenant": TENANT, "job_id": ID, "now_ms": T0},
    "update_job": {"tenant": TENANT, "job_id": ID, "change": JobChange(), "now_ms": T0},
    "cancel_job": {"tenant": TENANT, "job_id": ID, "now_ms": T0},
    "replay_jobs": {"tenant": TENANT, "job_ids": [ID], "dt_ms": T0, "now_ms": T0},
    "move_job": {"tenant": TENANT, "job_id": ID, "jobtype": JOBTYPE, "dt_ms": T0, "now_ms": T0},
    "append_job": {"tenant": TENANT, "name": "c", "token": 1, "seq": 1, "job": new_job(1), "now_ms": T0},
    "end_consumer": {"tenant": TENANT, "name": "c", "now_ms": T0},
    "lead_consumers": {"owner": OWNER, "lease_ms": 1, "now_ms": T0},
    "move_window": {"move": WindowMove(TENANT, "c", 1, 0, 0, 0, skip_failed=False, note=""), "now_ms": T0},
    "hold_jobs": {"tenant": TENANT, "name": "c", "token": 1, "after": 0, "now_ms": T0},
    "set_rate_domain": {"domain": RateDomain(TENANT, "api", 1.0, 1), "now_ms": T0},
    "list_rate_domains": {"tenant": TENANT, "now_ms": T0},
    "delete_rate_domain": {"tenant": TENANT, "domain": "api", "now_ms": T0},
    "find_rate": {"tenant": TENANT, "domain": "api", "now_ms": T0},
    "set_handler": {"tenant": TENANT, "new": NewHandler(JOBTYPE, "sh", b"", T0)},
    "roll_back_handler": {"tenant": TENANT, "jobtype": JOBTYPE, "version": 1, "now_ms": T0},
    "get_counters": {"tenant": TENANT, "now_ms": T0},
    "delete_jobs": {"tenant": TENANT, "job_ids": [], "now_ms": T0},
    "expire_records": {"now_ms": T0, "audit_before_ms": 0},
    "reserve_sysid": {"info": "", "lease_ms": 1, "now_ms": T0},
    "renew_sysid": {"sysid": OWNER, "info": "", "lease_ms": 1, "now_ms": T0},
    "list_daemons": {"now_ms": T0},
    "touch_contents": {"tenant": TENANT, "digests": [], "now_ms": T0},
    "delete_secret": {"tenant": TENANT, "name": "A", "now_ms": T0},
    "get_once": {"tenant": TENANT, "key": "k", "now_ms": T0},
    "put_once": {"tenant": TENANT, "key": "k", "value": b"", "expires_ms": T0, "now_ms": T0},
    "get_note": {"key": "k", "now_ms": T0},
    "begin_export": {"now_ms": T0},
    "import_records": {"part": Part.TENANTS, "records": [], "after": ImportPlace(Part.TENANTS, None), "now_ms": T0},
}
"""Every verb that takes a time, with arguments that are all in order."""


def verbs_with(argument: str) -> list[str]:
    """The verbs of the protocol that have such an argument."""
    verbs = inspect.getmembers(Store, inspect.iscoroutinefunction)
    return [name for name, verb in verbs if argument in inspect.signature(verb).parameters]


@pytest.mark.parametrize("verb", verbs_with("now_ms"))
async def test_a_time_before_1970_is_refused_by_every_verb(store: Store, verb: str) -> None:
    arguments = SOUND[verb] | {"now_ms": BEFORE_TIME}
    assert await refusal(lambda store: getattr(store, verb)(**arguments), store) == f"now_ms -1{A_TIME}"


@pytest.mark.parametrize("lease_ms", [0, 253_402_300_800_000])
@pytest.mark.parametrize("verb", verbs_with("lease_ms"))
async def test_a_lease_lasts_a_millisecond_or_more(store: Store, verb: str, lease_ms: int) -> None:
    arguments = SOUND[verb] | {"lease_ms": lease_ms}
    words = f"lease_ms is {lease_ms}, and must be from 1 to 253402300799999"
    assert await refusal(lambda store: getattr(store, verb)(**arguments), store) == words


@pytest.mark.parametrize("verb", sorted(set(verbs_with("tenant")) & SOUND.keys()))
async def test_a_tenant_has_the_name_of_one(store: Store, verb: str) -> None:
    arguments = SOUND[verb] | {"tenant": "Ac me"}
    if verb in {"get_job_at", "roll_back_handler"}:
        arguments |= {"jobtype": JOBTYPE}
    assert await refusal(lambda store: getattr(store, verb)(**arguments), store) == f"'Ac me'{A_TENANT}"


@pytest.mark.parametrize("verb", sorted(set(verbs_with("job_id")) & SOUND.keys()))
async def test_an_id_reads_like_one(store: Store, verb: str) -> None:
    arguments = SOUND[verb] | {"job_id": "\ud800"}
    assert await refusal(lambda store: getattr(store, verb)(**arguments), store) == f"'\\ud800'{AN_ID}"


REFUSED: dict[str, tuple[Call, str]] = {
    "a number of bytes": (
        lambda store: store.get_job(TENANT, ID, now_ms=T0, max_bytes=-1),
        "max_bytes is -1, and must be from 0 to 2147483647",
    ),
    "the start of a part": (
        lambda store: store.read_result(TENANT, ID, done_ms=T0, start=-1, length=1),
        "start is -1, and must be from 0 to 2147483647",
    ),
    "the length of a part": (
        lambda store: store.read_result(TENANT, ID, done_ms=T0, start=0, length=0),
        "length is 0, and must be from 1 to 2147483647",
    ),
    "a reader's name": (lambda store: store.get_journal_position("a\n"), f"journal reader 'a\\n'{A_LABEL}"),
    "an owner": (lambda store: store.renew_locks("A", [], lease_ms=1, now_ms=T0), f"'A'{A_SYSID}"),
    "a released sysid": (lambda store: store.release_sysid("A"), f"'A'{A_SYSID}"),
    "a parent's id": (lambda store: store.list_children(TENANT, "a b", now_ms=T0), f"'a b'{AN_ID}"),
    "a cursor of children": (
        lambda store: store.list_children(TENANT, ID, now_ms=T0, cursor="a b"),
        f"'a b'{AN_ID}",
    ),
    "a cap": (
        lambda store: store.get_position(TENANT, ID, now_ms=T0, cap=100_001),
        "cap is 100001, and must be from 1 to 100000",
    ),
    "a rate domain": (lambda store: store.delete_rate_domain(TENANT, "", now_ms=T0), f"rate domain ''{A_LABEL}"),
    "another tenant's type": (
        lambda store: store.get_handler("zeta", JOBTYPE),
        "jobtype 'acme-thumb' does not belong to tenant 'zeta'",
    ),
    "a width": (
        lambda store: store.get_buckets(TENANT, width_ms=7, since_ms=0, until_ms=1),
        "buckets of 7 ms are not kept, only [60000, 3600000, 86400000]",
    ),
    "too many buckets": (
        lambda store: store.sum_by_start(None, width_ms=MINUTE_MS, since_ms=0, until_ms=1501 * MINUTE_MS),
        "more than 1500 buckets of 60000 ms in one call",
    ),
    "a tenant without spans": (lambda store: store.count_by_type("A", frozenset(), []), f"'A'{A_TENANT}"),
    "a weight": (lambda store: store.create_tenant(Tenant("a", T0, 0)), "weight is 0, and must be from 1 to 1000"),
    "a changed weight": (
        lambda store: store.update_tenant("a", weight=1001),
        "weight is 1001, and must be from 1 to 1000",
    ),
    "a key's label": (
        lambda store: store.add_key(ApiKey("k", "", b"", (), T0, None, "x" * 256)),
        "label has 256 characters, at most 255",
    ),
    "a key's scope": (lambda store: store.add_key(ApiKey("k", "", b"", ("",), T0)), f"scope ''{A_LABEL}"),
    "a key's id": (lambda store: store.delete_key(TENANT, "\0"), f"key id '\\x00'{A_LABEL}"),
    "the owner of keys": (lambda store: store.list_keys("A"), f"'A'{A_TENANT}"),
    "the time of an event": (lambda store: store.append_audit(AuditEvent(-1, "a", "b")), f"at_ms -1{A_TIME}"),
    "a tenant of events": (lambda store: store.append_audit(AuditEvent(T0, "a", "b", "A")), f"'A'{A_TENANT}"),
    "a cursor of events": (
        lambda store: store.list_audit(cursor="-1"),
        "cursor '-1' is not one of the audit log",
    ),
    "a cursor beyond 64 bits": (
        lambda store: store.list_audit(cursor="9" * 19),
        f"cursor '{'9' * 19}' is not one of the audit log",
    ),
    "a consumer's name": (
        lambda store: store.get_consumer(TENANT, "a|b"),
        "'a|b' is not the name of a consumer: it reads like a type, [A-Za-z0-9_.:-]",
    ),
    "a consumer of another tenant's type": (
        lambda store: store.set_consumer(ConsumerRecord("zeta", "c", JOBTYPE, "", T0)),
        "jobtype 'acme-thumb' does not belong to tenant 'zeta'",
    ),
    "where a consumer begins": (
        lambda store: store.set_consumer(ConsumerRecord(TENANT, "c", JOBTYPE, "", T0), start_index=0),
        "start_index is 0, and must be from 1 to 9007199254740991",
    ),
    "a window": (
        lambda store: store.look_at_window(TENANT, JOBTYPE, after=1, until=10_002),
        "a window of 10001 numbers, at most 10000",
    ),
    "a page": (lambda store: store.export(Part.JOBS, limit=0), "limit is 0, and must be from 1 to 1000"),
    "a source": (lambda store: store.begin_import(""), f"source ''{A_LABEL}"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_refusals_have_the_same_words_everywhere(store: Store, what: str) -> None:
    call, words = REFUSED[what]
    assert await refusal(call, store) == words


@pytest.mark.parametrize("verb", ["get_states", "get_codes", "replay_jobs"])
async def test_what_cannot_be_an_id_is_no_job(store: Store, verb: str) -> None:
    arguments = SOUND[verb] | {"job_ids": ["\ud800", "a b", ""]}
    assert not await getattr(store, verb)(**arguments)
    assert await store.delete_jobs(TENANT, ["\ud800"], now_ms=T0) == 0
