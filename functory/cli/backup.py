"""`functory backup DIR`, `functory restore DIR`: copies of journals, embedded store and keys."""

import argparse
import asyncio
import json
import sys
from pathlib import Path

import msgspec

from functory.cli.answers import moment
from functory.cli.commands import Commands
from functory.cli.settings import add_settings, config_of
from functory.config import Settings
from functory.daemon.last_owner import last_in, mark_of_place
from functory.transfer.backup import Say, make_backup
from functory.transfer.manifest import Manifest
from functory.transfer.migrate import label_of
from functory.transfer.restore import restore_backup
from functory.vault.place import key_place
from vocabulary.clock import SystemClock


def add_commands(commands: Commands) -> None:
    backup = commands.add_parser("backup", help="copy journals, embedded store and keys, also while daemons run")
    backup.add_argument("folder", type=Path, metavar="DIR", help="a new folder; it appears when the backup is whole")
    backup.add_argument("--journals-only", action="store_true", help="leave the store out (it is backed up otherwise)")
    backup.set_defaults(run=run_backup)
    restore = commands.add_parser("restore", help="fill an empty data directory from a backup")
    restore.add_argument("folder", type=Path, metavar="DIR", help="the backup")
    restore.add_argument("--replace", action="store_true", help="move what the data directory holds aside")
    restore.set_defaults(run=run_restore)
    for parser in (backup, restore):
        parser.add_argument("--json", action="store_true", help="the manifest as JSON")
        add_settings(parser, "data_dir", "store")


def run_backup(arguments: argparse.Namespace) -> int:
    settings = config_of(arguments).settings
    manifest = asyncio.run(
        make_backup(
            settings,
            arguments.folder,
            now_ms=SystemClock().now_ms(),
            journals_only=arguments.journals_only,
            say=_say(arguments),
        )
    )
    if arguments.json:
        print(_as_json(manifest))
        return 0
    print(f"backup of {settings.data_dir} in {arguments.folder}\n{_describe(manifest)}")
    if not manifest.journals:
        print(
            f"WARNING: there is no journal in {settings.data_dir}: jobs that only a journal has are not in the backup"
        )
    for journal in manifest.journals:
        if journal.damages:
            print(
                f"WARNING: journal {journal.name} has {journal.damages} damaged places, which were copied as they are"
            )
        if manifest.store is not None and _used_another(settings, journal.name):
            print(
                f"WARNING: the daemon of journal {journal.name} used another store than {label_of(settings.store_url)},"
                " or the same under another name. If its store is another one, name it with --store, and make the"
                " backup again"
            )
    if _has_secrets(manifest):
        key = key_place(settings).path
        print(f"Tenants' secrets are in it, sealed. Their key is not: keep a copy of {key} somewhere else.")
    if manifest.store is None and not arguments.journals_only:
        print("The store is on a server and not in this backup: take its dump or snapshot now, after this.")
    return 0


def run_restore(arguments: argparse.Namespace) -> int:
    settings = config_of(arguments).settings
    manifest = asyncio.run(
        restore_backup(
            arguments.folder,
            settings,
            now_ms=SystemClock().now_ms(),
            replace=arguments.replace,
            say=_say(arguments),
            warn=lambda text: print(f"functory: {text}", file=sys.stderr),
        )
    )
    if arguments.json:
        print(_as_json(manifest))
        return 0
    print(f"{settings.data_dir} is restored and checked\n{_describe(manifest)}")
    if manifest.store is not None:
        print(f"Jobs that ended after {moment(manifest.began_ms)} are as they were then, and run again.")
    else:
        print(
            "The backup has no store. The one of this daemon is as it was, and takes what it lacks from the journals."
        )
    key = key_place(settings).path
    if _has_secrets(manifest) and key is not None and not key.exists():
        print(
            f"WARNING: tenants' secrets are sealed, and there is no key in {key}: put the copy that you kept there, or"
            " jobs that need them wait (docs/secrets.md)"
        )
    return 0


def _used_another(settings: Settings, journal: str) -> bool:
    """As far as is known: such as a server, before which there was an embedded store, whose file is still there."""
    directory = settings.data_dir / journal
    last, mark = last_in(directory)
    return bool(last) and mark != mark_of_place(directory, settings.store_url)


def _has_secrets(manifest: Manifest) -> bool:
    return manifest.store is not None and manifest.store.records.get("secrets", 0) > 0


def _describe(manifest: Manifest) -> str:
    size_bytes = sum(file.size_bytes for file in manifest.files)
    lines = [
        f"  taken     {moment(manifest.began_ms)} on {manifest.host} by Functory {manifest.functory}",
        f"  files     {len(manifest.files)}, {size_bytes:,} bytes",
    ]
    lines += [
        f"  journal   {journal.name}: {journal.lines:,} lines in {journal.segments} segments, the last of sysid"
        f" {journal.sysid or '-'}"
        for journal in manifest.journals
    ]
    if manifest.store is not None:
        jobs = manifest.store.records.get("jobs", 0)
        lines.append(f"  store     {jobs:,} jobs, schema {manifest.store.schema}")
    return "\n".join(lines)


def _as_json(manifest: Manifest) -> str:
    return json.dumps(msgspec.to_builtins(manifest), indent=2)


def _say(arguments: argparse.Namespace) -> Say:
    def say(step: str) -> None:
        if not arguments.json and sys.stderr.isatty():
            print(f"{step} ...", file=sys.stderr)

    return say
