"""`functory webhook set | list | get | delete`: addresses that other services post to."""

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from functory.cli.answers import inert, moment
from functory.cli.arguments import given, seconds
from functory.cli.commands import Commands
from functory.cli.remote import add_remote, show, show_table
from functory.cli.table import render_table

if TYPE_CHECKING:
    from functory.client import Client
    from functory.wire.webhooks import Arrivals, RefusedDelivery, TakenDelivery, Webhook

VERIFY: Final = ("github", "gitlab", "hmac", "slack", "standard", "stripe", "token", "none")
_EXAMPLES: Final = """\
examples:
  functory secret set GITHUB_HOOK            # the text that GitHub is given as its secret
  functory webhook set github --type build --verify github --secret GITHUB_HOOK --payload request
  functory webhook set pay --type payment --verify stripe --secret STRIPE_HOOK
  functory webhook set shop --type order --verify hmac --header X-Shopify-Hmac-Sha256 --digest base64 --secret SHOP
  functory webhook set ask --type ask --verify slack --secret SLACK --answer result --wait 3s
  functory webhook set hello --type hello --verify none --payload request --get --answer result"""


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("webhook", help="webhooks: addresses that other services post to without a key")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_set(actions)
    add_remote(actions.add_parser("list", help="the webhooks"), run_list)
    get = actions.add_parser("get", help="one webhook, its address, and what came to it")
    get.add_argument("name")
    add_remote(get, run_get)
    remove = actions.add_parser("delete", aliases=["rm"], help="delete a webhook: its address is gone at once")
    remove.add_argument("name")
    add_remote(remove, run_delete)


