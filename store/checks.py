"""Checks of the arguments of the verbs: `store.checked` calls them before anything reaches a back end.

Every function raises InvalidValue or returns; none changes anything.
"""

from collections.abc import Sequence
from typing import Final

from store.errors import InvalidValue
from store.names import (
    DIGEST,
    MAX_BATCH,
    MAX_CONTENT_BYTES,
    MAX_CONTENTS_AT_ONCE,
    MAX_DATA_BYTES,
    MAX_HANDLER_BYTES,
    MAX_LOG_BYTES,
    MAX_OPTIONS_CHARS,
    MAX_PER_KEY,
    MAX_RESULT_BYTES,
    MAX_SECRET_BYTES,
    PRIORITIES,
    SECRET_NAME,
    check_batch,
    check_job_id,
    check_jobtype,
    check_label,
    check_tenant,
    checked_tenant_of,
)
from store.rate_rules import check_pattern, is_pattern
from store.values.job_changes import JobChange
from store.values.jobs import Archive, Creation, Discard, Finish, NewJob, Outcome, Rearm, Release, Retry, Unclaim
from store.values.records import ApiKey, AuditEvent, Content, NewHandler, RateDomain, Secret, Tenant
from store.values.scoreboard import MAX_BUCKETS, RESOLUTIONS
from vocabulary.columns import fields
from vocabulary.names import MAX_LABEL_CHARS, are_job_ids
from vocabulary.states import FINAL_CODES, Code
from vocabulary.time_text import MAX_TIME_MS
from vocabulary.token_bucket import MIN_RATE_PER_S

MAX_ONCE_BYTES: Final = 1024 * 1024
MAX_TEXT_CHARS: Final = 64 * 1024
MAX_MESSAGE_CHARS: Final = 1000
MAX_PAGE: Final = 1000


def check_time(what: str, time_ms: int) -> int:
    if not 0 <= time_ms <= MAX_TIME_MS:
        raise InvalidValue(f"{what} {time_ms} is not a time in milliseconds since 1970, up to the year 9999")
    return time_ms


def check_lease(lease_ms: int, now_ms: int) -> None:
    check_range("lease_ms", lease_ms, 1, MAX_TIME_MS)
    check_time("now_ms", now_ms)


def check_width(width_ms: int) -> None:
    if width_ms not in RESOLUTIONS:
        raise InvalidValue(f"buckets of {width_ms} ms are not kept, only {sorted(RESOLUTIONS)}")


def check_buckets(tenant: str | None, width_ms: int, since_ms: int, until_ms: int) -> None:
    if tenant is not None:
        check_tenant(tenant)
    check_width(width_ms)
    if (until_ms - since_ms) // width_ms > MAX_BUCKETS:
        raise InvalidValue(f"more than {MAX_BUCKETS} buckets of {width_ms} ms in one call")


def check_type_buckets(tenant: str, jobtypes: Sequence[str], width_ms: int, since_ms: int, until_ms: int) -> None:
    """Whether all jobtypes are the tenant's and not too many."""
    check_buckets(tenant, width_ms, since_ms, until_ms)
    check_batch("jobtypes", len(jobtypes))
    for jobtype in jobtypes:
        check_jobtype(tenant, jobtype)


def check_note(key: str, value: bytes = b"") -> None:
    check_label("key", key)
    if len(value) > MAX_ONCE_BYTES:
        raise InvalidValue(f"value of {len(value)} bytes, at most {MAX_ONCE_BYTES}")


