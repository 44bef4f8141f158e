"""A condition in words, and the payload of a notification. docs/alerts.md has the fields: they stay."""

from typing import Any, Final

import msgspec

from functory.alerts.standing import Told
from functory.alerts.terms import Terms

_UNITS: Final = (("day", 86_400), ("hour", 3600), ("minute", 60))
_FIELDS: Final = {
    "failures": ("more_than", "window_s"),
    "waiting": ("longer_than_s",),
    "backlog": ("more_than",),
    "silent": ("window_s",),
    "no_worker": ("longer_than_s",),
    "quota": ("share_above",),
}
_HEADS: Final[dict[Told, str]] = {"firing": "FIRING", "resolved": "RESOLVED", "test": "TEST"}


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """What a notification says beside its rule."""

    name: str
    state: Told
    at_ms: int
    since_ms: int
    """When the rule began to fire."""
    value: float


def condition_of(terms: Terms) -> dict[str, Any]:
    """The settings that count for what the rule watches for."""
    fields = _FIELDS[terms.when]
    if terms.when == "failures" and terms.share_above is not None:
        fields = ("share_above", "at_least", "window_s")
    return {"when": terms.when} | {field: getattr(terms, field) for field in fields}


def in_words(terms: Terms) -> str:
    """`more than 5 failures in 10 minutes`"""
    if terms.when == "failures":
        return f"more than {_failures(terms)} in {_span(terms.window_s)}"
    if terms.when == "waiting":
        return f"a job waits for more than {_span(terms.longer_than_s)}"
    if terms.when == "backlog":
        return "more than 1 job waits" if terms.more_than == 1 else f"more than {terms.more_than} jobs wait"
    if terms.when == "silent":
        return f"no job ended ok in {_span(terms.window_s)}"
    if terms.when == "quota":
        return f"more than {terms.share_above or 0:.4g} of a quota is used"
    return f"jobs wait, and nobody has served them for more than {_span(terms.longer_than_s)}"


def _failures(terms: Terms) -> str:
    if terms.share_above is None:
        return "1 failure" if terms.more_than == 1 else f"{terms.more_than} failures"
    least = f" of at least {terms.at_least} runs" if terms.at_least > 1 else ""
    return f"{terms.share_above:.4g} failed{least}"


def payload_of(tenant: str, terms: Terms, telling: Telling) -> str:
    return msgspec.json.encode(
        {
            "alert": telling.name,
            "state": telling.state,
            "tenant": tenant,
            "type": terms.type,
            "condition": condition_of(terms),
            "value": telling.value,
            "since_ms": telling.since_ms,
            "at_ms": telling.at_ms,
            "text": f"{_HEADS[telling.state]} {telling.name}: {terms.type}: {in_words(terms)}",
        }
    ).decode()


def _span(seconds: int) -> str:
    """`90 seconds`, `10 minutes`, `1 day`"""
    for unit, size in _UNITS:
        if seconds >= size and seconds % size == 0:
            return _counted(seconds // size, unit)
    return _counted(seconds, "second")


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"
