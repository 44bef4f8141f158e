"""A look at the rules of a tenant: what holds now, what changes, and the job that tells of it.

A change is written first, together with the notice of it, on condition of the version that was read: of several daemons
that look, one makes it. Then the job of the notice is added under the idempotency key in the notice, and the notice is
taken away. Whatever ends in between, the next look finds the notice and goes on: each change is told by one job.
"""

import hashlib
import logging
import random
import secrets
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from functory.alerts.judgement import (
    Figures,
    Moment,
    advance,
    is_to_be_told,
    value_of,
    watched,
    with_notice,
    without_notice,
)
from functory.alerts.standing import Notice, Standing
from functory.alerts.words import Telling, payload_of
from functory.errors import FunctoryError
from functory.operations.alert_figures import TenantFigures
from functory.operations.alerts import Rule, list_alerts, write_standing, write_terms
from functory.operations.idempotency import Fingerprint
from functory.operations.keyring import principal_of
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.submit import Submission, submit_once
from journal.errors import JournalError
from store.errors import Conflict, InvalidValue

log = logging.getLogger("functory.alerts")

ACTOR: Final = "alerts"
"""Who adds the jobs."""
_KEY_BYTES: Final = 16
_TROUBLE_CHARS: Final = 300
_UNTAKEN: Final = (ValueError, OverflowError)
"""Of a number that no rule can have here: an import, or a newer daemon, has brought it."""
_REFUSALS: Final = (FunctoryError, JournalError, InvalidValue, Conflict)
"""Why a job may not be added: the tenant's quota, say. It is tried again at the next look."""


async def look_at_alerts(
    service: Service,
    tenant: str,
    moment: Moment,
    new_key: Callable[[], str] = lambda: secrets.token_hex(_KEY_BYTES),
    mix: Callable[[list[Rule]], None] = random.shuffle,
) -> None:
    """Nothing is looked at while the tenant is suspended: its rules stand as they stood. They come in another order
    each time: if a look ends early, it is not always the same ones that nobody looks at. Those about the same window
    come together. Raises StoreUnavailable."""
    who = await principal_of(service, tenant, ACTOR, frozenset())
    if who is None or who.suspended:
        return
    rules = await list_alerts(service, tenant)
    mix(rules)
    places = {rule.terms.window_s: place for place, rule in enumerate(rules)}
    rules.sort(key=lambda rule: places[rule.terms.window_s])
    notifying = {rule.terms.notify for rule in rules}
    figures = TenantFigures(service, who, moment.now_ms)
    for rule in rules:
        try:
            await _look_at(service, who, rule, await figures.of(rule.terms, notifying), moment, new_key)
        except _UNTAKEN as error:
            reason = str(error)[:_TROUBLE_CHARS]
            log.warning("alert.not_looked_at", extra={"tenant": tenant, "alert": rule.name, "reason": reason})


async def _look_at(
    service: Service, who: Principal, rule: Rule, found: Figures, moment: Moment, new_key: Callable[[], str]
) -> None:
    terms = watched(rule.terms, moment)
    if terms is not rule.terms:
        changed = await write_terms(service, rule, terms)
        if changed is None:
            return
        rule = changed
    standing = advance(rule.terms, rule.standing, found, moment)
    if is_to_be_told(standing, moment.now_ms):
        value = value_of(rule.terms, found, moment)
        standing = with_notice(standing, _notice(rule, standing, value, moment.now_ms, new_key()))
    if standing is not rule.standing:
        written = await _written(service, rule, standing)
        if written is None:
            return  # somebody was quicker, and goes on with it
        log.info("alert.changed", extra={"tenant": who.tenant, "alert": rule.name, "phase": standing.phase})
        rule = written
    if rule.standing.notice is not None:
        await _tell(service, who, rule, rule.standing.notice)


def _notice(rule: Rule, standing: Standing, value: float, now_ms: int, key: str) -> Notice:
    telling = Telling(
        name=rule.name,
        state="firing" if standing.is_firing else "resolved",
        at_ms=now_ms,
        since_ms=standing.fired_ms,
        value=value,
    )
    return Notice(key=key, at_ms=now_ms, payload=payload_of(rule.record.tenant, rule.terms, telling))


async def _tell(service: Service, who: Principal, rule: Rule, notice: Notice) -> None:
    payload = notice.payload.encode()
    fingerprint = Fingerprint(hashlib.sha256(payload).hexdigest())
    job = Submission(payload)
    try:
        await submit_once(service, who, rule.terms.notify, [job], key=f"alert:{notice.key}", fingerprint=fingerprint)
    except _REFUSALS as error:
        trouble = str(error)[:_TROUBLE_CHARS]
        if trouble != rule.standing.trouble:
            log.warning("alert.not_told", extra={"tenant": who.tenant, "alert": rule.name, "reason": trouble})
            await _written(service, rule, replace(rule.standing, trouble=trouble))
        return
    await _written(service, rule, without_notice(rule.standing))


async def _written(service: Service, rule: Rule, standing: Standing) -> Rule | None:
    """The rule as it stands then; None if somebody has changed it since it was read."""
    if not await write_standing(service, rule, standing):
        return None
    return Rule(rule.record._replace(version=rule.record.version + 1), rule.terms, standing)
