"""What was written down during a storm, and reading it back.

| file | written by | holds |
|---|---|---|
| `client.log` | the load client, a process that no fault touches | every request before it is sent, every answer |
| `adversary.log` | the adversary | the same for its own requests, and those that it tore |
| `<daemon>.log` | each daemon's standard error | a line for each job that starts and stops there |
| `observer.log` | the handler itself, where it is not in a sandbox | a line for each execution, by whoever |

Every file is only ever appended to, a line or more in one write. The adversary marks the begin and the end of each
fault in the daemons' and the observer's, so that every line there has its place among the faults: an *epoch*, 2n-1
while fault n lasts and 2n between it and the next. No clock is compared with another, which matters in a storm that
steps them.

Lines of the clients: `S request count` (to be sent; its payloads are `request.0`, `request.1`, ...), `A request id ...`
(acknowledged), `N request reason` (no good answer: its jobs may have been taken or not), `T request count` (torn: never
sent whole, so nothing of it may be taken).
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from tests.storm.plan import Kind

_MARK: Final = re.compile(r"storm\.fault number=(\d+) phase=(begin|end) affects=(\S*) kind=(.*)")
_STARTED: Final = " job.started id="
_STOPPED: Final = " job.stopped id="


class LineFile:
    """Appends whole lines, each write in one piece."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, line: str) -> None:
        os.write(self._fd, f"{line}\n".encode())

    def close(self) -> None:
        os.close(self._fd)


class Mark(NamedTuple):
    number: int
    is_begin: bool
    affects: frozenset[str]
    """The daemons whose deliveries it may cost."""
    kind: Kind

    def line(self) -> str:
        phase = "begin" if self.is_begin else "end"
        return (
            f"storm.fault number={self.number} phase={phase} affects={','.join(sorted(self.affects))} kind={self.kind}"
        )

    @property
    def epoch(self) -> int:
        """Of the lines that follow it."""
        return 2 * self.number - (1 if self.is_begin else 0)


@dataclass(slots=True)
class Requests:
    """What the clients did and were told. Payloads are unique, so that each is known wherever it appears."""

    submitted: set[str] = field(default_factory=set)
    torn: set[str] = field(default_factory=set)
    acknowledged: dict[str, str] = field(default_factory=dict)
    """The payload of each id that a client was told."""
    unanswered: dict[str, int] = field(default_factory=dict)
    """Reasons of no good answer, and how many requests had them."""

    def read(self, lines: Iterable[str]) -> None:
        for line in lines:
            what, request, *rest = line.split(" ")
            match what:
                case "S":
                    self._add(self.submitted, request, int(rest[0]))
                case "T":
                    self._add(self.torn, request, int(rest[0]))
                case "A":
                    self.acknowledged.update({id_: f"{request}.{n}" for n, id_ in enumerate(rest)})
                case "N":
                    reason = " ".join(rest)
                    self.unanswered[reason] = self.unanswered.get(reason, 0) + 1
                case _:
                    continue  # a fault's mark

    def _add(self, to: set[str], request: str, count: int) -> None:
        before = len(self.submitted) + len(self.torn)
        to.update(f"{request}.{n}" for n in range(count))
        assert len(self.submitted) + len(self.torn) == before + count, f"request {request} is there twice"


class Delivery(NamedTuple):
    """A job was handed to a daemon's slot."""

    daemon: str
    attempt: int
    epoch: int


class Stop(NamedTuple):
    """A daemon's outcome of a job was accepted by the store."""

    daemon: str
    attempt: int
    epoch: int
    code: str


class Execution(NamedTuple):
    """The handler itself ran."""

    attempt: int
    payload: str
    epoch: int


class Row(NamedTuple):
    """A job as the store has it in the end."""

    id: str
    code: str
    attempts: int


@dataclass(slots=True)
class Story:
    """All records of one form's storm, by job id."""

    requests: Requests = field(default_factory=Requests)
    deliveries: defaultdict[str, list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    stops: defaultdict[str, list[Stop]] = field(default_factory=lambda: defaultdict(list))
    executions: defaultdict[str, list[Execution]] | None = None
    """None where nobody could observe them."""
    faults: dict[int, Mark] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    payloads: dict[str, str] = field(default_factory=dict)
    """Payloads that were read back from the store, of some jobs and of all that nobody was told about."""

    def read_daemon(self, daemon: str, lines: Iterable[str]) -> None:
        for epoch, line in self._placed(lines):
            if (at := line.find(_STARTED)) >= 0:
                id_, fields = _fields(line[at + len(_STARTED) :])
                self.deliveries[id_].append(Delivery(daemon, int(fields["attempt"]), epoch))
            elif (at := line.find(_STOPPED)) >= 0:
                id_, fields = _fields(line[at + len(_STOPPED) :])
                self.stops[id_].append(Stop(daemon, int(fields["attempt"]), epoch, fields["code"]))

    def read_observer(self, lines: Iterable[str]) -> None:
        found: defaultdict[str, list[Execution]] = defaultdict(list)
        for epoch, line in self._placed(lines):
            if line.startswith("run "):
                _, id_, attempt, payload = line.split(" ")
                found[id_].append(Execution(int(attempt), payload, epoch))
        self.executions = found

    def _placed(self, lines: Iterable[str]) -> Iterator[tuple[int, str]]:
        epoch = 0
        for line in lines:
            if (at := line.find("storm.fault ")) >= 0 and (match := _MARK.match(line, at)):
                affects = frozenset(match[3].split(",")) - {""}
                mark = Mark(int(match[1]), match[2] == "begin", affects, Kind(match[4]))
                self.faults[mark.number] = mark
                epoch = mark.epoch
            else:
                yield epoch, line


def read_lines(path: Path) -> Iterator[str]:
    """Whole lines; a killed writer's last one may be cut and is left out."""
    with path.open(errors="replace") as file:
        for line in file:
            if line.endswith("\n"):
                yield line[:-1]


def history_of(folder: Path, words: Iterable[str]) -> list[str]:
    """Every line about a job, from every file, with the faults in between where the file has a line at all."""
    wanted = tuple(words)
    found: list[str] = []
    for path in sorted(folder.glob("*.log")):
        pending = ""
        for line in read_lines(path):
            if "storm.fault " in line:
                pending = line
            elif any(word in line for word in wanted):
                found += [f"{path.stem}: {text[:300]}" for text in (pending, line) if text]
                pending = ""
    return found


def _fields(text: str) -> tuple[str, dict[str, str]]:
    id_, _, rest = text.partition(" ")
    return id_, dict(pair.split("=", 1) for pair in rest.split(" "))
