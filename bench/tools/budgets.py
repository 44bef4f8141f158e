"""The budgets of the service: the bar, the stretch, the latest figure and the command that measures it.

python -m bench.tools.budgets        (`make bench` and `make bench-peers` show it, too)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.tools.report import load, print_table

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Budget:
    """`measured` finds its figure in the latest results, or raises LookupError when it was not measured."""

    what: str
    bar: float
    measured: Callable[[Results], float]
    is_most: bool = False
    """The bar must not be exceeded; otherwise it must be reached."""
    stretch: float | None = None
    """What we would like; the bar is what we must."""
    command: str = ""
    """Measures it."""

    def row(self, results: Results) -> dict[str, Any]:
        try:
            found = self.measured(results)
        except LookupError:
            return self._row("not measured", "", "")
        margin = self._margin(found, self.bar)
        if self.stretch is not None and self._margin(found, self.stretch) >= 1:
            return self._row(found, margin, "yes, and the stretch")
        return self._row(found, margin, "yes" if margin >= 1 else "NO")

    def _margin(self, found: float, goal: float) -> float:
        return goal / max(found, 1e-9) if self.is_most else found / goal

    def _row(self, measured: object, margin: object, met: str) -> dict[str, Any]:
        sign = "<=" if self.is_most else ">="
        return {
            "budget": self.what,
            "bar": f"{sign} {self.bar:,.12g}",
            "stretch": "" if self.stretch is None else f"{self.stretch:,.12g}",
            "measured": measured,
            "times the bar": margin,
            "met": met,
            "command": self.command,
        }


def cell(bench: str, table: int, column: str, **where: object) -> Callable[[Results], float]:
    """A figure of a table (by its place in the bench) in the first row that has these values; `_` is for a blank."""

    def find(results: Results) -> float:
        rows = list(results[bench]["tables"].values())[table]
        for row in rows:
            if all(row[name.replace("_", " ")] == value for name, value in where.items()) and row[column] is not None:
                return float(row[column])
        raise LookupError(column)

    return find


def share(part: Callable[[Results], float], whole: Callable[[Results], float]) -> Callable[[Results], float]:
    return lambda results: part(results) / whole(results)


def beside_peers(column: str, *, only_queues: bool) -> Callable[[Results], float]:
    """Ours in times the fastest peer; `only_queues` is beanstalkd, which runs nothing, and otherwise all the others."""

    def find(results: Results) -> float:
        rows = [row for row in next(iter(results["peers"]["tables"].values())) if row[column] is not None]
        ours = next(row[column] for row in rows if row["queue"] == "Functory")
        bare = {row["queue"]: row for row in rows if row["queue"].startswith("beanstalkd")}
        if only_queues:
            return float(ours / bare["beanstalkd"]["drained/s"])
        peers = [row[column] for row in rows if row["queue"] not in {*bare, "Functory"}]
        if not peers:
            raise LookupError("no peer was measured")
        return float(ours / max(peers))

    return find


HTTP: Final = "python -m bench http"
PEERS: Final = "make bench-peers"
LATENCY: Final = "python -m bench latency"
RUNNER: Final = "python -m bench runner"
FAIRNESS: Final = "python -m bench fairness"
GROWTH: Final = "python -m bench growth"
CONSUMERS: Final = "python -m bench consumers"
SINGLE: Final = "python -m bench single"
ACROSS: Final = "python -m bench across"
BEDROCK: Final = "python -m bench bedrock"
SHARED: Final = "python -m bench shared"

BUDGETS: Final = (
    Budget(
        "one line a POST, 64 connections, share of a bare aiohttp POST",
        0.7,
        cell("http", 0, "of bare", server="daemon", connections=64),
        stretch=0.9,
        command=HTTP,
    ),
    Budget(
        "one line a POST, one caller, share of a bare aiohttp POST",
        0.5,
        cell("http", 0, "of bare", server="daemon", connections=1),
        stretch=0.7,
        command=HTTP,
    ),
    Budget(
        "1,000 lines a POST, jobs/s", 300_000, cell("http", 1, "jobs/s", server="daemon"), stretch=1e6, command=HTTP
    ),
    Budget(
        "end to end, times the fastest Python or Node peer",
        7.0,
        beside_peers("end to end/s", only_queues=False),
        stretch=10.0,
        command=PEERS,
    ),
    Budget(
        "end to end, times beanstalkd's reserve+delete",
        1.5,
        beside_peers("end to end/s", only_queues=True),
        stretch=2.0,
        command=PEERS,
    ),
    Budget(
        "bulk enqueue, times the fastest Python or Node peer",
        10.0,
        beside_peers("bulk/s", only_queues=False),
        command=PEERS,
    ),
    Budget(
        "one job into an idle system, p50 ms",
        2.0,
        cell("latency", 0, "p50 ms", system="idle"),
        is_most=True,
        stretch=1.0,
        command=LATENCY,
    ),
    Budget(
        "one job into an idle system, p99 ms",
        10.0,
        cell("latency", 0, "p99 ms", system="idle"),
        is_most=True,
        stretch=5.0,
        command=LATENCY,
    ),
    Budget(
        "posted to one daemon, run by another, waited for on the first, SQLite, p50 ms",
        30.0,
        cell("across", 0, "p50 ms", system="sqlite, told: POST to result"),
        is_most=True,
        command=ACROSS,
    ),
    Budget(
        "the same, MongoDB, p50 ms",
        30.0,
        cell("across", 0, "p50 ms", system="mongodb, told: POST to result"),
        is_most=True,
        command=ACROSS,
    ),
    Budget(
        "POST and wait, 8 tenants, jobs/s",
        2000.0,
        cell("single", 0, "jobs/s", who="8 tenants, add?wait_s"),
        stretch=4000.0,
        command=SINGLE,
    ),
    Budget(
        "POST and wait, 8 tenants, processor time of a job, ms",
        0.6,
        cell("single", 0, "processor ms", who="8 tenants, add?wait_s"),
        is_most=True,
        stretch=0.3,
        command=SINGLE,
    ),
    Budget(
        "POST and wait in one request, p50, times a bare aiohttp POST",
        6.0,
        cell("single", 0, "of bare", who="1 tenant, add?wait_s"),
        is_most=True,
        stretch=4.0,
        command=SINGLE,
    ),
    Budget(
        "invoke of a warm handler, 8 tenants, calls/s",
        2000.0,
        cell("single", 0, "jobs/s", who="8 tenants, invoke"),
        command=SINGLE,
    ),
    Budget(
        "invoke of a warm handler, one caller, p50 ms",
        0.8,
        cell("single", 0, "p50 ms", who="1 tenant, invoke"),
        is_most=True,
        command=SINGLE,
    ),
    *(
        Budget(
            f"a flood beside {quiet} quiet tenants, share of the flood alone",
            0.9,
            cell("single", 1, "of the flood alone", quiet_tenants=quiet),
            stretch=0.95,
            command=SINGLE,
        )
        for quiet in (1, 10)
    ),
    Budget(
        "GetJob + FinishJob pairs, 64 connections, times beanstalkd's reserve+delete with syncs",
        1.0,
        cell("bedrock", 0, "times beanstalkd", queue="functory", connections=64),
        command=BEDROCK,
    ),
    *(
        Budget(
            f"cold start {language}, p50 ms",
            bar,
            cell("runner", 1, "p50 ms", language=language),
            is_most=True,
            stretch=stretch,
            command=RUNNER,
        )
        for language, bar, stretch in (("python", 3.0, 1.0), ("node", 60.0, 30.0), ("wasm", 2.0, 0.5))
    ),
    Budget(
        "a connection through the proxy, more than direct, median ms",
        1.0,
        cell("proxy", 0, "more than direct ms", way="through the proxy"),
        is_most=True,
        command="python -m bench proxy",
    ),
    *(
        Budget(
            f"quiet tenant's p95 beside a flood of {flood}, times idle",
            1.5,
            cell("fairness", 0, "p95, times idle", flood_of=flood),
            is_most=True,
            stretch=1.2,
            command=FAIRNESS,
        )
        for flood in ("no-ops", "jobs of 200 ms")
    ),
    Budget(
        "jobs/s of 1,000 types, share of one type",
        0.5,
        share(
            cell("endtoend", 0, "jobs/s", jobs_are="python, 100 tenants x 10 types"),
            cell("endtoend", 0, "jobs/s", jobs_are="python"),
        ),
        stretch=0.8,
        command="python -m bench endtoend",
    ),
    Budget(
        "jobs/s with a result of 1 KB, share of no result",
        0.7,
        share(
            cell("endtoend", 0, "jobs/s", jobs_are="python, result 1024 B"),
            cell("endtoend", 0, "jobs/s", jobs_are="python"),
        ),
        command="python -m bench endtoend",
    ),
    *(
        Budget(
            f"through FerretDB, {daemons} daemons, jobs/s",
            bar,
            cell("shared", 0, "jobs/s", daemons=daemons),
            command=SHARED,
        )
        for daemons, bar in ((1, 3000.0), (2, 4260.0), (3, 3150.0))
    ),
    Budget(
        "through FerretDB, three daemons, share of two",
        1.0,
        share(cell("shared", 0, "jobs/s", daemons=3), cell("shared", 0, "jobs/s", daemons=2)),
        command=SHARED,
    ),
    Budget(
        "cost of a job beside 10 million waiting, times 10 thousand",
        1.2,
        cell("growth", 0, "times the first", waiting=10_000_000),
        is_most=True,
        stretch=1.1,
        command=GROWTH,
    ),
    Budget(
        "consumer of a numbered type, share of the plain queue's throughput",
        0.5,
        cell("consumers", 0, "of plain", queue="numbered"),
        command=CONSUMERS,
    ),
    Budget(
        "cost of an index with 100 thousand held, times 10 thousand",
        1.2,
        cell("consumers", 1, "times the first", held=100_000),
        is_most=True,
        command=CONSUMERS,
    ),
    Budget(
        "daemon's memory with 10 million waiting, MB",
        150.0,
        cell("growth", 0, "memory at most MB", waiting=10_000_000),
        is_most=True,
        stretch=100.0,
        command=GROWTH,
    ),
)


def budget_rows() -> list[dict[str, Any]]:
    results = load()
    return [each.row(results) for each in BUDGETS]


def print_budgets() -> None:
    print_table("budgets", "the bars of the design, and the latest figures", budget_rows())


if __name__ == "__main__":
    print_budgets()
