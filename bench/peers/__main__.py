"""Ours and other queues on the same work in the same run: no-ops with a payload of 100 bytes, on loopback.

python -m bench.peers [--json] [--peers NAME ...] [--rounds N] [--scale S] [--synced-redis]      (`make bench-peers`)

Bulk: jobs enqueued in the best way the peer has, with nothing executing. One by one: one call a job, one caller.
Drained: the workers empty what was enqueued. End to end: enqueued while the workers run, until the last has run. Of
each figure the best round counts. Ours counts a job when its outcome is recorded and synced; peers when it has run.
The processor time is that of all processes, end to end; it is what a busy machine does not spoil.
Kept in bench/results/latest.json.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from bench.peers.harness import Rates, measure
from bench.peers.install import NotInstalled, require_server
from bench.peers.ours import measure_ours
from bench.peers.peer import PEERS, Peer
from bench.tools.budgets import print_budgets
from bench.tools.report import Table, machine, parse_arguments, print_table, save

OURS: Final = "Functory"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [peer.name for peer in PEERS]
    parser.add_argument("--peers", nargs="+", choices=known, default=known, metavar="NAME", help=", ".join(known))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of jobs")
    parser.add_argument(
        "--synced-redis", action="store_true", help="Redis with appendfsync always: what a sync costs it"
    )
    arguments = parse_arguments(parser, None)
    peers = [peer for peer in PEERS if peer.name in arguments.peers]
    names = [OURS, *(peer.name for peer in peers)]
    found = run(peers, arguments.rounds, arguments.scale, synced_redis=arguments.synced_redis)
    tables: dict[str, Table] = {
        "jobs a second, and ours in times of each": [rates_row(name, found) for name in names],
        "what each does for a job": [ours_promises(), *(promises(peer, arguments.synced_redis) for peer in peers)],
    }
    result = {"bench": "peers", "machine": machine(), "tables": tables}
    if arguments.json:
        print(json.dumps(result))
    else:
        for title, rows in tables.items():
            print_table("peers", title, rows)
    if arguments.scale == 1.0 and not arguments.synced_redis:
        save([result])
        if not arguments.json:
            print_budgets()
    return len(found) != 1 + len(peers)


def run(peers: Sequence[Peer], rounds: int, scale: float, *, synced_redis: bool) -> dict[str, Rates]:
    """The best of each by name. A peer that cannot be measured is said so, and left out."""
    found: dict[str, Rates] = {}
    for number in range(rounds):
        note(f"round {number + 1} of {rounds}: {OURS}")
        keep_best(found, OURS, asyncio.run(measure_ours(scale)))
        for peer in peers:
            note(f"round {number + 1} of {rounds}: {peer.name}")
            try:
                require_server(peer.server.partition(" ")[0])
                keep_best(found, peer.name, measure(peer, scale=scale, synced_redis=synced_redis))
            except (NotInstalled, OSError, RuntimeError, TimeoutError, ValueError) as error:
                note(f"{peer.name} left out: {error}")
    return found


def keep_best(found: dict[str, Rates], name: str, rates: Rates) -> None:
    before = found.get(name, rates)
    best = Rates(*map(max, zip(before, rates, strict=True)))
    found[name] = best._replace(cpu_us=min(before.cpu_us, rates.cpu_us))


def note(text: str) -> None:
    """Beside the tables, so that `--json` stays one object."""
    print(f"  {text}", file=sys.stderr, flush=True)


def rates_row(name: str, found: dict[str, Rates]) -> dict[str, Any]:
    ours, rates = found[OURS], found.get(name)
    return {
        "queue": name,
        "bulk/s": rates and rates.bulk,
        "one by one/s": rates and rates.single,
        "drained/s": rates and rates.drained,
        "end to end/s": rates and rates.end_to_end,
        "cpu us/job": rates and rates.cpu_us,
        "ours: bulk": rates and ours.bulk / rates.bulk,
        "ours: drained": rates and ours.drained / rates.drained,
        "ours: end to end": rates and ours.end_to_end / rates.end_to_end,
        "ours: cpu": rates and rates.cpu_us / ours.cpu_us,
    }


def promises(peer: Peer, synced_redis: bool) -> dict[str, str]:
    syncs = "every command (Redis, appendfsync always)" if synced_redis and peer.server == "redis" else peer.syncs
    return {
        "queue": peer.name,
        "syncs": syncs,
        "records": peer.records,
        "isolates": peer.isolates,
        "settings": peer.settings + ("" if peer.has_bulk else "; no bulk call"),
        "versions": " ".join(peer.requires + peer.npm) or "Debian's",
    }


def ours_promises() -> dict[str, str]:
    return {
        "queue": OURS,
        "syncs": "every acknowledgement, claim and outcome",
        "records": "outcome, result, times, log",
        "isolates": "each tenant, in a sandbox",
        "settings": "defaults, over HTTP: 1,000 lines a POST, 4 connections; fair between tenants",
        "versions": "this one",
    }


if __name__ == "__main__":
    sys.exit(main())
