"""Hostile tenants for minutes, all at once: the daemon stays small and answers, and a neighbour's jobs go on.

python -m bench.service.hostile_soak [--json] [--minutes M] [--tenants N]

Each of the tenants performs acts of `functory doctor --hostile` one after the other, in an order of its own: half
frames, results of 16 MB, clients that do not read their answers, packed bodies, many types. Exits with 1 when the
daemon ended, used more than 300 MB, or did not answer for five seconds.
"""

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Final

from bench.tools.report import Report, parse_arguments
from functory.errors import FunctoryError
from functory.hostile.act import MAX_DAEMON_BYTES, Act, Through
from functory.hostile.acts import ACTS
from functory.hostile.arena import Arena, open_arena
from functory.hostile.watch import Seen

LONG: Final = frozenset({"unread_ids", "many_creates", "next_of_the_name", "short_turns_long", "tiny_new_jobs"})
"""Hundreds of thousands of jobs, which take minutes to delete; and an act that deletes its own tenant."""
MB: Final = 1 << 20
MAX_HEALTH_WAIT_S: Final = 5.0
"""By the clock, on a machine that the tenants keep busy."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.hostile_soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--tenants", type=int, default=4)
    arguments = parse_arguments(parser, None)
    report = Report("hostile soak", as_json=arguments.json)
    rows, seen = asyncio.run(run(arguments.minutes * 60, arguments.tenants))
    report.table(f"{arguments.minutes:g} minutes with {arguments.tenants} hostile tenants", rows)
    report.finish()
    is_held = not seen.trouble and seen.daemon_bytes <= MAX_DAEMON_BYTES and seen.health_wait_s <= MAX_HEALTH_WAIT_S
    if seen.trouble:
        print(seen.trouble, file=sys.stderr)
    sys.exit(not is_held)


async def run(seconds: float, tenants: int) -> tuple[list[dict[str, Any]], Seen]:
    performed: Counter[str] = Counter()
    end_s = time.monotonic() + seconds
    async with open_arena() as arena, arena.watched() as watch:
        hostile = [be_hostile(arena.of(f"mallory{number}"), number, end_s, performed) for number in range(tenants)]
        await asyncio.gather(*hostile)
        await watch.look_once_more()
        seen = watch.seen
    acts = [{"what": f"{name}, times", "figure": count} for name, count in sorted(performed.items())]
    return [
        *acts,
        {"what": "looks at the daemon", "figure": seen.looks},
        {"what": "most memory of the daemon, MB", "figure": seen.daemon_bytes / MB},
        {"what": "longest wait for its health, ms", "figure": seen.health_wait_s * 1000},
        {"what": "longest job of a neighbour, ms", "figure": seen.victim_wait_s * 1000},
    ], seen


async def be_hostile(arena: Arena, number: int, end_s: float, performed: Counter[str]) -> None:
    """One act after the other, until the time is over."""
    dice = random.Random(number)
    acts: list[Act] = [act for act in ACTS if act.__name__ not in LONG]
    await arena.create_hostile()
    try:
        while time.monotonic() < end_s and arena.daemon.status is None:
            act = dice.choice(acts)
            with suppress(Through, FunctoryError, OSError):  # what matters here is what the others notice
                await act(arena)
            performed[act.__name__] += 1
    finally:
        await arena.hostile.close()


if __name__ == "__main__":
    main()
