"""`functory store version | verify | fork | operator-key`: the store as a whole, without a daemon."""

import argparse
import asyncio
import json

import functory
from functory.cli.commands import Commands
from functory.cli.settings import add_settings, config_of
from functory.cli.table import render_table
from functory.operations.keys import new_key
from functory.operations.principal import OPERATOR
from functory.transfer.migrate import label_of, require_rest, require_store
from functory.transfer.restore import part_from_past
from store.base import AuditEvent, StoreVersion
from store.url import open_store
from vocabulary.clock import SystemClock


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("store", help="look at the store as a whole")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    version = actions.add_parser(
        "version", help="its schema and what this program knows; exits 1 if the store is too new for it"
    )
    version.set_defaults(run=run_version)
    verify = actions.add_parser("verify", help="look for damage, and count records; may take long")
    verify.add_argument("--quick", action="store_true", help="without comparing indexes with what they index")
    verify.set_defaults(run=run_verify)
    fork = actions.add_parser(
        "fork",
        help="after a store was restored by other means than ours: forget its daemons and leave sysids out",
        description="A copy of a store would give its daemons the sysids that the original gave after the copy was"
        " made, and ids of jobs could repeat. `functory restore` sees to that by itself; after a restore of MongoDB,"
        " or of a file by hand, run this once before the first daemon starts.",
    )
    fork.add_argument("--force", action="store_true", help="also while a daemon seems to be alive")
    fork.set_defaults(run=run_fork)
    key = actions.add_parser(
        "operator-key",
        help="make a key that can administer the service, and print it",
        description="For whoever can read and write the store, when the operator's key is lost. Daemons may run; other"
        " keys stay as they are.",
    )
    key.set_defaults(run=run_operator_key)
    for action in (version, verify, fork, key):
        action.add_argument("--json", action="store_true", help="one JSON object")
        add_settings(action, "data_dir", "store")


def run_version(arguments: argparse.Namespace) -> int:
    url = config_of(arguments).settings.store_url
    store = open_store(url)
    version = asyncio.run(store.get_version())
    if arguments.json:
        print(json.dumps({"store": label_of(url), "functory": functory.__version__, **version._asdict()}))
    else:
        print(f"store     {label_of(url)} ({version.engine})")
        print(f"schema    {version.schema or '-'}")
        print(f"functory  {functory.__version__}, which knows schemas up to {version.known}")
        print(_verdict(version, is_file=store.file is not None))
    return 1 if version.schema > version.known else 0


def _verdict(version: StoreVersion, *, is_file: bool) -> str:
    if version.schema == 0:
        return "There is no store yet: the first start makes it."
    if version.schema > version.known:
        return "The store is too new for this program: use the newer one, or a backup made before (docs/backup.md)."
    if version.schema < version.known and is_file:
        return "The store is older: the next start migrates it, and keeps a copy of it as it is."
    if version.schema < version.known:
        return (
            "The store is older: the next start migrates it, and older daemons cannot use it any more. Stop them and"
            " make a backup first (docs/backup.md)."
        )
    return "They fit."


def run_fork(arguments: argparse.Namespace) -> int:
    url = config_of(arguments).settings.store_url
    forgotten = asyncio.run(_fork(url, force=arguments.force))
    if arguments.json:
        print(json.dumps({"forgotten": forgotten}))
    else:
        print(f"{label_of(url)} has a life of its own now; {forgotten} daemons of the old one are forgotten")
    return 0


async def _fork(url: str, *, force: bool) -> int:
    await require_store(url)
    async with open_store(url) as store:
        if not force:  # it would end them
            await require_rest(store, "store", SystemClock().now_ms())
        return await part_from_past(store)


def run_operator_key(arguments: argparse.Namespace) -> int:
    text = asyncio.run(_operator_key(config_of(arguments).settings.store_url))
    print(json.dumps({"key": text}) if arguments.json else text)
    return 0


async def _operator_key(url: str) -> str:
    await require_store(url)
    now_ms = SystemClock().now_ms()
    key, text = new_key(OPERATOR, now_ms, label="functory store operator-key")
    detail = json.dumps({"key": key.key_id, "scopes": list(key.scopes)})
    async with open_store(url) as store:
        await store.add_key(key)
        await store.append_audit(AuditEvent(now_ms, "functory store operator-key", "key.create", OPERATOR, detail))
    return text


def run_verify(arguments: argparse.Namespace) -> int:
    records = asyncio.run(open_store(config_of(arguments).settings.store_url).verify(quick=arguments.quick))
    if arguments.json:
        print(json.dumps(records))
    else:
        print(render_table(["kind", "records"], list(records.items())))
        print("\nno damage found")
    return 0
