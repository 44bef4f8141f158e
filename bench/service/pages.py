"""What looking at the pages costs the daemon: processor time a look with 1,000 types, all busy in every minute.

    python -m bench.service.pages [--archived N ...] [--types N] [--directory DIR] [--json]

The worst case on purpose: every type ended jobs in every minute that is kept. The daemon's side has its own process
(`pages_site.py`). Its processor time counts: event loop and store, without the reader. "first" is the first look after
a start, the median of some starts; the others are looks that no cache helps. "best fifth" is the 20th percentile: on a
shared machine the processor itself is slower at times. "longest piece" is the longest time that a look held the event
loop, for which others wait.
"""

import argparse
import asyncio
import http.client
import http.cookies
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.service.pages_fill import TENANT, fill
from bench.service.pages_site import KEYS, Spent
from bench.tools.report import Report, parse_arguments, quantile
from store.url import open_store

NOW_MS: Final = 1_800_000_000_000 + 30 * 60_000
"""In the middle of an hour, where the last sixty minutes are furthest from the hours that are kept."""
ARCHIVED: Final = (60_000,)
TYPES: Final = 1000
ROUNDS: Final = 15
STARTS: Final = 5
_PAST_EVERY_CACHE_S: Final = 11.0
_QUIET_MS: Final = 0.5
_TOKEN: Final = re.compile(r'name="token" value="([^"]*)"')

_HOME: Final = f"/ui/t/{TENANT}"
PAGES: Final = {
    "scoreboard": _HOME,
    "scoreboard, live part": f"{_HOME}/~live",
    "scoreboard, next page": f"{_HOME}?from=50",
    "scoreboard, filtered": f"{_HOME}?q=type01",
    "scoreboard, failing types": f"{_HOME}?show=failing",
    "scoreboard by waiting": f"{_HOME}?sort=waiting",
    "scoreboard by rate": f"{_HOME}?sort=rate",
    "scoreboard by ok": f"{_HOME}?sort=ok",
    "scoreboard by failed": f"{_HOME}?sort=failed",
    "scoreboard by failed, live part": f"{_HOME}/~live?sort=failed",
    "jobtype": f"{_HOME}/type/type0007",
    "jobs": f"{_HOME}/jobs",
    "jobs that failed": f"{_HOME}/jobs?code=failed",
    "jobs that failed or were abandoned": f"{_HOME}/jobs?code=failed,abandoned",
    "jobs of a type": f"{_HOME}/jobs?type=type0007",
    "jobs of a type that failed": f"{_HOME}/jobs?type=type0007&code=failed",
    "jobs that wait": f"{_HOME}/jobs?state=waiting",
    "jobs before the last minute": f"{_HOME}/jobs?until_ms={NOW_MS - 60_000}",
    "failures": f"{_HOME}/failures",
    "failures, all": f"{_HOME}/failures?window=all",
    "operator: tenants": "/ui/operator",
    "operator: queues": "/ui/operator/queues",
}
_KEYS: Final = {
    "scoreboard, live part": "live",
    "scoreboard by failed, live part": "live by failed",
    "operator: tenants": "operator",
    "operator: queues": "operator",
}
FIRST: Final = ("scoreboard", "scoreboard by failed", "scoreboard by ok", "jobtype", "jobs", "failures")


class Daemon:
    """The process that serves the pages, and its processor time."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.said: dict[str, Any] = self._hear()
        self.start_ms = self._settle()

    def spent(self, advance_s: float = 0.0) -> Spent:
        """Since it was asked last; then its clock goes forward."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{advance_s}\n")
        self._process.stdin.flush()
        return Spent(**self._hear())

    def _settle(self) -> float:
        """What it does by itself once it has started, until it has done it."""
        total_ms = 0.0
        while True:
            time.sleep(0.3)
            last_ms = self.spent().cpu_ms
            total_ms += last_ms
            if last_ms < _QUIET_MS:
                return total_ms

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said


