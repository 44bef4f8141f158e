"""`python -m bench [NAME ...]`: the benches in turn, each in a process of its own, so that none measures another.

Tables as they come, all of them in bench/results/latest.json, and the budgets at the end. Sizes are chosen so that all
of it takes less than ten minutes on two cores; a bench on its own (`python -m bench.parts.store`) does more by default.
"""

import argparse
import json
import subprocess
import sys
import time
from typing import Final

from bench.tools.budgets import print_budgets
from bench.tools.report import RESULTS, print_table, save

BENCHES: Final = {
    "http": ("service", ["--seconds", "2"]),
    "endtoend": ("service", ["--all"]),
    "latency": ("service", []),
    "fairness": ("service", []),
    "single": ("service", []),
    "across": ("service", ["--jobs", "100", "--polled", "5"]),
    "growth": ("service", []),
    "keys": ("service", []),
    "rates": ("service", ["--seconds", "5"]),
    "consumers": ("service", ["--held", "10000", "100000"]),
    "types": ("service", ["--tenants", "100", "--rates", "50", "100", "--seconds", "5"]),
    "bedrock": ("service", ["--jobs", "2000", "--rounds", "2"]),
    "runner": ("parts", ["--seconds", "0.3", "--contexts", "50"]),
    "sandbox": ("parts", ["--rounds", "10", "--contexts", "50"]),
    "journal": ("parts", ["--lines", "300000"]),
    "store": ("parts", ["--rounds", "2", "--waiting", "10000", "1000000", "--types", "1"]),
    "domains": ("parts", ["--domains", "100", "20000"]),
    "proxy": ("parts", ["--rounds", "300", "--megabytes", "128"]),
    "scheduler": ("parts", ["--types", "10000"]),
    "scaling": ("service", []),
    "shared": ("service", ["--jobs", "5000"]),
}
"""By name: the package and the options."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; all of them if left out")
    names = parser.parse_args().names or list(BENCHES)
    if unknown := set(names) - BENCHES.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    failed = [name for name in names if not run(name)]
    print_budgets()
    print(f"\nAll figures: {RESULTS}")
    if failed:
        print(f"Failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


def run(name: str) -> bool:
    """One bench; its tables are shown and kept. A bench that fails does not take the others with it."""
    began_s = time.monotonic()
    package, options = BENCHES[name]
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{package}.{name}", "--json", *options], stdout=subprocess.PIPE, check=False
    )
    if done.returncode != 0:
        return False
    result = json.loads(done.stdout)
    for title, rows in result["tables"].items():
        print_table(name, title, rows)
    save([result])
    print(f"\n({name}: {time.monotonic() - began_s:.0f} s)", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
