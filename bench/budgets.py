"""The budgets of the service: the bar, what was measured in the latest run, and how far the one is from the other.

python -m bench.budgets        (`make bench` and `make bench-peers` show it, too)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.report import load, print_table

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Budget:
    """`measured` finds its figure in the latest results, or raises LookupError when it was not measured."""

    what: str
    bar: float
    measured: Callable[[Results], float]
    is_most: bool = False
    """The bar must not be exceeded; otherwise it must be reached."""

    def row(self, results: Results) -> dict[str, Any]:
        try:
            found = self.measured(results)
        except LookupError:
            return self._row("not measured", "", "")
        margin = self.bar / max(found, 1e-9) if self.is_most else found / self.bar
        return self._row(found, margin, "yes" if margin >= 1 else "NO")

    def _row(self, measured: object, margin: object, met: str) -> dict[str, Any]:
        sign = "<=" if self.is_most else ">="
        return {
            "budget": self.what,
            "bar": f"{sign} {self.bar:,g}",
            "measured": measured,
            "times the bar": margin,
            "met": met,
        }


def cell(bench: str, table: int, column: str, **where: object) -> Callable[[Results], float]:
    """A figure of a table (by its place in the bench) in the first row that has these values; `_` is for a blank."""

    def find(results: Results) -> float:
        rows = list(results[bench]["tables"].values())[table]
        for row in rows:
            if all(row[name.replace("_", " ")] == value for name, value in where.items()):
                return float(row[column])
        raise LookupError(column)

    return find


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


BUDGETS: Final = (
    Budget(
        "one line a POST, of a bare aiohttp POST: web and journal",
        0.6,
        cell("http", 0, "of bare", server="web", connections=64),
    ),
    Budget(
        "one line a POST, of a bare aiohttp POST: the whole daemon",
        0.6,
        cell("http", 0, "of bare", server="daemon", connections=64),
    ),
    Budget("1,000 lines a POST, jobs/s", 150_000, cell("http", 1, "jobs/s", server="daemon")),
    Budget("end to end, times the fastest Python or Node peer", 2.0, beside_peers("end to end/s", only_queues=False)),
    Budget("end to end, times beanstalkd's reserve+delete", 1.0, beside_peers("end to end/s", only_queues=True)),
    Budget("bulk enqueue, times the fastest Python or Node peer", 10.0, beside_peers("bulk/s", only_queues=False)),
    Budget("one job into an idle system, p50 ms", 5.0, cell("latency", 0, "p50 ms", system="idle"), is_most=True),
    Budget("one job into an idle system, p99 ms", 20.0, cell("latency", 0, "p99 ms", system="idle"), is_most=True),
    Budget("cold start python, p50 ms", 15.0, cell("runner", 1, "p50 ms", language="python"), is_most=True),
    Budget("cold start node, p50 ms", 120.0, cell("runner", 1, "p50 ms", language="node"), is_most=True),
    Budget("cold start wasm, p50 ms", 2.0, cell("runner", 1, "p50 ms", language="wasm"), is_most=True),
    Budget(
        "quiet tenant's p95 beside a flood of no-ops, times idle",
        2.0,
        cell("fairness", 0, "p95, times idle", flood_of="no-ops"),
        is_most=True,
    ),
    Budget(
        "quiet tenant's p95 beside a flood of long jobs, times idle",
        2.0,
        cell("fairness", 0, "p95, times idle", flood_of="jobs of 200 ms"),
        is_most=True,
    ),
    Budget(
        "cost of a job beside 10 million waiting, times 10 thousand",
        1.5,
        cell("growth", 0, "times the first", waiting=10_000_000),
        is_most=True,
    ),
    Budget(
        "daemon's memory with 10 million waiting, MB",
        200.0,
        cell("growth", 0, "memory at most MB", waiting=10_000_000),
        is_most=True,
    ),
)


def budget_rows() -> list[dict[str, Any]]:
    results = load()
    return [each.row(results) for each in BUDGETS]


def print_budgets() -> None:
    print_table("budgets", "the bars of the design, and the latest figures", budget_rows())


if __name__ == "__main__":
    print_budgets()
