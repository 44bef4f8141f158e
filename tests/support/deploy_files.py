"""The files of `deploy/` as values, and what they say about metrics."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
SYSTEMD: Final = DEPLOY / "systemd"
ALERTS: Final = DEPLOY / "observability" / "alerts.yaml"
DASHBOARD: Final = DEPLOY / "observability" / "grafana" / "dashboards" / "functory.json"

_METRIC: Final = re.compile(r"\bfunctory_[a-z_]+\b")


def load_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def alert_rules() -> list[dict[str, Any]]:
    return [rule for group in load_yaml(ALERTS)["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    board: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return board


def metrics_in(text: str) -> set[str]:
    """The names of ours in an expression."""
    return set(_METRIC.findall(text))


def strings_in(value: Any) -> Iterator[str]:
    """Every string in a document, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)
