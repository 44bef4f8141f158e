"""What every bench shares: a table for people, one JSON object with `--json`, and the facts of the machine."""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from typing import Any

import functory
from functory.cli.table import render_table


class Report:
    """Collects the tables of one bench. Each row is a mapping of column to value, the same columns in all rows."""

    def __init__(self, name: str, *, as_json: bool) -> None:
        self._name = name
        self._as_json = as_json
        self._tables: dict[str, list[dict[str, Any]]] = {}

    def table(self, title: str, rows: Sequence[dict[str, Any]]) -> None:
        self._tables[title] = list(rows)
        if not self._as_json and rows:
            print(f"\n{self._name}: {title}\n")
            print(render_table(list(rows[0]), [[show(value) for value in row.values()] for row in rows]), flush=True)

    def finish(self) -> None:
        if self._as_json:
            print(json.dumps({"bench": self._name, "machine": machine(), "tables": self._tables}))


def parse_arguments(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    return parser.parse_args(argv)


def machine() -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "functory": functory.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
        "command": " ".join(sys.argv[1:]),
    }


def show(value: object) -> object:
    """Ratios and small numbers keep their digits, large ones lose them."""
    if isinstance(value, float):
        return round(value) if value >= 100 else round(value, 2)
    return value


def quantile(values: Sequence[float], q: float) -> float:
    """The value below which the share `q` of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]
