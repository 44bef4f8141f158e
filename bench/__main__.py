"""`python -m bench`: every bench in turn, each in a process of its own, so that none measures another's leavings."""

import subprocess
import sys

BENCHES = ["journal", "store", "scheduler", "sandbox", "runner", "http"]


def main() -> int:
    for name in BENCHES:
        done = subprocess.run([sys.executable, "-m", f"bench.{name}", *sys.argv[1:]], check=False)
        if done.returncode != 0:
            return done.returncode
    return 0


sys.exit(main())
