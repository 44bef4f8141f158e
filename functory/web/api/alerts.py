"""Routes of alert rules: set, list, delete, mute, test."""

from functory.alerts.terms import Terms
from functory.alerts.words import in_words
from functory.operations import alerts as operations
from functory.operations.alerts import Rule
from functory.web.http.endpoint import Call
from functory.web.http.routes import Routes
from functory.wire.alerts import Alert, AlertBody, AlertList, AlertMuted, AlertSet, AlertTested, MuteBody
from functory.wire.base import Done

routes = Routes()


@routes.add("GET", "/{tenant}/alert", scope="read", summary="The alert rules, and how each stands")
async def list_alerts(call: Call) -> AlertList:
    now_ms = call.service.now_ms()
    return AlertList(now_ms, [_show(rule, now_ms) for rule in await operations.list_alerts(call.service, call.tenant)])


@routes.add("GET", "/{tenant}/alert/{alert}", scope="read", summary="One alert rule")
async def get_alert(call: Call) -> Alert:
    rule = await operations.get_alert(call.service, call.tenant, call.param("alert"))
    return _show(rule, call.service.now_ms())


@routes.add("PUT", "/{tenant}/alert/{alert}", scope="manage", summary="Make an alert rule, or change one")
async def set_alert(call: Call, body: AlertBody) -> AlertSet:
    return AlertSet(await operations.put_alert(call.service, call.principal, call.param("alert"), terms_of(body)))


@routes.add("DELETE", "/{tenant}/alert/{alert}", scope="manage", summary="Delete an alert rule")
async def delete_alert(call: Call) -> Done:
    await operations.delete_alert(call.service, call.principal, call.param("alert"))
    return Done()


@routes.add("POST", "/{tenant}/alert/{alert}/mute", scope="manage", summary="Tell nothing of it for a while")
async def mute_alert(call: Call, body: MuteBody) -> AlertMuted:
    until_ms = await operations.mute_alert(call.service, call.principal, call.param("alert"), body.for_s)
    return AlertMuted(until_ms or None)


@routes.add("POST", "/{tenant}/alert/{alert}/test", scope="manage", summary="Send one notification now")
async def test_alert(call: Call) -> AlertTested:
    return AlertTested(await operations.test_alert(call.service, call.principal, call.param("alert")))


def terms_of(body: AlertBody) -> Terms:
    return Terms(
        type=body.type,
        notify=body.notify,
        when=body.when,
        more_than=body.more_than,
        share_above=body.share_above,
        at_least=body.at_least,
        window_s=body.window_s or 0,
        longer_than_s=body.longer_than_s or 0,
        for_s=body.for_s,
        calm_s=body.calm_s,
    )


def _show(rule: Rule, now_ms: int) -> Alert:
    record, terms, standing = rule
    return Alert(
        name=record.name,
        type=terms.type,
        notify=terms.notify,
        when=terms.when,
        condition=in_words(terms),
        more_than=terms.more_than,
        share_above=terms.share_above,
        at_least=terms.at_least,
        window_s=terms.window_s,
        longer_than_s=terms.longer_than_s,
        for_s=terms.for_s,
        calm_s=terms.calm_s,
        state=standing.phase,
        since_ms=standing.since_ms or record.created_ms,
        fired_ms=standing.fired_ms or None,
        value=standing.value,
        muted_until_ms=standing.muted_until_ms if standing.muted_until_ms > now_ms else None,
        trouble=standing.trouble,
        created_ms=record.created_ms,
        author=record.author,
    )
