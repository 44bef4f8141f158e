"""`functory doctor`: attack the sandbox of this machine and tell, without varnish, what tenants are isolated by."""

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from functory.cli.commands import Commands
from functory.cli.settings import add_settings, config_of
from functory.cli.table import render_table
from functory.daemon.isolation import minimum
from functory.errors import InvalidInput
from functory.hostile.act import Verdict, perform
from functory.hostile.acts import ACTS
from functory.hostile.arena import open_arena
from runner.launch import Level
from runner.sandbox.probe import Outcome, Report, probe

_UNPROVEN: Final = 9
"""Exit status where a language could not be tried: nothing got through, and nothing is proven of it either."""

_ROW: Final = "{:<17} {:<8} {:>8} {:>10} {:>7}  {}"


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("doctor", help="attack this machine's sandbox and print the level that held")
    parser.add_argument("--brief", action="store_true", help="only the attacks that a daemon runs at its start")
    parser.add_argument(
        "--hostile",
        nargs="*",
        metavar="ACT",
        help="be a hostile tenant of a private daemon, in all acts or those named, and see what others notice",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_settings(parser, "min_isolation", "all_tenants_trusted")
    parser.set_defaults(run=run_doctor)


def run_doctor(arguments: argparse.Namespace) -> int:
    """Exits 1 when the level is below what a daemon with these settings asks for, or when a promise was broken;
    otherwise 9 when attacks could not be tried.
    """
    if arguments.hostile is not None:
        return asyncio.run(be_hostile(arguments.hostile, as_json=arguments.json))
    wanted = Level[minimum(config_of(arguments).settings.min_isolation)]
    report = asyncio.run(probe(brief=arguments.brief))
    if arguments.json:
        print(json.dumps(_as_json(report, wanted)))
    else:
        print_report(report, wanted)
    if report.level < wanted or report.broken:
        return 1
    return _UNPROVEN if report.untried else 0


async def be_hostile(names: Sequence[str], *, as_json: bool) -> int:
    """Exits 1 when an act got through, or others noticed it beyond what they may."""
    known = {act.__name__: act for act in ACTS}
    if unknown := [name for name in names if name not in known]:
        raise InvalidInput(f"unknown act {unknown[0]!r}; known: {', '.join(known)}")
    verdicts = []
    async with open_arena() as arena:
        if not as_json:
            print(_ROW.format("act", "outcome", "health", "neighbour", "memory", "what was seen"), flush=True)
        for name in names or known:
            verdict = await perform(known[name], arena)
            verdicts.append(verdict)
            if not as_json:
                _print_verdict(verdict)
            if arena.daemon.status is not None:
                break
    if as_json:
        print(json.dumps([asdict(verdict) for verdict in verdicts]))
    else:
        print(
            "\nThe longest wait for the daemon's health, the longest job of a neighbour, the most memory of the daemon."
        )
        for verdict in verdicts:
            if not verdict.held:
                print(f"GOT THROUGH: {verdict.act}: {verdict.about} {verdict.detail}")
        print(f"{sum(verdict.held for verdict in verdicts)} of {len(names or known)} acts were borne.")
    return 0 if len(verdicts) == len(names or known) and all(verdict.held for verdict in verdicts) else 1


def _print_verdict(verdict: Verdict) -> None:
    """A row at once: all acts take a minute or more."""
    seen = verdict.seen
    print(
        _ROW.format(
            verdict.act,
            "held" if verdict.held else "THROUGH",
            f"{seen.health_wait_s * 1000:.0f} ms",
            f"{seen.victim_wait_s * 1000:.0f} ms",
            f"{seen.daemon_bytes >> 20} MB",
            verdict.detail,
        ),
        flush=True,
    )


def print_report(report: Report, wanted: Level) -> None:
    print("Layers of this machine\n")
    rows = [(s.layer.name.lower(), "yes" if s.available else "NO", s.detail) for s in report.layers]
    print(render_table(["layer", "there", "detail"], rows))
    print("\nAttacks\n")
    shown = {Outcome.STOPPED: "stopped", Outcome.THROUGH: "THROUGH", Outcome.UNTRIED: "NOT TRIED"}
    verdicts = [(v.attack, v.language, shown[v.outcome], v.detail.splitlines()[0][:70]) for v in report.verdicts]
    print(render_table(["attack", "language", "outcome", "detail"], verdicts))
    stopped = sum(verdict.stopped for verdict in report.verdicts)
    untried = f", {len(report.untried)} could not be tried" if report.untried else ""
    print(f"\n{stopped} of {len(report.verdicts)} attacks were stopped{untried}.")
    for verdict in report.broken:
        print(f"BROKEN PROMISE: {verdict.attack} in {verdict.language} got through: {verdict.detail}")
    for language, reason in report.unable.items():
        print(f"{language} contexts do not start here: {reason}")
    for verdict in report.untried:
        if verdict.language not in report.unable:
            print(f"not tried: {verdict.attack} in {verdict.language}: {verdict.detail}")
    for state in report.missing:
        print(f"missing: {state.layer.name.lower()}: {state.detail}{'. ' + state.remedy if state.remedy else ''}")
    sufficient = "enough" if report.level >= wanted else "NOT enough"
    print(f"Isolation level {report.level.name}: {sufficient} for the minimum {wanted.name}.")


def _as_json(report: Report, wanted: Level) -> dict[str, object]:
    return {
        "level": report.level.name,
        "minimum": wanted.name,
        "offered": report.offered.name,
        "layers": {
            s.layer.name.lower(): {"available": s.available, "detail": s.detail, "remedy": s.remedy}
            for s in report.layers
        },
        "attacks": [
            {
                "attack": v.attack,
                "language": v.language,
                "stopped": v.stopped,
                "outcome": v.outcome.value,
                "detail": v.detail,
            }
            for v in report.verdicts
        ],
        "unable": report.unable,
    }