def check_range(what: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidValue(f"{what} is {value}, and must be from {low} to {high}")


def check_text(what: str, text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Any text that can be encoded, NUL included, up to a length."""
    if len(text) > max_chars:
        raise InvalidValue(f"{what} has {len(text)} characters, at most {max_chars}", field=what)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValue(f"{what} holds a lone surrogate, which is not text", field=what) from None
    return text


def check_data(data: bytes) -> None:
    if len(data) > MAX_DATA_BYTES:
        raise InvalidValue(f"payload of {len(data)} bytes, at most {MAX_DATA_BYTES}")


def check_priority(priority: int) -> None:
    if priority not in PRIORITIES:
        raise InvalidValue(f"priority {priority} is not one of {PRIORITIES}")


def check_change(change: JobChange) -> None:
    if change.data is not None:
        check_data(change.data)
    if change.dt_ms is not None:
        check_time("dt_ms", change.dt_ms)
    if change.priority is not None:
        check_priority(change.priority)
    if change.repeat:
        check_text("repeat", change.repeat, MAX_OPTIONS_CHARS)
    if change.pause is not None:
        check_time("since_ms", change.pause.since_ms)
        check_text("by", change.pause.by, MAX_LABEL_CHARS)


def check_new_job(job: NewJob) -> None:
    check_job_id(job.id)
    checked_tenant_of(job.jobtype)
    check_priority(job.priority)
    check_time("dt_ms", job.dt_ms)
    check_time("create_ms", job.create_ms)
    check_data(job.data)
    if job.domain:
        check_label("rate domain", job.domain, "domain")
    if job.key:
        check_label("key", job.key, "key")
    if job.options:
        check_text("options", job.options, MAX_OPTIONS_CHARS)
    if job.repeat:
        check_text("repeat", job.repeat, MAX_OPTIONS_CHARS)
    if job.retry_after_ms is not None and not 1 <= job.retry_after_ms <= MAX_TIME_MS:
        raise InvalidValue(f"retry_after_ms is {job.retry_after_ms}, and must be at least 1")
    if job.unique:
        check_label("unique name", job.unique, "unique")
    if job.parent:
        check_job_id(job.parent, "parent")
        if job.repeat:
            raise InvalidValue("a job with a parent cannot repeat: its parent would never end", field="repeat")


def check_creations(creations: Sequence[Creation]) -> None:
    check_batch("create_jobs", len(creations))
    for creation in creations:
        check_new_job(creation.job)
    jobs = [creation.job for creation in creations]
    check_ids(jobs)
    check_names(jobs)


def check_ids(jobs: Sequence[NewJob]) -> None:
    """Jobs that are created together: each once, and none as the parent of another, which could not get a child yet."""
    ids: set[str] = set()
    for job in jobs:
        if job.id in ids:
            raise InvalidValue(f"the job id {job.id} appears twice: create each job once")
        ids.add(job.id)
    for job in jobs:
        if job.parent in ids:
            raise InvalidValue(
                f"job {job.parent}, named as the parent of {job.id}, is created in the same call:"
                " add its children when it is running or paused"
            )


def check_names(jobs: Sequence[NewJob]) -> None:
    """Jobs that are created together: the second with a unique name replaces what the first is to do, so both must
    have the same parent."""
    parents: dict[tuple[str, str], str] = {}
    for job in jobs:
        if job.unique and parents.setdefault((job.jobtype, job.unique), job.parent) != job.parent:
            raise InvalidValue(f"the unique name {job.unique!r} appears twice, with different parents")


def check_new_jobs(jobs: Sequence[NewJob], *, start_at_once: bool = False) -> None:
    """All jobs of a bulk add. Tens of thousands a second pass here, so one look at each column settles a plain batch;
    only another one is looked at job by job, for the words. start_at_once: they must have nothing that a claim would
    have had to look at."""
    check_batch("add_jobs", len(jobs))
    if not jobs:
        return
    ids, jobtypes, data, due, created, priorities, domains, options, retries, indexed, *rest = zip(*jobs, strict=True)
    for jobtype in set(jobtypes):
        checked_tenant_of(jobtype)
    is_plain = (
        are_job_ids(ids)
        and _PRIORITIES.issuperset(priorities)
        and are_times(due, created)
        and max(map(len, data)) <= MAX_DATA_BYTES
        and not any(map(any, (domains, options, *rest)))
        and set(retries) == {None}
    )
    if is_plain and not (start_at_once and any(indexed)):
        return
    for job in jobs:
        check_new_job(job)
        if job.unique or job.parent:
            raise InvalidValue(f"job {job.id} has a unique name or a parent: create_jobs adds such a job")
        if start_at_once and (job.domain or job.key or job.retry_after_ms is not None or job.indexed or job.repeat):
            raise InvalidValue(f"job {job.id} is not plain: add_jobs adds such a job, and claim_jobs starts it")


_PRIORITIES: Final = frozenset(PRIORITIES)


def are_times(*columns_ms: Sequence[int]) -> bool:
    return min(map(min, columns_ms)) >= 0 and max(map(max, columns_ms)) <= MAX_TIME_MS


def check_claim(limit: int, max_bytes: int, max_per_key: int | None) -> None:
    check_range("limit", limit, 1, MAX_BATCH)
    check_range("max_bytes", max_bytes, 0, MAX_TIME_MS)
    if max_per_key is not None:
        check_range("max_per_key", max_per_key, 1, MAX_PER_KEY)


_CODES_OF: Final[dict[type[Release], frozenset[Code]]] = {
    Archive: FINAL_CODES,
    Discard: FINAL_CODES,
    Finish: FINAL_CODES,
    Retry: frozenset({Code.RETRY, Code.ERROR}),
    Rearm: FINAL_CODES - {Code.CANCELLED},
}
_EXITCODES: Final = frozenset(range(1000))
_ID, _OUTCOME = fields(Archive, "id"), fields(Archive, "outcome")
"""The id stands first in every release."""


def check_releases(releases: Sequence[Release]) -> None:
    """All releases of a batch: plain endings in one look at each column, as in check_new_jobs, others one by one."""
    check_batch("release_jobs", len(releases))
    if len(set(map(_ID, releases))) != len(releases):
        raise InvalidValue("release_jobs: the same job id twice in one batch")
    archives = [release for release in releases if type(release) is Archive]
    if _are_plain(list(map(_OUTCOME, archives))):
        releases = (
            [release for release in releases if type(release) is not Archive] if len(archives) < len(releases) else ()
        )
    for release in releases:
        if isinstance(release, Unclaim):
            continue
        outcome = release.outcome
        if outcome.code not in _CODES_OF[type(release)]:
            kind = type(release).__name__.lower()
            raise InvalidValue(f"job {release.id}: code {outcome.code} does not fit a release to {kind}")
        _check_outcome(outcome, release.id)
        if isinstance(release, Retry | Rearm):
            check_time("dt_ms", release.dt_ms)
        if isinstance(release, Finish | Retry | Rearm) and release.data is not None:
            check_data(release.data)


def _are_plain(outcomes: Sequence[Outcome]) -> bool:
    """Whether they are all in order as outcomes of an Archive, which is sure only of some."""
    if not outcomes:
        return True
    codes, exitcodes, started, durations, results, logs, _, isolations, fingerprints, messages = zip(
        *outcomes, strict=True
    )
    return (
        FINAL_CODES.issuperset(codes)
        and _EXITCODES.issuperset(exitcodes)
        and are_times(started)
        and min(durations) >= 0
        and max(map(len, filter(None, results)), default=0) <= MAX_RESULT_BYTES
        and max(map(len, filter(None, logs)), default=0) <= MAX_LOG_BYTES
        and not any(fingerprints)
        and not any(messages)
        and max(map(len, isolations)) <= 32
        and "".join(set(isolations)).isascii()
    )


def _check_outcome(outcome: Outcome, job_id: str) -> None:
    (_, exitcode, started_ms, duration_us, result, log, _, isolation, fingerprint, message) = outcome
    if result is not None and len(result) > MAX_RESULT_BYTES:
        raise InvalidValue(f"result of job {job_id}: {len(result)} bytes, at most {MAX_RESULT_BYTES}")
    if len(log) > MAX_LOG_BYTES:
        raise InvalidValue(f"log of job {job_id}: {len(log)} bytes, at most {MAX_LOG_BYTES}")
    if exitcode not in _EXITCODES:
        raise InvalidValue(f"exitcode {exitcode} of job {job_id} is not in 0..999")
    if duration_us < 0:
        raise InvalidValue(f"duration_us {duration_us} of job {job_id} is negative")
    if not 0 <= started_ms <= MAX_TIME_MS:
        check_time("started_ms", started_ms)
    if isolation:
        check_text("isolation", isolation, 32)
    if fingerprint:
        check_label("fingerprint", fingerprint)
    if message:
        check_text("message", message, MAX_MESSAGE_CHARS)


def check_page_limit(limit: int) -> None:
    check_range("limit", limit, 1, MAX_PAGE)


def check_digests(digests: Sequence[str]) -> None:
    check_range("digests in one call", len(digests), 0, MAX_CONTENTS_AT_ONCE)
    for digest in digests:
        if DIGEST.fullmatch(digest) is None:
            raise InvalidValue(f"{digest!r:.80} is not a digest: 64 hex digits, in lower case")


def check_tree(tree: str) -> None:
    if tree:
        check_digests([tree])


def check_contents(tenant: str, contents: Sequence[Content]) -> None:
    check_digests([content.digest for content in contents])
    for content in contents:
        if content.tenant != tenant:
            raise InvalidValue(f"a content of {content.tenant!r:.80} among those of {tenant}")
        check_time("touched_ms", content.touched_ms)
        if len(content.data) > MAX_CONTENT_BYTES:
            raise InvalidValue(f"a content of {len(content.data)} bytes, at most {MAX_CONTENT_BYTES}: split it")


def check_handler(new: NewHandler) -> None:
    check_tree(new.tree)
    check_label("lang", new.lang)
    if len(new.data) > MAX_HANDLER_BYTES:
        raise InvalidValue(f"handler of {len(new.data)} bytes, at most {MAX_HANDLER_BYTES}")
    check_author(new.author)
    check_time("created_ms", new.created_ms)


def check_secret(secret: Secret) -> None:
    check_tenant(secret.tenant)
    check_secret_name(secret.name)
    check_range("version", secret.version, 1, 1 << 53)
    check_time("created_ms", secret.created_ms)
    check_author(secret.author)
    check_label("key_id", secret.key_id)
    if not 1 <= len(secret.data) <= MAX_SECRET_BYTES:
        raise InvalidValue(f"a sealed secret of {len(secret.data)} bytes, expected 1 to {MAX_SECRET_BYTES}")


def check_secret_name(name: str) -> None:
    if SECRET_NAME.fullmatch(name) is None:
        raise InvalidValue(f"{name!r:.80} is not the name of a secret: letters, digits and _, not a digit first")


def check_author(author: str) -> None:
    check_text("author", author, 255)


def check_weight(weight: int) -> None:
    check_range("weight", weight, 1, 1000)


def check_tenant_record(tenant: Tenant) -> None:
    check_tenant(tenant.name)
    check_weight(tenant.weight)
    check_text("limits", tenant.limits)


def check_key(key: ApiKey) -> None:
    check_label("key id", key.key_id)
    check_text("label", key.label, 255)
    for scope in key.scopes:
        check_label("scope", scope)
    if key.tenant:
        check_tenant(key.tenant)


def check_audit_event(event: AuditEvent) -> None:
    check_text("actor", event.actor)
    check_text("action", event.action)
    check_text("detail", event.detail)
    check_time("at_ms", event.at_ms)
    if event.tenant:
        check_tenant(event.tenant)


def check_audit_cursor(cursor: str) -> None:
    """It is the number of an event, which fits 64 bits."""
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 18):
        raise InvalidValue(f"cursor {cursor!r:.80} is not one of the audit log", field="cursor")


def check_rate_domain(domain: RateDomain) -> None:
    check_tenant(domain.tenant)
    check_label("rate domain", domain.domain)
    if is_pattern(domain.domain):
        check_pattern(domain.domain)
    if not MIN_RATE_PER_S <= domain.rate_per_s <= 1e6:
        raise InvalidValue(f"rate_per_s is {domain.rate_per_s}, and must be from 0.000001 to 1,000,000")
    check_range("burst", domain.burst, 1, 1e6)
