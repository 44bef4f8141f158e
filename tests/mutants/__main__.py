"""Run the mutants. Usage: python -m tests.mutants [--only AREA-OR-WORDS] [--workers 2] [--anew]

Kills are remembered (kills.py), so a run that was broken off goes on where it was. Exit status 0 only if every mutant
is killed, or marked as equivalent with a reason.
"""

import argparse
import queue
import signal
import sys
import threading
import time
from collections import Counter

from tests.mutants.kills import Kills
from tests.mutants.mutant import Mutant
from tests.mutants.tables import choose
from tests.mutants.workplace import FOLDER, Fate, Verdict, Workplace, remove_leftovers
from tests.support.mongo_server import server_here

KILLS = FOLDER / "kills.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--only", default="", help="an area, or words of a name")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--anew", action="store_true", help="forget all kills of earlier runs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # through `finally`: no tests are left behind
    chosen = choose(options.only)
    problems = [f"{mutant.file}: {mutant.name}: {problem}" for mutant in chosen if (problem := mutant.problem())]
    if options.anew:
        KILLS.unlink(missing_ok=True)
    kills = Kills(KILLS)
    fitting = [mutant for mutant in chosen if not mutant.equivalent and not mutant.problem()]
    mutants = [mutant for mutant in fitting if not kills.holds(mutant)]
    if not chosen:
        return _fail(f"no mutant is called {options.only!r}", [])
    server = server_here() if any(_needs_mongodb(mutant) for mutant in mutants) else None
    remove_leftovers()
    workplaces: list[Workplace] = []
    try:
        if server is not None:
            server.start()
        workplaces = [Workplace(number, server.url if server else "") for number in range(options.workers)]
        for workplace in workplaces:
            workplace.prepare()
        verdicts = _run_all(workplaces, mutants, kills)
    finally:
        for workplace in workplaces:
            workplace.remove()
        if server is not None:
            server.close()
    if len(verdicts) != len(mutants):
        return _fail(f"only {len(verdicts)} of {len(mutants)} mutants were tried: a worker failed", [])
    status = _report(chosen, verdicts, len(fitting) - len(mutants))
    if problems:
        return _fail("these do not fit the code any more, and were not tried; change their rows:", problems)
    return status


def _needs_mongodb(mutant: Mutant) -> bool:
    return "mongo" in mutant.file + mutant.tests


def _run_all(workplaces: list[Workplace], mutants: list[Mutant], kills: Kills) -> list[Verdict]:
    """Side by side, one workplace for each worker."""
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        waiting.put(mutant)
    verdicts: list[Verdict] = []
    began_s = time.monotonic()

    def work(workplace: Workplace) -> None:
        while True:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            verdict = workplace.try_mutant(mutant, kills.last_test(mutant))
            verdicts.append(verdict)
            if verdict.fate in {Fate.KILLED, Fate.SLOW}:
                kills.add(mutant, verdict.detail, workplace.root)
            _say(f"{verdict.fate:8} {verdict.seconds:4.0f} s  {mutant.file}: {mutant.name}  {verdict.detail[:160]!r}")

    threads = [threading.Thread(target=work, args=(workplace,), daemon=True) for workplace in workplaces]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _say(f"{len(verdicts)} mutants in {time.monotonic() - began_s:.0f} s")
    return verdicts


def _report(chosen: list[Mutant], verdicts: list[Verdict], remembered: int) -> int:
    for mutant in chosen:
        if mutant.equivalent:
            _say(f"equivalent  {mutant.file}: {mutant.name} ({mutant.equivalent})")
    bad = [verdict for verdict in verdicts if verdict.fate in {Fate.LIVING, Fate.BROKEN, Fate.UNSOUND}]
    for verdict in bad:
        mutant = verdict.mutant
        _say(f"\n{verdict.fate.upper()}: {mutant.name}\n  in {mutant.file}\n  tests {mutant.tests}")
        if verdict.fate != Fate.LIVING:
            _say(verdict.detail)
    fates = Counter(verdict.fate for verdict in verdicts)
    equivalent = sum(bool(mutant.equivalent) for mutant in chosen)
    told = [f"{fates[fate]} {fate}" for fate in Fate]
    told[0] += f" now and {remembered} in earlier runs"
    _say(", ".join([*told, f"{equivalent} equivalent", f"{len(chosen)} in all"]))
    return 1 if bad else 0


def _fail(message: str, details: list[str]) -> int:
    """Say it; the exit status."""
    _say("\n  ".join([message, *details]))
    return 2


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
