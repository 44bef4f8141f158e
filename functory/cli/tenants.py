"""`functory tenant ...` and `functory key ...`, with the operator's key."""

import argparse

from functory.cli.answers import moment
from functory.cli.commands import Commands
from functory.cli.remote import add_remote, print_json
from functory.cli.table import render_table
from functory.client import Client


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("tenant", help="create and change tenants (operator)")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    create = actions.add_parser("create", help="a tenant with a first key, which is shown once")
    create.add_argument("name")
    create.add_argument("--weight", type=int, default=1, help="share of runner time against others (default: 1)")
    add_remote(create, run_create, tenant=False)
    listing = actions.add_parser("list", help="all tenants")
    add_remote(listing, run_list, tenant=False)
    weight = actions.add_parser("weight", help="change a tenant's share")
    weight.add_argument("name")
    weight.add_argument("weight", type=int)
    add_remote(weight, run_weight, tenant=False)
    for name, run, text in (
        ("suspend", run_suspend, "run nothing of it and take nothing more in"),
        ("resume", run_resume, "end a suspension"),
        ("delete", run_delete, "remove it with all its data"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("name")
        add_remote(action, run, tenant=False)

    keys = commands.add_parser("key", help="keys of a tenant (operator)")
    key_actions = keys.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, run_key, text in (("create", run_key_create, "a new key"), ("list", run_key_list, "its keys")):
        action = key_actions.add_parser(name, help=text)
        action.add_argument("name", metavar="TENANT")
        add_remote(action, run_key, tenant=False)
    rotate = key_actions.add_parser("rotate", help="a new key; the old one ends after a while")
    rotate.add_argument("name", metavar="TENANT")
    rotate.add_argument("id")
    rotate.add_argument("--overlap-s", type=int, default=86_400)
    add_remote(rotate, run_key_rotate, tenant=False)
    revoke = key_actions.add_parser("revoke", help="end a key now")
    revoke.add_argument("name", metavar="TENANT")
    revoke.add_argument("id")
    add_remote(revoke, run_key_revoke, tenant=False)


async def run_create(client: Client, arguments: argparse.Namespace) -> int:
    tenant = await client.create_tenant(arguments.name, weight=arguments.weight)
    key = await client.create_key(tenant.name, label="first")
    if arguments.json:
        print_json({"tenant": tenant, "key": key})
    else:
        print(f"tenant {tenant.name} is there; its key, which is shown only now:\n{key.key}")
    return 0


async def run_list(client: Client, arguments: argparse.Namespace) -> int:
    answer = await client.list_tenants()
    if arguments.json:
        print_json(answer)
    else:
        rows = [
            (t.name, t.weight, moment(t.created_ms), "suspended" if t.suspended else "deleting" if t.deleting else "")
            for t in answer.tenants
        ]
        print(render_table(["tenant", "weight", "since", "state"], rows))
    return 0


async def run_weight(client: Client, arguments: argparse.Namespace) -> int:
    tenant = await client.change_tenant(arguments.name, weight=arguments.weight)
    print_json(tenant) if arguments.json else print(f"{tenant.name} has weight {tenant.weight} now")
    return 0


async def run_suspend(client: Client, arguments: argparse.Namespace) -> int:
    tenant = await client.change_tenant(arguments.name, suspended=True)
    print_json(tenant) if arguments.json else print(f"{tenant.name} is suspended")
    return 0


async def run_resume(client: Client, arguments: argparse.Namespace) -> int:
    tenant = await client.change_tenant(arguments.name, suspended=False)
    print_json(tenant) if arguments.json else print(f"{tenant.name} goes on")
    return 0


async def run_delete(client: Client, arguments: argparse.Namespace) -> int:
    removed = await client.delete_tenant(arguments.name)
    print_json({"removed": removed}) if arguments.json else print(f"{arguments.name} is gone, with {removed:,} records")
    return 0


async def run_key_create(client: Client, arguments: argparse.Namespace) -> int:
    key = await client.create_key(arguments.name)
    print_json(key) if arguments.json else print(key.key)
    return 0


async def run_key_list(client: Client, arguments: argparse.Namespace) -> int:
    answer = await client.list_keys(arguments.name)
    if arguments.json:
        print_json(answer)
    else:
        rows = [(k.id, k.label, " ".join(k.scopes), moment(k.created_ms), moment(k.expires_ms)) for k in answer.keys]
        print(render_table(["id", "label", "scopes", "since", "until"], rows))
    return 0


async def run_key_rotate(client: Client, arguments: argparse.Namespace) -> int:
    key = await client.rotate_key(arguments.name, arguments.id, overlap_s=arguments.overlap_s)
    print_json(key) if arguments.json else print(key.key)
    return 0


async def run_key_revoke(client: Client, arguments: argparse.Namespace) -> int:
    await client.revoke_key(arguments.name, arguments.id)
    print_json({"ok": True}) if arguments.json else print(f"key {arguments.id} is revoked")
    return 0
