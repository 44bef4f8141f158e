"""`functory migrate --from URL --to URL`: all content of one store into another."""

import argparse
import asyncio
import json
import os
import sys

from functory.cli.commands import Commands
from functory.cli.table import render_table
from functory.errors import InvalidInput, StillRunning
from functory.transfer.migrate import Content, label_of, migrate, missing_store
from functory.transfer.moves import process_that_uses
from functory.vault.place import key_file_beside
from store.url import open_store
from store.values.transfer import Part
from vocabulary.clock import SystemClock


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "migrate",
        help="move all content of a store to another, such as from SQLite to MongoDB",
        description="Copies everything into an empty store and compares both at the end. No daemon may run meanwhile."
        " Interrupted, it goes on when it is started again. The source is left as it is.",
    )
    parser.add_argument("--from", dest="source", metavar="URL", help="FUNCTORY_FROM; the store as it is")
    parser.add_argument("--to", dest="target", metavar="URL", help="FUNCTORY_TO; an empty store")
    parser.add_argument("--force", action="store_true", help="also while a daemon seems to be alive")
    parser.add_argument(
        "--upgrade", action="store_true", help="also if the source is older: it gets the new schema first"
    )
    parser.add_argument("--batch", type=int, default=500, metavar="N", help="records in one step (default: 500)")
    parser.add_argument("--json", action="store_true", help="counts and checksums as JSON")
    parser.set_defaults(run=run_migrate)


def run_migrate(arguments: argparse.Namespace) -> int:
    source = arguments.source or os.environ.get("FUNCTORY_FROM")
    target = arguments.target or os.environ.get("FUNCTORY_TO")
    if not source or not target:
        raise InvalidInput("say where from and where to: --from URL --to URL")
    for url in (source, target):
        open_store(url)  # refuses one that cannot be read
    if label_of(source) == label_of(target):
        raise InvalidInput("--from and --to are the same store")
    content = asyncio.run(_migrate(source, target, arguments))
    if arguments.json:
        print(json.dumps({part: {"records": one.records, "checksum": one.checksum} for part, one in content.items()}))
        return 0
    print(
        render_table(
            ["part", "records", "checksum"], [(part, it.records, it.checksum[:16]) for part, it in content.items()]
        )
    )
    print(f"\nBoth stores hold the same. Start the daemons with --store {label_of(target)}; they keep their journals.")
    if content[Part.SECRETS].records:
        print(_about_secrets(source, target))
    return 0


def _about_secrets(source: str, target: str) -> str:
    """The daemons of the target look for the keys elsewhere, unless both stores lie in one folder."""
    before, after = key_file_beside(source), key_file_beside(target)
    if before is not None and before == after:
        return f"Tenants' secrets are in it, sealed. Their keys stay in {before}, unless you named another file."
    keys = f"{before}, unless you named another file" if before is not None else "the file of the daemons so far"
    return (
        "WARNING: tenants' secrets are in it, sealed, and their keys are not: start every daemon with"
        f" --secrets-key-file and a copy of {keys}. Without it jobs that need secrets wait (docs/secrets.md)"
    )


async def _require_no_older(target_url: str) -> None:
    """Whoever opens it would give it the new schema, and its daemons could not use it any more."""
    version = await open_store(target_url).get_version()
    if 0 < version.schema < version.known:
        raise InvalidInput(
            f"the target has schema {version.schema} already, and this version of Functory fills none but of schema"
            f" {version.known}: name a store that is empty"
        )


def _require_unused(source_url: str) -> None:
    """Before an older file gets the new schema: daemons of its own version would go on with it."""
    file = open_store(source_url).file
    pid = None if file is None else process_that_uses(file)
    if pid is not None:
        raise StillRunning(
            f"{file} is in use{f' by process {pid}' if pid else ''}: stop all daemons of this store first"
        )


async def _migrate(source_url: str, target_url: str, arguments: argparse.Namespace) -> dict[Part, Content]:
    version = await open_store(source_url).get_version()
    if version.schema == 0:
        raise await asyncio.to_thread(missing_store, source_url)
    if version.schema < version.known and not arguments.upgrade:
        raise InvalidInput(
            f"the source has schema {version.schema}, and would get schema {version.known} before anything is copied."
            " Make a backup of it, or move it with the version of Functory that it is of; --upgrade goes on"
        )
    await _require_no_older(target_url)
    if version.schema < version.known:
        await asyncio.to_thread(_require_unused, source_url)
    is_shown = sys.stderr.isatty() and not arguments.json

    def show(done: str, part: Part, count: int) -> None:
        if is_shown:
            print(f"\r\x1b[K{done} {count:,} {part}", end="", file=sys.stderr, flush=True)

    async with open_store(source_url) as source, open_store(target_url) as target:
        content = await migrate(
            source,
            target,
            label=label_of(source_url),
            now_ms=SystemClock().now_ms,
            force=arguments.force,
            page_records=arguments.batch,
            on_progress=show,
        )
    if is_shown:
        print(file=sys.stderr)
    return content
