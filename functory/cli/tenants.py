"""`functory tenant ...` and `functory key ...`, with the operator's key."""

import argparse
from typing import TYPE_CHECKING, Any, Final

from functory.cli.answers import counted, moment
from functory.cli.arguments import given, limit_pair
from functory.cli.commands import Commands
from functory.cli.confirmation import add_yes, confirm_name
from functory.cli.limits import given_limits, in_words, stored
from functory.cli.remote import add_remote, show, show_table
from functory.errors import ClientError, Conflict, InvalidInput
from functory.wire.scopes import LIMITS, OPERATOR_SCOPES, TENANT_SCOPES

if TYPE_CHECKING:
    from functory.client import Client
    from functory.wire.admin import KeyWithSecret, Tenant

_CONFLICT: Final = 409


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("tenant", help="create and change tenants (operator)")
    _add_tenant(parser.add_subparsers(title="commands", required=True, metavar="COMMAND"))
    keys = commands.add_parser("key", help="keys of a tenant, or of the operator (operator)")
    _add_key(keys.add_subparsers(title="commands", required=True, metavar="COMMAND"))


def _add_tenant(actions: Commands) -> None:
    create = actions.add_parser("create", help="create a tenant and its first key, which is shown once")
    create.add_argument("name")
    create.add_argument("--weight", type=int, default=1, help="share of runner time against others (default: 1)")
    _add_limits(create)
    add_remote(create, run_create, tenant=False)
    add_remote(actions.add_parser("list", help="all tenants"), run_list, tenant=False)
    change = actions.add_parser("change", help="change the weight or the limits of a tenant")
    change.add_argument("name")
    change.add_argument("--weight", type=int, help="share of runner time against others")
    _add_limits(change)
    change.add_argument("--no-limits", action="store_true", help="remove all limits")
    add_remote(change, run_change, tenant=False)
    for name, run, text in (
        ("show", run_show, "one tenant with its limits, and what it has stored"),
        ("suspend", run_suspend, "stop starting its jobs, and make it read-only"),
        ("resume", run_resume, "end a suspension"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("name")
        add_remote(action, run, tenant=False)
    for name, run, text in (
        ("pause-type", run_pause_type, "stop starting jobs of a type of a tenant"),
        ("resume-type", run_resume_type, "start jobs of a type of a tenant again"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("name")
        action.add_argument("type")
        add_remote(action, run, tenant=False)
    delete = actions.add_parser("delete", aliases=["rm"], help="delete a tenant with all its data")
    delete.add_argument("name")
    add_yes(delete)
    add_remote(delete, run_delete, tenant=False)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=limit_pair, action="append", metavar="NAME=VALUE", help=", ".join(LIMITS))


def _add_key(actions: Commands) -> None:
    create = actions.add_parser("create", help="create a key; it is shown once")
    _add_owner(create)
    scopes = f"of a tenant's key: {', '.join(TENANT_SCOPES)}; of an operator's: {', '.join(OPERATOR_SCOPES)}"
    create.add_argument("--scope", action="append", metavar="SCOPE,...", help=f"{scopes} (default: all of these)")
    create.add_argument("--label", default="", help="a name for people")
    create.add_argument("--expires-s", type=int, metavar="SECONDS", help="from now (default: never)")
    add_remote(create, run_key_create, tenant=False)
    listing = actions.add_parser("list", help="keys, without their secrets")
    _add_owner(listing)
    add_remote(listing, run_key_list, tenant=False)
    rotate = actions.add_parser("rotate", help="make a new key like this one; the old one ends after a while")
    _add_owner(rotate)
    rotate.add_argument("id")
    rotate.add_argument("--overlap-s", type=int, default=86_400, metavar="SECONDS", help="default: 86400, a day")
    rotate.add_argument(
        "--expires-s", type=int, metavar="SECONDS", help="of the new key, from now (default: as long as the old one)"
    )
    add_remote(rotate, run_key_rotate, tenant=False)
    revoke = actions.add_parser("revoke", help="end a key now")
    _add_owner(revoke)
    revoke.add_argument("id")
    add_remote(revoke, run_key_revoke, tenant=False)


def _add_owner(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="TENANT", help="a tenant; a dash for the operator's own keys")


def _owner(arguments: argparse.Namespace) -> str | None:
    return None if arguments.name == "-" else arguments.name


async def run_create(client: "Client", arguments: argparse.Namespace) -> int:
    limits = dict(arguments.limit or ())
    try:
        tenant = await client.create_tenant(arguments.name, weight=arguments.weight, limits=limits)
    except ClientError as error:
        taken = f"the name {arguments.name} is already taken"
        if error.status == _CONFLICT and str(error).startswith(taken):
            what = f"{taken}: `functory key create {arguments.name}` makes a key for it"
            raise Conflict(error.status, error.error_code, what, error.detail, error.retry_after_s) from error
        raise
    key = await client.create_key(tenant.name, label="first")
    text = f"Tenant {tenant.name} created. Copy its key now; it will not be shown again:\n{key.key}"
    return show(arguments, {"tenant": tenant, "key": key}, text)


async def run_list(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.list_tenants()
    rows = [
        (t.name, t.weight, moment(t.created_ms), _state(t), in_words(given_limits(t.limits))) for t in answer.tenants
    ]
    headers = ["tenant", "weight", "since", "state", "limits"]
    return show_table(arguments, answer, headers, rows, "No tenants yet. Create one: functory tenant create NAME")


async def run_show(client: "Client", arguments: argparse.Namespace) -> int:
    tenant = await client.get_tenant(arguments.name)
    return _tell(arguments, tenant, f"stored   {stored(tenant.usage, tenant.limits)}")


async def run_change(client: "Client", arguments: argparse.Namespace) -> int:
    changes: dict[str, Any] = given(weight=arguments.weight)
    if arguments.limit:
        limits = given_limits((await client.get_tenant(arguments.name)).limits)
        changes["limits"] = {} if arguments.no_limits else limits
        changes["limits"] |= dict(arguments.limit)
    elif arguments.no_limits:
        changes["limits"] = {}
    if not changes:
        raise InvalidInput("Nothing to change: give --weight, --limit or --no-limits.")
    return _tell(arguments, await client.change_tenant(arguments.name, **changes))


async def run_suspend(client: "Client", arguments: argparse.Namespace) -> int:
    await client.pause_tenant(arguments.name)
    return show(arguments, {"ok": True}, f"{arguments.name} is suspended.")


async def run_resume(client: "Client", arguments: argparse.Namespace) -> int:
    await client.resume_tenant(arguments.name)
    return show(arguments, {"ok": True}, f"{arguments.name} is active again.")


async def run_pause_type(client: "Client", arguments: argparse.Namespace) -> int:
    await client.pause_tenant_type(arguments.name, arguments.type)
    return show(arguments, {"ok": True}, f"{arguments.type} of {arguments.name} is paused.")


async def run_resume_type(client: "Client", arguments: argparse.Namespace) -> int:
    await client.resume_tenant_type(arguments.name, arguments.type)
    return show(arguments, {"ok": True}, f"{arguments.type} of {arguments.name} is active again.")


async def run_delete(client: "Client", arguments: argparse.Namespace) -> int:
    what = f"This permanently deletes tenant {arguments.name} with all its jobs, results, handlers and keys."
    await confirm_name(arguments, what, arguments.name)
    removed = await client.delete_tenant(arguments.name)
    return show(arguments, {"removed": removed}, f"Tenant {arguments.name} deleted, with {counted(removed, 'record')}.")


async def run_key_create(client: "Client", arguments: argparse.Namespace) -> int:
    scopes = [scope.strip() for text in arguments.scope or () for scope in text.split(",")]
    fields = given(scopes=scopes or None, label=arguments.label, expires_s=arguments.expires_s)
    return _tell_key(arguments, await client.create_key(_owner(arguments), **fields))


async def run_key_list(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.list_keys(_owner(arguments))
    rows = [(k.id, k.label, " ".join(k.scopes), moment(k.created_ms), moment(k.expires_ms)) for k in answer.keys]
    return show_table(arguments, answer, ["id", "label", "scopes", "since", "until"], rows, "No keys.")


async def run_key_rotate(client: "Client", arguments: argparse.Namespace) -> int:
    times = {"overlap_s": arguments.overlap_s, "expires_s": arguments.expires_s}
    return _tell_key(arguments, await client.rotate_key(_owner(arguments), arguments.id, **times))


async def run_key_revoke(client: "Client", arguments: argparse.Namespace) -> int:
    await client.revoke_key(_owner(arguments), arguments.id)
    return show(arguments, {"ok": True}, f"Key {arguments.id} is revoked.")


def _tell_key(arguments: argparse.Namespace, key: "KeyWithSecret") -> int:
    return show(arguments, key, key.key)


def _tell(arguments: argparse.Namespace, tenant: "Tenant", *more: str) -> int:
    lines = [f"tenant   {tenant.name}", f"weight   {tenant.weight}", f"since    {moment(tenant.created_ms)}"]
    lines += [f"state    {_state(tenant)}", f"limits   {in_words(given_limits(tenant.limits)) or 'none'}"]
    return show(arguments, tenant, "\n".join([*lines, *more]))


def _state(tenant: "Tenant") -> str:
    return "suspended" if tenant.suspended else "deleting" if tenant.deleting else "active"
