"""Alert rules of a tenant: set, list, delete, mute, test. alert_looks.py sees whether they hold."""

import re
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from functory.alerts.standing import Standing, encode_standing, standing_from
from functory.alerts.terms import Terms, encode_terms, terms_from
from functory.alerts.words import Telling, payload_of
from functory.errors import InvalidInput, QuotaExceeded
from functory.operations.audit import audit
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.submit import Submission, submit_jobs
from functory.operations.type_patterns import check_named, is_pattern
from functory.workers.unasked import JUST_NOW_MS
from store.base import AlertRecord
from store.errors import Conflict, NotFound
from vocabulary.glob import is_closed
from vocabulary.names import TYPE_RULE, is_type

MAX_ALERTS: Final = 50
"""Of one tenant."""
LEAST_UNASKED_S: Final = JUST_NOW_MS // 1000
_PATTERN: Final = re.compile(r"[A-Za-z0-9_.:*?\[\]^-]+")
_TRIES: Final = 5
_NEEDS: Final = {
    "failures": "window_s",
    "waiting": "longer_than_s",
    "silent": "window_s",
    "no_worker": "longer_than_s",
    "quota": "share_above",
}
"""What a rule must say beside what it watches for."""


class Rule(NamedTuple):
    record: AlertRecord
    terms: Terms
    standing: Standing

    @property
    def name(self) -> str:
        return self.record.name


async def list_alerts(service: Service, tenant: str) -> list[Rule]:
    """In order of name. What a newer version has set and this one cannot read is left out."""
    found = [_read(record) for record in await service.store.list_alerts(tenant)]
    return [rule for rule in found if rule is not None]


async def get_alert(service: Service, tenant: str, name: str) -> Rule:
    """Raises NotFound."""
    rule = await _find(service, tenant, name)
    if rule is None:
        raise NotFound(f"tenant {tenant} has no alert {name[:80]}")
    return rule


async def put_alert(service: Service, who: Principal, name: str, terms: Terms) -> bool:
    """Make a rule, or change what it watches for: how it stands stays until the next look. True if it is new. Raises
    InvalidInput, QuotaExceeded, Conflict."""
    check_terms(name, terms)
    now_ms = service.now_ms()
    for _ in range(_TRIES):
        rules = await service.store.list_alerts(who.tenant)
        before = next((record for record in rules if record.name == name), None)
        if before is None:
            if len(rules) >= MAX_ALERTS:
                raise _too_many()
            settings = encode_terms(replace(terms, since_ms=now_ms))
            record = AlertRecord(who.tenant, name, 1, now_ms, who.key_id, settings, encode_standing(Standing()))
        else:
            settings = encode_terms(replace(terms, since_ms=_since_ms(before, terms, now_ms)))
            record = before._replace(version=before.version + 1, author=who.key_id, settings=settings)
        if await service.store.put_alert(record):
            if before is None:
                await _withdraw_if_too_many(service, who.tenant, name)
            await audit(service, who.key_id, "alert.set", who.tenant, alert=name, type=terms.type, when=terms.when)
            return before is None
    raise _busy(name)


async def delete_alert(service: Service, who: Principal, name: str) -> None:
    """One that fires is over without a notification. Raises NotFound."""
    if not is_type(name) or not await service.store.delete_alert(who.tenant, name):
        raise NotFound(f"tenant {who.tenant} has no alert {name[:80]}")
    await audit(service, who.key_id, "alert.delete", who.tenant, alert=name)


async def mute_alert(service: Service, who: Principal, name: str, for_s: int) -> int:
    """Tell nothing for so long; 0 ends that. What has changed meanwhile is told afterwards, unless it has changed back.
    Returns the end of the silence, or 0. Raises NotFound, Conflict."""
    until_ms = service.now_ms() + for_s * 1000 if for_s else 0
    for _ in range(_TRIES):
        rule = await get_alert(service, who.tenant, name)
        if await write_standing(service, rule, replace(rule.standing, muted_until_ms=until_ms)):
            await audit(service, who.key_id, "alert.mute", who.tenant, alert=name, for_s=for_s)
            return until_ms
    raise _busy(name)