@contextmanager
def started(folder: Path) -> Iterator[Daemon]:
    command = [sys.executable, "-m", "bench.service.pages_site", str(folder), str(NOW_MS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Daemon(process)


class Reader:
    """A browser, as far as the daemon can tell. Signed in with one of the keys."""

    def __init__(self, daemon: Daemon, key: str) -> None:
        self._daemon = daemon
        self._host = urllib.parse.urlsplit(daemon.said["url"]).netloc
        self._kept = http.client.HTTPConnection(self._host)
        self._cookies = http.cookies.SimpleCookie()
        self._streams = 0
        self._way = -1
        token = _TOKEN.findall(self.read("/ui/signin"))[-1]
        self._ask("POST", "/ui/signin", urllib.parse.urlencode({"token": token, "key": daemon.said[key], "next": ""}))

    def read(self, path: str) -> str:
        return self._ask("GET", path, status=200)

    def look(self, path: str) -> tuple[Spent, int]:
        """At a page, or at the first event of a live part: what it cost and how long it was."""
        self._daemon.spent()
        size = self._first_event(path) if "/~live" in path else len(self.read(path))
        self._way = -self._way  # there and back: the last hour stays the one that was filled
        return self._daemon.spent(self._way * _PAST_EVERY_CACHE_S), size

    def _ask(self, method: str, path: str, form: str | None = None, status: int = 303) -> str:
        headers = {"Cookie": self._sent_cookies()}
        if form is not None:
            headers |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{self._host}"}
        self._kept.request(method, path, form, headers)
        answer = self._kept.getresponse()
        text = answer.read().decode()
        assert answer.status == status, (path, answer.status, text)
        for cookie in answer.headers.get_all("Set-Cookie", []):
            self._cookies.load(cookie)
        return text

    def _sent_cookies(self) -> str:
        return "; ".join(f"{name}={it.value}" for name, it in self._cookies.items())

    def _first_event(self, path: str) -> int:
        """Every look has an address of its own: what others see already would not be made again."""
        self._streams += 1
        path += f"{'&' if '?' in path else '?'}look={self._streams}"
        connection = http.client.HTTPConnection(self._host)
        connection.request("GET", path, headers={"Cookie": self._sent_cookies()})
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        line = b""
        while not line.startswith(b"data: "):
            line = answer.readline()
        connection.close()
        return len(line)


def measure(folder: Path) -> tuple[list[dict[str, Any]], float]:
    """A row a page; what the daemon did by itself when it had been started."""
    first: dict[str, float] = {}
    at_start_ms = []
    for name in FIRST:
        costs_ms = []
        for _ in range(STARTS):
            with started(folder) as daemon:
                costs_ms.append(Reader(daemon, "tenant").look(PAGES[name])[0].cpu_ms)
                at_start_ms.append(daemon.start_ms)
        first[name] = statistics.median(costs_ms)
    rows = []
    with started(folder) as daemon:
        readers = {key: Reader(daemon, key) for key in ("operator", *KEYS)}
        example = re.findall(rf'"({_HOME}/job/[^"]*)"', readers["tenant"].read(f"{_HOME}/jobs"))[0]
        for name, path in {**PAGES, "job": example}.items():
            reader = readers[_KEYS.get(name, "tenant")]
            looks = [reader.look(path) for _ in range(ROUNDS)]
            rows.append(
                {
                    "page": name,
                    "first ms": first.get(name),
                    "best fifth ms": quantile([spent.cpu_ms for spent, _ in looks], 0.2),
                    "median ms": statistics.median(spent.cpu_ms for spent, _ in looks),
                    "longest piece ms": statistics.median(spent.piece_ms for spent, _ in looks),
                    "kB": round(looks[-1][1] / 1000),
                }
            )
    return rows, statistics.median(at_start_ms)


async def make_tables(path: Path) -> None:
    async with open_store(f"sqlite://{path}"):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.pages", description=__doc__)
    parser.add_argument("--archived", type=int, nargs="+", default=ARCHIVED, help="jobs that have ended, to compare")
    parser.add_argument("--types", type=int, default=TYPES)
    parser.add_argument("--directory", type=Path, help="where the data is (default: a temporary folder)")
    arguments = parse_arguments(parser, None)
    report = Report("pages", as_json=arguments.json)
    for archived in sorted(arguments.archived):
        with tempfile.TemporaryDirectory(prefix="bench-pages-", dir=arguments.directory) as name:
            path = Path(name, "store.db").absolute()
            asyncio.run(make_tables(path))
            fill(path, arguments.types, archived, NOW_MS)
            rows, at_start_ms = measure(path.parent)
        title = f"{arguments.types:,} types, {archived:,} archived jobs; {at_start_ms:.1f} ms once after the start"
        report.table(title, rows)
    report.finish()


if __name__ == "__main__":
    main()
