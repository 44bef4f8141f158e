"""The alert rules of a tenant: how each stands since when, and forms to make, change, mute, test and delete one."""

from typing import Any, Final

import msgspec

from functory.alerts.terms import Terms
from functory.alerts.words import in_words
from functory.errors import InvalidInput
from functory.operations import alerts
from functory.operations.alerts import Rule
from functory.setting_values import duration
from functory.web.api.alerts import terms_of
from functory.web.http.validation_words import refusal
from functory.web.pages.call import PageCall, whole_number
from functory.web.pages.declaration import Go, Page, Pages
from functory.wire.alerts import AlertBody

pages = Pages()

KINDS: Final = {
    "failures": "more than N failed runs within the time",
    "share": "more than N % of the runs failed within the time",
    "waiting": "a job waits for longer than the time",
    "backlog": "more than N jobs wait",
    "silent": "no job ended ok for as long as the time",
    "no_worker": "jobs wait for longer than the time, and nobody serves them",
    "quota": "more than N % of a quota is used",
}
_EMPTY: Final = {
    "name": "",
    "type": "",
    "notify": "",
    "kind": "failures",
    "number": "10",
    "time": "10m",
    "at_least": "1",
    "for": "0s",
    "calm": "1m",
}
"""The fields of the form for a new rule."""
_WORDS: Final = {
    "window_s": "the time in seconds",
    "longer_than_s": "the time in seconds",
    "more_than": "N",
    "share_above": "N / 100",
    "at_least": "the number of runs",
    "for_s": "how long it must hold, in seconds,",
    "calm_s": "how long it must not hold, in seconds,",
}
_TIMES: Final = {"time": "the time", "for": "fire after", "calm": "be over after"}
_UNITS: Final = (("d", 86_400), ("h", 3600), ("m", 60))
_MUTES: Final = {"1h": 3600, "8h": 28_800, "1d": 86_400, "7d": 604_800}


@pages.get("/ui/t/{tenant}/alerts", scope="read", live="live/alerts.html")
async def list_alerts(call: PageCall) -> Page:
    rules = await alerts.list_alerts(call.service, call.tenant)
    values = {
        "rows": [_row(rule, call.now_ms) for rule in rules],
        "now_ms": call.now_ms,
        "kinds": KINDS,
        "fields": {**_EMPTY, **call.form},
    }
    return Page("alerts.html", values)


@pages.post("/ui/t/{tenant}/alerts", scope="manage", form=list_alerts)
async def make_alert(call: PageCall) -> Go:
    await alerts.put_alert(call.service, call.who, call.form.get("name", "").strip(), _terms(call.form))
    return Go(f"{call.home}/alerts", "alert_set")


@pages.get("/ui/t/{tenant}/alerts/{alert}", scope="read")
async def show_alert(call: PageCall) -> Page:
    rule = await alerts.get_alert(call.service, call.tenant, call.params["alert"])
    values = {
        "it": _row(rule, call.now_ms),
        "now_ms": call.now_ms,
        "kinds": KINDS,
        "mutes": list(_MUTES),
        "fields": {**_fields(rule), **call.form},
    }
    return Page("alert.html", values)


@pages.post("/ui/t/{tenant}/alerts/{alert}", scope="manage", form=show_alert)
async def change_alert(call: PageCall) -> Go:
    name = (await alerts.get_alert(call.service, call.tenant, call.params["alert"])).name
    await alerts.put_alert(call.service, call.who, name, _terms(call.form))
    return Go(f"{call.home}/alerts/{name}", "alert_set")


@pages.post("/ui/t/{tenant}/alerts/{alert}/mute", scope="manage", form=show_alert)
async def mute_alert(call: PageCall) -> Go:
    for_s = _MUTES.get(call.form.get("mute", ""), 0)
    await alerts.mute_alert(call.service, call.who, call.params["alert"], for_s)
    return Go(f"{call.home}/alerts/{call.params['alert']}", "alert_muted" if for_s else "alert_unmuted")


@pages.post("/ui/t/{tenant}/alerts/{alert}/test", scope="manage", form=show_alert)
async def test_alert(call: PageCall) -> Go:
    return Go(
        f"{call.home}/job/{await alerts.test_alert(call.service, call.who, call.params['alert'])}", "alert_tested"
    )


@pages.post("/ui/t/{tenant}/alerts/{alert}/delete", scope="manage")
async def delete_alert(call: PageCall) -> Go:
    await alerts.delete_alert(call.service, call.who, call.params["alert"])
    return Go(f"{call.home}/alerts", "alert_deleted")


def _row(rule: Rule, now_ms: int) -> dict[str, Any]:
    record, terms, standing = rule
    return {
        "name": record.name,
        "type": terms.type,
        "notify": terms.notify,
        "condition": in_words(terms),
        "state": standing.phase,
        "since_ms": standing.since_ms or record.created_ms,
        "fired_ms": standing.fired_ms,
        "muted_until_ms": standing.muted_until_ms if standing.muted_until_ms > now_ms else 0,
        "trouble": standing.trouble,
    }


def _fields(rule: Rule) -> dict[str, str]:
    """The form of a rule as it is stored."""
    terms = rule.terms
    is_share = terms.when == "failures" and terms.share_above is not None
    return {
        "name": rule.name,
        "type": terms.type,
        "notify": terms.notify,
        "kind": "share" if is_share else terms.when,
        "number": f"{100 * terms.share_above:.6g}" if terms.share_above is not None else str(terms.more_than),
        "time": _duration(terms.window_s or terms.longer_than_s or 600),
        "at_least": str(terms.at_least),
        "for": _duration(terms.for_s),
        "calm": _duration(terms.calm_s),
    }


def _terms(form: dict[str, str]) -> Terms:
    """Raises InvalidInput."""
    kind = form.get("kind", "")
    if kind not in KINDS:
        raise InvalidInput("choose when it fires")
    time_s, for_s, calm_s = (_seconds(form, name) for name in _TIMES)
    given: dict[str, Any] = {
        "type": form.get("type", "").strip() or ("*" if kind == "quota" else ""),
        "notify": form.get("notify", "").strip(),
        "when": "failures" if kind == "share" else kind,
        "for_s": for_s,
        "calm_s": calm_s,
    }
    if kind in {"failures", "share", "silent"}:
        given["window_s"] = time_s
    if kind in {"waiting", "no_worker"}:
        given["longer_than_s"] = time_s
    if kind in {"failures", "backlog"}:
        given["more_than"] = whole_number(form.get("number", "").strip())
    if kind in {"share", "quota"}:
        given["share_above"] = _share(form.get("number", ""))
    if kind == "share":
        given["at_least"] = whole_number(form.get("at_least", "1").strip())
    try:
        return terms_of(msgspec.convert(given, AlertBody))
    except msgspec.ValidationError as error:
        refused = refusal(error, AlertBody, "form")
        field = str(refused.detail.get("field", ""))
        words = _WORDS.get(field, field) + str(refused).removeprefix(field)  # as the form calls it
        raise InvalidInput(words, detail=refused.detail) from None


def _share(text: str) -> float:
    try:
        return float(text.strip().removesuffix("%")) / 100
    except ValueError:
        raise InvalidInput("N is a number of percent", detail={"field": "number"}) from None


def _duration(seconds: int) -> str:
    """As it is typed: `26h`."""
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds and seconds % size == 0), ("s", 1))
    return f"{seconds // size}{unit}"


def _seconds(form: dict[str, str], name: str) -> int:
    try:
        return round(duration(form.get(name, "").strip()))
    except ValueError as error:
        raise InvalidInput(f"{_TIMES[name]}: {error}", detail={"field": name}) from None