async def test_alert(service: Service, who: Principal, name: str) -> str:
    """Send one notification now, as one that says `test`. Returns the id of its job. Raises NotFound, and what
    `submit_jobs` raises."""
    rule = await get_alert(service, who.tenant, name)
    now_ms, standing = service.now_ms(), rule.standing
    telling = Telling(name=name, state="test", at_ms=now_ms, since_ms=standing.since_ms, value=standing.value)
    payload = payload_of(who.tenant, rule.terms, telling)
    (job_id,) = await submit_jobs(service, who, rule.terms.notify, [Submission(payload.encode())])
    await audit(service, who.key_id, "alert.test", who.tenant, alert=name)
    return job_id


async def write_standing(service: Service, rule: Rule, standing: Standing) -> bool:
    """False if somebody has changed the rule since it was read."""
    record = rule.record
    return await service.store.put_alert(record._replace(version=record.version + 1, state=encode_standing(standing)))


async def write_terms(service: Service, rule: Rule, terms: Terms) -> Rule | None:
    """The rule with these; None if somebody has changed it since it was read."""
    record = rule.record._replace(version=rule.record.version + 1, settings=encode_terms(terms))
    return Rule(record, terms, rule.standing) if await service.store.put_alert(record) else None


def check_terms(name: str, terms: Terms) -> None:
    """Raises InvalidInput."""
    if not is_type(name):
        raise InvalidInput(f"{name[:80]!r} is not a name for an alert: {TYPE_RULE}", detail={"field": "name"})
    check_named(terms.type)
    if is_pattern(terms.type) and not (_PATTERN.fullmatch(terms.type) and is_closed(terms.type)):
        raise InvalidInput(
            f"{terms.type[:80]!r} can match no type: a pattern has what types have, and * ? [a-c] [^a]",
            detail={"field": "type"},
        )
    if terms.type == terms.notify:
        raise InvalidInput(
            "the alert would watch its own notifications: name another type in notify", detail={"field": "notify"}
        )
    needed = _NEEDS.get(terms.when)
    if needed and not getattr(terms, needed):
        raise InvalidInput(f"an alert for {terms.when} needs {needed}", detail={"field": needed})
    if terms.when == "no_worker" and terms.longer_than_s < LEAST_UNASKED_S:
        raise InvalidInput(
            f"an alert for no_worker takes at least {LEAST_UNASKED_S} seconds, not {terms.longer_than_s}: a daemon"
            " needs so long to know of workers that wait at another one",
            detail={"field": "longer_than_s"},
        )
    if terms.share_above is not None and terms.when not in {"failures", "quota"}:
        raise InvalidInput("share_above is for failures and quota only", detail={"field": "share_above"})
    if terms.when == "quota" and terms.type != "*":
        raise InvalidInput("a quota is that of all types: type must be *", detail={"field": "type"})


async def _withdraw_if_too_many(service: Service, tenant: str, name: str) -> None:
    """Others may have made rules since they were counted. Raises QuotaExceeded."""
    if len(await service.store.list_alerts(tenant)) > MAX_ALERTS:
        await service.store.delete_alert(tenant, name)
        raise _too_many()


def _too_many() -> QuotaExceeded:
    return QuotaExceeded(f"a tenant has at most {MAX_ALERTS} alerts", detail={"limit": MAX_ALERTS})


def _since_ms(before: AlertRecord, terms: Terms, now_ms: int) -> int:
    """Since when it has watched: other terms that watch for the same do not begin anew."""
    rule = _read(before)
    if rule is None or (rule.terms.type, rule.terms.when) != (terms.type, terms.when):
        return now_ms
    return rule.terms.since_ms


async def _find(service: Service, tenant: str, name: str) -> Rule | None:
    return next((rule for rule in await list_alerts(service, tenant) if rule.name == name), None)


def _read(record: AlertRecord) -> Rule | None:
    try:
        return Rule(record, terms_from(record.settings), standing_from(record.state))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _busy(name: str) -> Conflict:
    return Conflict(f"alert {name} is being changed by others all the time: try again")
