"""`functory rate ...`: the limits of rate domains."""

from typing import TYPE_CHECKING

from functory.cli.answers import inert, moment
from functory.cli.arguments import per_second
from functory.cli.commands import Commands
from functory.cli.remote import add_remote, show, show_table
from vocabulary.rate_text import rate_text

if TYPE_CHECKING:
    import argparse

    from functory.client import Client


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("rate", help="rate domains: how many jobs may start per second")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_remote(actions.add_parser("list", help="all rate domains"), run_rates)
    get = actions.add_parser("get", help="the limit that holds for a domain, on its name or a pattern, and its tokens")
    get.add_argument("domain")
    add_remote(get, run_get_rate)
    limit = actions.add_parser("set", help="limit a domain, or each domain that a pattern matches")
    limit.add_argument("domain", help="its name, or a GLOB pattern such as 'mail:*'; '*' is the default of all others")
    rate = "a second, from 0.000001 to 1,000,000; or a minute (10/m), an hour (h), a day (d)"
    limit.add_argument("rate_per_s", type=per_second, metavar="RATE", help=rate)
    limit.add_argument("--burst", type=int, default=1, help="default: 1")
    add_remote(limit, run_set_rate)
    remove = actions.add_parser("rm", aliases=["delete"], help="remove the limit of a domain or a pattern")
    remove.add_argument("domain")
    add_remote(remove, run_remove_rate)


async def run_rates(client: "Client", arguments: "argparse.Namespace") -> int:
    answer = await client.list_rates()
    rows = [
        (inert(row.domain.encode()), rate_text(row.rate_per_s), row.burst, *_tokens(row.tokens, row.next_ms))
        if not row.is_pattern
        else (inert(row.domain.encode()), rate_text(row.rate_per_s), row.burst, "each domain", "-")
        for row in answer.domains
    ]
    headers = ["domain", "rate", "burst", "left now", "next token"]
    example = "Limit one: functory rate set DOMAIN RATE; jobs name it with --domain, or their handler has it"
    return show_table(arguments, answer, headers, rows, f"No rate domains. {example}")


async def run_get_rate(client: "Client", arguments: "argparse.Namespace") -> int:
    found = await client.get_rate(arguments.domain)
    whose = "" if found.limit == found.domain else f", by {found.limit}"
    left, at = _tokens(found.tokens, found.next_ms)
    text = f"{found.domain}: {rate_text(found.rate_per_s)}, burst {found.burst}{whose}; {left} left now"
    return show(arguments, found, inert((text if at == "-" else f"{text}, the next at {at}").encode()))


def _tokens(tokens: float, next_ms: int) -> tuple[str, str]:
    """How many jobs of the domain may start now, and if none may, when the next may."""
    return f"{int(tokens):,}", "-" if tokens >= 1 else moment(next_ms)


async def run_set_rate(client: "Client", arguments: "argparse.Namespace") -> int:
    await client.set_rate(arguments.domain, arguments.rate_per_s, burst=arguments.burst)
    text = f"{arguments.domain}: {rate_text(arguments.rate_per_s)}, burst {arguments.burst}"
    return show(arguments, {"ok": True}, text)


async def run_remove_rate(client: "Client", arguments: "argparse.Namespace") -> int:
    await client.delete_rate(arguments.domain)
    return show(arguments, {"ok": True}, f"{arguments.domain} is not limited any more.")