def _add_set(actions: Any) -> None:
    put = actions.add_parser(
        "set",
        help="make a webhook, or change one",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    put.add_argument("name")
    put.add_argument("--type", required=True, help="what is posted becomes a job of this type")
    put.add_argument("--verify", required=True, choices=VERIFY, help="how a sender shows who it is; none: anybody may")
    put.add_argument(
        "--secret", action="append", metavar="NAME", help="a secret that the sender has, too; repeat it to change over"
    )
    put.add_argument("--header", help="of hmac: where the signature is; of token: where the token is (else ?token=)")
    put.add_argument("--algorithm", choices=("sha1", "sha256", "sha512"), help="of hmac (default: sha256)")
    put.add_argument("--digest", choices=("hex", "base64"), help="of hmac (default: hex)")
    put.add_argument("--prefix", metavar="TEXT", help="of hmac: what stands before the signature, such as sha256=")
    put.add_argument(
        "--delivery-header",
        metavar="HEADER",
        help="what names a delivery, which becomes one job however often it is sent ('' for none)",
    )
    put.add_argument("--payload", choices=("body", "request"), help="of the job: the body, or the request as JSON")
    put.add_argument("--answer", choices=("id", "result"), help="with the job's id at once, or with its result")
    put.add_argument("--wait", type=seconds, metavar="TIME", help="for the result (default: 10s)")
    put.add_argument(
        "--result-type", choices=("application/json", "text/plain", "text/xml"), help="of results (default: by content)"
    )
    put.add_argument("--get", action="store_true", default=None, help="take GET, too")
    add_remote(put, run_set)


async def run_set(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_adding import has_no_handler  # noqa: PLC0415 (not for the parser)

    settings = given(
        type=arguments.type,
        verify=arguments.verify,
        secrets=arguments.secret,
        header=arguments.header,
        algorithm=arguments.algorithm,
        digest=arguments.digest,
        prefix=arguments.prefix,
        delivery_header=arguments.delivery_header,
        payload=arguments.payload,
        answer=arguments.answer,
        wait_s=arguments.wait,
        result_type=arguments.result_type,
        takes_get=arguments.get,
    )
    answer = await client.set_webhook(arguments.name, **settings)
    if await has_no_handler(client, arguments.type):
        print(f"Type {arguments.type} has no handler yet: what is posted waits until it has one.", file=sys.stderr)
    verb = "set" if answer.created else "changed"
    return show(arguments, answer, f"{arguments.name} is {verb}. Its address: {_whole(arguments, answer.url)}")


async def run_list(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.list_webhooks()
    rows = [
        (it.name, it.type, it.verify, ", ".join(it.secrets) or "-", it.answer, _whole(arguments, it.url))
        for it in answer.webhooks
    ]
    headers = ["name", "type", "verify", "secrets", "answer", "address"]
    return show_table(arguments, answer, headers, rows, "No webhooks.")


async def run_get(client: "Client", arguments: argparse.Namespace) -> int:
    it = await client.get_webhook(arguments.name)
    methods = "POST and GET" if it.takes_get else "POST"
    lines = [
        f"{it.name}: {_whole(arguments, it.url)}",
        f"takes {methods}; each becomes a job of {it.type}, whose payload is the {it.payload}",
        f"verified by {_proof(it)}",
        _once(it),
        f"answers with the job's {it.answer}" + (_result(it) if it.answer == "result" else ""),
        f"changed {moment(it.changed_ms)} by {it.author}",
        "",
        *_arrivals(it.arrivals),
    ]
    return show(arguments, it, "\n".join(lines))


async def run_delete(client: "Client", arguments: argparse.Namespace) -> int:
    await client.delete_webhook(arguments.name)
    return show(arguments, {"ok": True}, f"{arguments.name} is deleted.")


def _proof(it: "Webhook") -> str:
    if it.verify == "none":
        return "nothing: anybody may post"
    where = how = ""  # the others look at no header of one's choice
    if it.verify == "token":
        where = f" in {it.header or '?token='}"
    elif it.verify == "hmac":
        after = f", after {it.prefix!r}" if it.prefix else ""
        where, how = f" in {it.header}", f" ({it.algorithm}, {it.digest}{after})"
    return f"{it.verify}{where}{how} with {' or '.join(it.secrets)}"


def _once(it: "Webhook") -> str:
    from functory.webhooks.schemes import is_named_inside, naming_header  # noqa: PLC0415 (not for the parser)

    terms = it.verify, it.delivery_header
    named = "the id in its body" if is_named_inside(*terms) else naming_header(*terms)
    if not named:
        return "nothing names a delivery: one that is sent again is another job"
    return f"a delivery is named by {named}: one that is sent again within a day is the same job"


def _result(it: "Webhook") -> str:
    return f", within {it.wait_s:g} s, as {it.result_type or 'what it is by its content'}"


def _arrivals(came: "Arrivals") -> list[str]:
    """What came to it, for people. Names of deliveries are what strangers say."""
    counts = ", ".join(f"{count:,} {outcome.replace('_', ' ')}" for outcome, count in came.counts.items())
    lines = [f"since {moment(came.since_ms)}, as daemon {came.daemon} has seen it: {counts or 'nothing came'}"]
    if came.deliveries:
        headers = ["taken", "outcome", "job", "bytes", "sender", "delivery"]
        taken = [(it.at_ms, it.outcome, it.job or "-", it) for it in came.deliveries]
        lines += ["", render_table(headers, [(moment(at_ms), *more, *_told(it)) for at_ms, *more, it in taken])]
    if came.refusals:
        headers = ["refused", "reason", "times", "bytes", "sender", "delivery"]
        refused = [(it.at_ms, it.reason.replace("_", " "), it.times, it) for it in came.refusals]
        lines += ["", render_table(headers, [(moment(at_ms), *more, *_told(it)) for at_ms, *more, it in refused])]
    return lines


def _told(it: "TakenDelivery | RefusedDelivery") -> tuple[object, str, str]:
    size_bytes = "-" if it.size_bytes is None else it.size_bytes
    return size_bytes, it.sender or "-", inert(it.delivery.encode()).replace("\n", " ") or "-"


def _whole(arguments: argparse.Namespace, url: str) -> str:
    """The address as this command reaches the server, if the server does not know how others do."""
    return url if "://" in url else arguments.url.rstrip("/") + url
