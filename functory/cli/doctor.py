"""`functory doctor`: attack the sandbox of this machine and tell, without varnish, what tenants are isolated by."""

import argparse
import asyncio
import json

from functory.cli.commands import Commands
from functory.cli.table import render_table
from functory.isolation import minimum
from runner.launch import Level
from runner.sandbox.probe import Report, probe


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("doctor", help="attack this machine's sandbox and print the level that held")
    parser.add_argument("--brief", action="store_true", help="only the attacks that a daemon runs at its start")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run_doctor)


def run_doctor(arguments: argparse.Namespace) -> int:
    """Exits 1 when the level is below what a daemon asks for by default, or when a promise was broken."""
    report = asyncio.run(probe(brief=arguments.brief))
    wanted = Level[minimum("auto")]
    if arguments.json:
        print(json.dumps(_as_json(report)))
    else:
        print_report(report, wanted)
    return 0 if report.level >= wanted and not report.broken else 1


def print_report(report: Report, wanted: Level) -> None:
    print("Layers of this machine\n")
    rows = [(s.layer.name.lower(), "yes" if s.available else "NO", s.detail) for s in report.layers]
    print(render_table(["layer", "there", "detail"], rows))
    print("\nAttacks\n")
    verdicts = [(v.attack, v.language, "stopped" if v.stopped else "THROUGH", v.detail[:70]) for v in report.verdicts]
    print(render_table(["attack", "language", "outcome", "detail"], verdicts))
    stopped = sum(verdict.stopped for verdict in report.verdicts)
    print(f"\n{stopped} of {len(report.verdicts)} attacks were stopped.")
    for verdict in report.broken:
        print(f"BROKEN PROMISE: {verdict.attack} in {verdict.language} got through: {verdict.detail}")
    for state in report.missing:
        print(f"missing: {state.layer.name.lower()}: {state.detail}{'. ' + state.remedy if state.remedy else ''}")
    sufficient = "enough" if report.level >= wanted else "NOT enough"
    print(f"Isolation level {report.level.name}: {sufficient} for the default minimum {wanted.name}.")


def _as_json(report: Report) -> dict[str, object]:
    return {
        "level": report.level.name,
        "offered": report.offered.name,
        "layers": {
            s.layer.name.lower(): {"available": s.available, "detail": s.detail, "remedy": s.remedy}
            for s in report.layers
        },
        "attacks": [
            {"attack": v.attack, "language": v.language, "stopped": v.stopped, "detail": v.detail}
            for v in report.verdicts
        ],
    }
