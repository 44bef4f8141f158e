"""Prometheus' text format: one metric with its samples."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def metric(name: str, kind: str, samples: Iterable[tuple[Mapping[str, object], float]]) -> Iterator[str]:
    yield f"# TYPE functory_{name} {kind}"
    for labels, value in samples:
        yield sample(name, labels, value)


def sample(name: str, labels: Mapping[str, object], value: float) -> str:
    inner = ",".join(f'{label}="{_escape(str(text))}"' for label, text in labels.items())
    return f"functory_{name}{{{inner}}} {_number(value)}" if inner else f"functory_{name} {_number(value)}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    """Whole numbers keep all their digits: counters grow past what a short float can tell apart."""
    return str(int(value)) if value == int(value) else repr(value)
