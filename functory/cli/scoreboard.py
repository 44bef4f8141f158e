"""`functory scoreboard [--watch]`: a tenant's jobtypes at a glance."""

import argparse
import sys
from typing import TYPE_CHECKING, Final

from functory.cli.commands import Commands
from functory.cli.remote import add_remote, print_json
from functory.cli.table import render_table

if TYPE_CHECKING:
    from functory.client import Client
    from functory.wire.scoreboard import Quantiles, Scoreboard, TypeRow

_REDRAW_S: Final = 1.0
_WHOLE_MS: Final = 100
_HOME_AND_CLEAR: Final = "\x1b[H\x1b[J"


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("scoreboard", help="waiting, running and ended jobs by type")
    parser.add_argument("--watch", action="store_true", help="again every second, until Ctrl-C")
    parser.add_argument(
        "--window-s", type=int, default=3600, metavar="SECONDS", help="for rates and percentiles (default: 3600)"
    )
    add_remote(parser, run_scoreboard)


async def run_scoreboard(client: "Client", arguments: argparse.Namespace) -> int:
    import asyncio  # noqa: PLC0415 (this module is imported for --help)

    while True:
        board = await client.scoreboard(window_s=arguments.window_s)
        if arguments.watch and sys.stdout.isatty():
            print(_HOME_AND_CLEAR, end="")
        print_json(board) if arguments.json else print(render_scoreboard(board), flush=True)
        if not arguments.watch:
            return 0
        await asyncio.sleep(_REDRAW_S)


def render_scoreboard(board: "Scoreboard") -> str:
    headers = ["type", "waiting", "deferred", "running", "held", "ok", "retry", "failed", "error", "abandoned"]
    headers += ["ended/s", "p50 ms", "p95 ms", "wait p95 ms"]
    rows = [
        (
            row.type + _marks(row),
            row.waiting,
            row.deferred,
            row.running,
            row.blocked,
            row.ok,
            row.retry,
            row.failed,
            row.error,
            row.abandoned,
            round(row.ended_per_s, 1),
            _quantile(row.duration, "p50_ms"),
            _quantile(row.duration, "p95_ms"),
            _quantile(row.wait, "p95_ms"),
        )
        for row in board.types
    ]
    return f"{board.tenant}\n" + render_table(headers, rows)


def _marks(row: "TypeRow") -> str:
    """What keeps the jobs of a type from being run."""
    return (
        (" (paused)" if row.paused else "")
        + ("" if row.has_handler else " (no handler)")
        + (" (handler cannot be read)" if row.unreadable else "")
        + ("" if row.unasked_s is None else f" (no worker for {row.unasked_s:.0f} s)")
    )


def _quantile(quantiles: "Quantiles | None", name: str) -> object:
    """They are known to an eighth: the digits of a thousandth would be made up."""
    if quantiles is None:
        return "-"
    value_ms: float = getattr(quantiles, name)
    return round(value_ms) if value_ms >= _WHOLE_MS else round(value_ms, 1)
