"""Structured logging: an event and its fields on one line, as `key=value` for people or as JSON for programs.

Everything logs through the standard library: `log.info("journal.recovered", extra={"segment": 3})`. Fields may hold
what tenants sent, so no value can break the line, forge a field or reach a terminal as a control sequence. A trace is
a field like the others, or, for people at a terminal, lines of their own below its event; it has a longest length.
What says again and again that the store is away is told once a minute.
"""

import json
import logging
import re
import sys
from collections.abc import Mapping
from typing import Final, Literal, TextIO

from vocabulary.time_text import iso_time

Style = Literal["text", "json"]

_PLAIN: Final = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_LONGEST_TRACE: Final = 16_000
"""Characters: its beginning and its end are kept."""
_OUTAGE: Final = ".store_unavailable"
_TOLD_EVERY_S: Final = 60.0
_QUIET_S: Final = 10.0
"""Who has said nothing of an outage for so long means another one."""
_STANDARD_FIELDS: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


def configure_logging(
    style: Style = "text", level: str = "INFO", stream: TextIO | None = None, *, has_traces_below: bool = False
) -> None:
    """Send all logging to `stream` (standard error by default) in one style, replacing what was set up before."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter(style, has_traces_below=has_traces_below))
    handler.addFilter(OutagePace())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)


class OutagePace(logging.Filter):
    """While the store is away many loops find that out several times a second. Each of them is heard once a minute, and
    says then how often it was not (`left_out`)."""

    def __init__(self) -> None:
        super().__init__()
        self._heard: dict[str, tuple[float, float, int]] = {}
        """By event: when it was told, when it came last, how often it was left out since it was told."""

    def filter(self, record: logging.LogRecord) -> bool:
        event, now_s = str(record.msg), record.created
        if not event.endswith(_OUTAGE):
            return True
        told_s, last_s, left_out = self._heard.get(event, (0.0, 0.0, 0))
        if 0 <= now_s - told_s < _TOLD_EVERY_S and now_s - last_s < _QUIET_S:
            self._heard[event] = told_s, now_s, left_out + 1
            return False
        self._heard[event] = now_s, now_s, 0
        if left_out:
            record.left_out = left_out
        return True


class LineFormatter(logging.Formatter):
    def __init__(self, style: Style, *, has_traces_below: bool = False) -> None:
        """has_traces_below: a trace is not a field, but stands below the line, indented."""
        super().__init__()
        self._line_style: Style = style
        self._has_traces_below = has_traces_below

    def format(self, record: logging.LogRecord) -> str:
        fields = {name: value for name, value in record.__dict__.items() if name not in _STANDARD_FIELDS}
        trace = _shortened(self.formatException(record.exc_info)) if record.exc_info else ""
        if trace and not self._has_traces_below:
            fields["trace"] = trace
        time_ms = int(record.created * 1000)
        line = format_line(self._line_style, time_ms, record.levelname, record.getMessage(), fields)
        return line + _indented(trace) if self._has_traces_below else line


def format_line(style: Style, time_ms: int, level: str, event: str, fields: Mapping[str, object]) -> str:
    """One line of log, without its newline."""
    moment = iso_time(time_ms)
    if style == "json":
        return json.dumps({"time": moment, "level": level, "event": event, **fields}, default=str)
    text = "".join(f" {name}={format_value(value)}" for name, value in fields.items())
    return f"{moment} {level} {event if _PLAIN.fullmatch(event) else format_value(event)}{text}"


def format_value(value: object) -> str:
    """The value itself if it is a plain word; otherwise quoted, with everything unusual escaped."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _shortened(trace: str) -> str:
    if len(trace) <= _LONGEST_TRACE:
        return trace
    half = _LONGEST_TRACE // 2
    return f"{trace[:half]}\n[{len(trace) - 2 * half} characters left out]\n{trace[-half:]}"


def _indented(trace: str) -> str:
    """Each line on one of its own, which no line of the log begins like."""
    return "".join(f"\n    {_printable(line)}" for line in trace.expandtabs(4).splitlines())


def _printable(line: str) -> str:
    return "".join(it if it.isprintable() else it.encode("unicode_escape").decode() for it in line)
