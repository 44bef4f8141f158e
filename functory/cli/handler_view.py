"""A handler in a terminal: its settings in lines. What tenants wrote is shown as inert text."""

from collections.abc import Mapping
from typing import Any, Final

from functory.cli.answers import counted, inert, moment
from functory.wire.handlers import Handler

_WIDTH: Final = 11
_HOOKS: Final = {"before": "before", "beforeEach": "before each", "afterEach": "after each"}


def settings_text(handler: Handler) -> str:
    """A line for each setting; those that say nothing are left out."""
    found = handler.handler
    facts = {
        "type": handler.type,
        "version": f"{handler.version}" + (f", copy of {handler.restored_from}" if handler.restored_from else ""),
        "registered": f"{moment(handler.created_ms)} by key {handler.author}",
        "language": found["lang"],
        "folder": found.get("entry") and f"its entry is {found['entry']}",
        "timeout": f"{found['timeout_s']:g} s" if found["timeout_s"] else "",
        "memory": f"{found['memory_mb']} MiB" if found["memory_mb"] else "",
        "network": "yes" if found["network"] else "",
        "hosts": " ".join(found["hosts"]),
        "secrets": " ".join(found["secrets"]),
        "packages": _packages(handler),
        "returns": "a whole number is a status" if found["returns"] == "status" else "",
        "then": found["then"],
        "on failure": found["on_failure"],
        "keep": found["keep"] if found["keep"] != "all" else "",
        "rate domain": found.get("domain", ""),
        "options": _pairs(found["options"]),
        "env": _pairs(found["env"]),
        "eid": found["eid"],
    } | {words: _lines(found[name]) for name, words in _HOOKS.items()}
    return "\n".join(f"{name:{_WIDTH}}  {_inert(value)}" for name, value in facts.items() if value)


def _packages(handler: Handler) -> str:
    lock = handler.handler.get("lock") or {"packages": []}
    names = ", ".join(f"{package['name']} {package['version']}" for package in lock["packages"])
    if handler.packages is None:
        return names
    state = ": ".join(filter(None, (handler.packages.state, handler.packages.text)))
    return f"{names} ({state})" if names else state


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(
        f"{name}={str(value).lower() if value in (True, False) else value}" for name, value in values.items()
    )


def _lines(code: str) -> str:
    return counted(len(code.splitlines()), "line") if code else ""


def _inert(value: object) -> str:
    return inert(str(value).replace("\n", " ").encode("utf-8", "replace"))
