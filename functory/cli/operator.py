"""`functory daemon ...`, `functory audit`, `functory metrics`: the service as its operator sees it."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from functory.cli.answers import inert, moment
from functory.cli.arguments import given
from functory.cli.commands import Commands
from functory.cli.remote import add_remote, show, show_table
from functory.errors import InvalidInput

if TYPE_CHECKING:
    from functory.client import Client


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("daemon", help="the daemons of the store (operator)")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_remote(actions.add_parser("list", help="the daemons that are alive"), run_list, tenant=False)
    add_remote(actions.add_parser("health", help="show the health of the daemon at --url"), run_health, tenant=False)
    add_remote(actions.add_parser("quit", help="stop the daemon at --url, as SIGTERM does"), run_quit, tenant=False)
    for name, run, text in (
        ("pause", run_pause, "stop starting jobs on a daemon"),
        ("resume", run_resume, "start jobs on a daemon again"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("sysid", nargs="?", help="default: the daemon at --url")
        add_remote(action, run, tenant=False)
    audit = commands.add_parser("audit", help="who did what, newest first (operator)")
    audit.add_argument("--of", metavar="TENANT", help="only what concerns this tenant")
    audit.add_argument("--limit", type=int, default=50, help="default: 50")
    audit.add_argument("--cursor", help="continue: the cursor that the last page ended with")
    add_remote(audit, run_audit, tenant=False)
    metrics = commands.add_parser("metrics", help="figures for Prometheus: of a tenant, or of a daemon (operator)")
    metrics.add_argument(
        "--tenant",
        help="the figures of this tenant, with a key of it; without: those of the daemon, with the operator's key or"
        " one of the scope metrics",
    )
    metrics.add_argument("--type", help="with --tenant: only this type, or those that a GLOB pattern matches")
    add_remote(metrics, run_metrics, tenant=False)


async def run_list(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.list_daemons()
    rows = [
        (
            daemon.sysid,
            "paused" if daemon.paused else "running",
            moment(daemon.reserved_ms),
            _info(daemon.info).get("host", "-"),
            _info(daemon.info).get("isolation", "-"),
            " ".join(_info(daemon.info).get("languages") or ()),
        )
        for daemon in answer.daemons
    ]
    headers = ["sysid", "state", "since", "host", "isolation", "languages"]
    return show_table(arguments, answer, headers, rows, "No daemon is alive.")


async def run_health(client: "Client", arguments: argparse.Namespace) -> int:
    """Exits 1 when something is wrong."""
    health = await client.daemon_health()
    lines = [f"{health.sysid}: {'alive' if health.is_live else 'not alive'}, "]
    lines[0] += "accepts jobs" if health.is_ready else "does not accept jobs"
    lines[0] += ", paused" if health.is_paused else ""
    lines += [f"isolation {health.isolation}; languages: {' '.join(health.languages) or 'none'}"]
    lines += [f"problem: {name}: {text}" for name, text in health.problems.items()]
    lines += [f"warning: {it.text}" for it in health.unasked]
    lines += [f"consumer {it.name} of {it.tenant}: led by daemon {it.leader or '-'}" for it in health.consumers]
    show(arguments, health, "\n".join(lines))
    return 1 if health.problems else 0


async def run_quit(client: "Client", arguments: argparse.Namespace) -> int:
    await client.quit()
    return show(arguments, {"ok": True}, "The daemon is stopping.")


async def run_pause(client: "Client", arguments: argparse.Namespace) -> int:
    await (client.pause_daemon(arguments.sysid) if arguments.sysid else client.stop())
    return show(arguments, {"ok": True}, "The daemon starts no more jobs.")


async def run_resume(client: "Client", arguments: argparse.Namespace) -> int:
    await (client.resume_daemon(arguments.sysid) if arguments.sysid else client.start())
    return show(arguments, {"ok": True}, "The daemon starts jobs again.")


async def run_audit(client: "Client", arguments: argparse.Namespace) -> int:
    page = await client.audit(**given(tenant=arguments.of, limit=arguments.limit, cursor=arguments.cursor))
    rows = [(moment(it.at_ms), it.actor, it.action, it.tenant or "-", _detail(it.detail)) for it in page.events]
    status = show_table(arguments, page, ["when", "by", "action", "tenant", "detail"], rows, "Nothing yet.")
    if page.cursor and not arguments.json:
        print(f"More: --cursor {page.cursor}")
    return status


async def run_metrics(client: "Client", arguments: argparse.Namespace) -> int:
    if arguments.type and not arguments.tenant:
        raise InvalidInput("--type is for the figures of a tenant: use --tenant, too.")
    text = await client.metrics(arguments.tenant, **given(type=arguments.type))
    return show(arguments, {"metrics": text}, text.rstrip())


def _info(info: object) -> dict[str, Any]:
    return info if isinstance(info, dict) else {}


def _detail(text: str) -> str:
    """What an event tells beside its action; what is null is left out."""
    try:
        found = json.loads(text)
    except ValueError:
        return inert(text.encode())
    told = {name: value for name, value in found.items() if value is not None}
    words = [f"{name}={','.join(map(str, it)) if isinstance(it, list) else it}" for name, it in told.items()]
    return inert(" ".join(words).encode())
