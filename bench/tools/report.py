"""What every bench shares: a table for people, one JSON object with `--json`, and the facts of the machine."""

import argparse
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import functory
from functory.cli.table import render_table

Table = Sequence[Mapping[str, Any]]

RESULTS: Final = Path(__file__).parents[1] / "results" / "latest.json"
SYNCED: Final = "journal: fdatasync before every acknowledgement; SQLite: WAL, synchronous=FULL"


class Report:
    """Collects the tables of one bench. Each row is a mapping of column to value, the same columns in all rows."""

    def __init__(self, name: str, *, as_json: bool) -> None:
        self._name = name
        self._as_json = as_json
        self._tables: dict[str, Table] = {}

    def table(self, title: str, rows: Table) -> None:
        self._tables[title] = list(rows)
        if not self._as_json:
            print_table(self._name, title, rows)

    def finish(self) -> None:
        if self._as_json:
            print(json.dumps({"bench": self._name, "machine": machine(), "tables": self._tables}))


def print_table(name: str, title: str, rows: Table) -> None:
    if rows:
        print(f"\n{name}: {title}\n")
        print(render_table(list(rows[0]), [[show(value) for value in row.values()] for row in rows]), flush=True)


def parse_arguments(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    return parser.parse_args(argv)


def save(results: Sequence[Mapping[str, Any]], path: Path = RESULTS) -> None:
    """Put what benches have printed with `--json` into the file of the latest results.

    Benches that were not run this time keep their older figures, each with its own date. Ensures: the file is whole
    at every moment.
    """
    latest = load(path)
    latest |= {result["bench"]: result for result in results}
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(latest, indent=1) + "\n")
    draft.replace(path)


def load(path: Path = RESULTS) -> dict[str, Any]:
    """The latest results by bench; none if there are none."""
    try:
        latest: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return latest


def machine() -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "file system": _file_system(tempfile.gettempdir()),
        "sync": SYNCED,
        "versions": {
            "functory": functory.__version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("aiohttp", "apsw", "wasmtime")},
            "node": _node_version(),
        },
        "command": " ".join(sys.argv[1:]),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _file_system(path: str) -> str:
    """Of the mount that the path is on."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    covering = [(mount[1], mount[2]) for mount in mounts if Path(path).is_relative_to(mount[1])]
    return max(covering, key=lambda mount: len(mount[0]))[1] if covering else "unknown"


def _node_version() -> str:
    node = shutil.which("node")
    return (
        subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip() if node else ""
    )


def show(value: object) -> object:
    """Ratios and small numbers keep their digits, large ones lose them; what was not measured is a dash."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return round(value) if value >= 100 else round(value, 2)
    return value


def quantile(values: Sequence[float], q: float) -> float:
    """The least of the values that at least the share `q` of them does not exceed (the nearest rank)."""
    ordered = sorted(values)
    return ordered[max(math.ceil(q * len(ordered)) - 1, 0)]
