"""`functory handler put | get | list | versions | rollback | rm | invoke`"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from functory.cli.answers import inert, moment
from functory.cli.arguments import given, number_pair, pair
from functory.cli.commands import Commands
from functory.cli.progress import StepLine
from functory.cli.remote import add_remote, print_json, show, show_table

if TYPE_CHECKING:
    from functory.client import Client
    from functory.wire.handlers import Handler, HandlerList, Invoked

_MOST_PACKAGES: Final = 8
"""Named in the line of a version; with more of them it would be a wall."""
_PACKAGES_S: Final = 660.0
"""What the server may take to resolve and to install, and a little."""
_HOOKS: Final = ("before", "beforeEach", "afterEach")


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("handler", help="register handlers and look at them")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_put(actions)

    get = actions.add_parser(
        "get",
        help="print the code of a handler, and its settings",
        description="The code goes to standard output, byte for byte. The settings come first, on standard error, if"
        " standard output is a terminal.",
    )
    get.add_argument("type")
    get.add_argument("--settings", action="store_true", help="print the settings alone, on standard output")
    get.add_argument("--version", type=int, help="an older version")
    get.add_argument("--tar", type=Path, metavar="FILE", help="write the files of a handler that is a folder to FILE")
    add_remote(get, run_get)

    add_remote(actions.add_parser("list", help="the active handlers"), run_list)
    versions = actions.add_parser("versions", help="all versions of a handler")
    versions.add_argument("type")
    add_remote(versions, run_versions)
    remove = actions.add_parser("rm", aliases=["delete"], help="delete the handler of a type; its versions stay")
    remove.add_argument("type")
    add_remote(remove, run_remove)
    rollback = actions.add_parser("rollback", help="activate an older version again")
    rollback.add_argument("type")
    rollback.add_argument("version", type=int, nargs="?", help="default: the one before that which is active")
    add_remote(rollback, run_rollback)
    invoke = actions.add_parser("invoke", help="run the handler of a type once on the server, without a job")
    invoke.add_argument("type")
    invoke.add_argument("--payload", default="", help="default: empty")
    invoke.add_argument("--file", type=Path, metavar="FILE", help="run this file instead of the active handler")
    invoke.add_argument("--lang", help="the language of FILE, if its extension does not tell")
    invoke.set_defaults(patience_s=_PACKAGES_S)
    add_remote(invoke, run_invoke)


def _add_put(actions: Commands) -> None:
    put = actions.add_parser("put", help="register a file as the handler of a type")
    put.add_argument("type")
    put.add_argument(
        "file", metavar="FILE", nargs="?", help="the code; for lang http, the URL; for lang worker, none is needed"
    )
    put.add_argument("--lang", help="the language, if the extension does not tell")
    put.add_argument("--timeout-s", "--timeout", type=float, metavar="SECONDS", help="per job (default: 60)")
    put.add_argument("--memory-mb", type=int, help="per context (default: 128)")
    put.add_argument("--network", action="store_true", help="the code needs the network")
    put.add_argument(
        "--host", action="append", metavar="HOST[:PORT]", help="a host that the code calls; * for names below"
    )
    put.add_argument("--returns", choices=["value", "status"], help="what a returned whole number is (default: value)")
    put.add_argument("--then", metavar="TYPE", help="make a job of this type from the result of each job that ended ok")
    put.add_argument("--on-failure", metavar="TYPE", help="the same for jobs that failed or were abandoned")
    put.add_argument("--keep", choices=["all", "failed", "none"], help="which ended jobs are kept (default: all)")
    put.add_argument("--domain", metavar="NAME", help="the rate domain of its jobs that name none")
    put.add_argument("--before", type=Path, metavar="FILE", help="code that runs once in every new context")
    put.add_argument("--before-each", type=Path, metavar="FILE", help="code that runs before every batch")
    put.add_argument("--after-each", type=Path, metavar="FILE", help="code that runs after every batch")
    put.add_argument("--eid", help="handlers with the same eid may share contexts")
    put.add_argument("--env", type=pair, action="append", metavar="NAME=VALUE", help="an environment variable")
    put.add_argument("--secret", action="append", metavar="NAME", help="a secret of the tenant that the code needs")
    put.add_argument(
        "--option",
        type=number_pair,
        action="append",
        metavar="NAME=NUMBER",
        help="max_batch, max_per_key, max_wait_s, max_attempts, retry_base_ms, retry_max_ms, retry_window_s, "
        "keep_processes, printed_jobs; lease_s (of a type that workers serve)",
    )
    put.add_argument(
        "--reset", action="store_true", help="settings that are not given get their defaults, and do not stay"
    )
    put.add_argument("--upgrade", action="store_true", help="resolve the packages that the code asks for anew")
    put.set_defaults(patience_s=_PACKAGES_S)
    add_remote(put, run_put)


async def run_put(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.handler_file import (  # noqa: PLC0415 (not for the parser)
        named_files,
        read_body,
        read_text,
        settings_besides,
    )

    lang, body = await read_body(arguments.file, arguments.lang)
    hooks = zip(_HOOKS, (arguments.before, arguments.before_each, arguments.after_each), strict=True)
    files = {name: file for name, file in hooks if file is not None}
    texts = {name: await read_text(file) for name, file in files.items()}
    fields: dict[str, Any] = given(
        timeout_s=arguments.timeout_s,
        memory_mb=arguments.memory_mb,
        network=arguments.network,
        hosts=arguments.host,
        returns=arguments.returns,
        then=arguments.then,
        on_failure=arguments.on_failure,
        keep=arguments.keep,
        domain=arguments.domain,
        eid=arguments.eid,
        env=arguments.env and dict(arguments.env),
        secrets=arguments.secret,
        options=arguments.option and dict(arguments.option),
        **texts,
    )
    how = {"upgrade": arguments.upgrade, "merge": not arguments.reset}
    with StepLine() as line, named_files({"body": arguments.file, **{name: str(it) for name, it in files.items()}}):
        if arguments.file is None and not arguments.reset:  # what its text for people says stays
            handler = await client.serve_by_workers(arguments.type, **fields)
        else:
            handler = await client.put_handler(arguments.type, lang, body, tell=line.show, **how, **fields)
    stayed = ", ".join(settings_besides(handler.handler, fields))
    status = tell_active(arguments, handler, f" (as before: {stayed})" if stayed else "")
    await hint_at_targets(client, [arguments.then, arguments.on_failure])
    await hint_at_domain(client, arguments.domain)
    return status


async def hint_at_targets(client: "Client", said: Sequence[str | None]) -> None:
    """Jobs of a type that was mistyped would wait for ever."""
    from functory.cli.job_adding import has_no_handler  # noqa: PLC0415 (not for the parser)

    for name in dict.fromkeys(filter(None, said)):
        if await has_no_handler(client, name):
            print(f"Type {name} has no handler yet: jobs that are made for it wait until it has one.", file=sys.stderr)


async def hint_at_domain(client: "Client", domain: str | None) -> None:
    """One that was mistyped would limit nothing."""
    from functory.client import ClientError  # noqa: PLC0415 (not for the parser)

    try:
        if domain:
            await client.get_rate(domain)
    except ClientError as error:
        if error.status == 404:  # not for a key that may not look
            command = shlex.join(["functory", "rate", "set", inert(domain.encode()), "RATE"]) if domain else ""
            print(f"Its rate domain has no limit yet: {command}", file=sys.stderr)


async def run_get(client: "Client", arguments: argparse.Namespace) -> int:
    if arguments.tar is not None:
        return await _save_tar(client, arguments)
    handler = await client.get_handler(arguments.type, version=arguments.version)
    if arguments.json:
        return show(arguments, handler, "")
    from functory.cli.handler_view import settings_text  # noqa: PLC0415 (not for the parser)

    if arguments.settings:
        print(settings_text(handler))
        return 0
    body = str(handler.handler["body"])
    if sys.stdout.isatty():
        print(settings_text(handler), end="\n\n" if body else "\n", file=sys.stderr)
    sys.stdout.write(body)  # as it is: what is saved and put again is the same version
    if sys.stdout.isatty() and not body.endswith("\n"):
        print()
    return 0


async def _save_tar(client: "Client", arguments: argparse.Namespace) -> int:
    import aiofiles  # noqa: PLC0415 (not for the parser)

    packed = await client.download_folder(arguments.type, version=arguments.version)
    async with aiofiles.open(arguments.tar, "wb") as file:
        await file.write(packed)
    return show(arguments, {"bytes": len(packed)}, f"{arguments.tar}: {len(packed):,} bytes")


async def run_list(client: "Client", arguments: argparse.Namespace) -> int:
    return _table(
        arguments, await client.list_handlers(), "No handlers yet. Register one: functory handler put TYPE FILE"
    )


async def run_versions(client: "Client", arguments: argparse.Namespace) -> int:
    return _table(arguments, await client.list_versions(arguments.type), "No versions.")


async def run_rollback(client: "Client", arguments: argparse.Namespace) -> int:
    version = arguments.version
    if version is None:
        version = await _version_before(client, arguments.type)
    handler = await client.roll_back(arguments.type, version)
    return tell_active(arguments, handler, f", a copy of version {version}")


async def _version_before(client: "Client", job_type: str) -> int:
    """Of a copy, also of a copy of one, the one before its original: rolling back twice leads further back."""
    from functory.errors import Missing  # noqa: PLC0415 (not for the parser)

    rows = (await client.list_versions(job_type)).handlers
    active = next((row.version for row in rows if row.current), None)
    originals = {row.version: row.restored_from for row in rows}
    while active is not None and (original := originals.get(active)):
        active = original
    older = [row.version for row in rows if active is None or row.version < active]
    if not older:
        raise Missing(f"{job_type} has no version before version {active}")
    return max(older)


async def run_remove(client: "Client", arguments: argparse.Namespace) -> int:
    await client.delete_handler(arguments.type)
    return show(arguments, {"ok": True}, f"{arguments.type}: handler deleted. New jobs of this type wait.")


async def run_invoke(client: "Client", arguments: argparse.Namespace) -> int:
    """Exits 0 for a 2xx, 1 for anything else."""
    from functory.cli.handler_file import named_files, read_body  # noqa: PLC0415 (not for the parser)

    handler = None
    if arguments.file is not None:
        lang, body = await read_body(str(arguments.file), arguments.lang)
        handler = {"lang": lang, "body": body}
    with StepLine() as line, named_files({} if handler is None else {"body": str(arguments.file)}):
        invoked = await client.invoke(arguments.type, arguments.payload, handler=handler, tell=line.show)
    print_json(invoked) if arguments.json else _print_invoked(invoked)
    return 0 if invoked.code == "ok" else 1


def _print_invoked(invoked: "Invoked") -> None:
    from functory.cli.answers import print_run  # noqa: PLC0415 (not for the parser)
    from functory.wire.base import from_wire  # noqa: PLC0415
    from vocabulary.new_job import NewJob  # noqa: PLC0415

    print_run(
        f"{invoked.exitcode} {invoked.code} in {invoked.duration_ms:.1f} ms at isolation {invoked.isolation}",
        from_wire(invoked.result, invoked.result_encoding),
        from_wire(invoked.log, invoked.log_encoding),
        [NewJob(job.type, from_wire(job.payload, job.payload_encoding), job.options) for job in invoked.new_jobs],
        None if invoked.carried is None else from_wire(invoked.carried, invoked.carried_encoding),
    )


def tell_active(arguments: argparse.Namespace, handler: "Handler", told: str = "") -> int:
    """Which version is in force now, and with which packages."""
    packages = (handler.handler.get("lock") or {"packages": []})["packages"]
    if len(packages) > _MOST_PACKAGES:
        told += f" with {len(packages)} packages (functory handler get {handler.type})"
    elif packages:
        told += " with " + ", ".join(f"{package['name']} {package['version']}" for package in packages)
    if handler.packages is not None and handler.packages.text:
        told += f"; {handler.packages.text}"
    return show(arguments, handler, f"{handler.type}: version {handler.version} is active{told}")


def _table(arguments: argparse.Namespace, answer: "HandlerList", empty: str) -> int:
    rows = [
        (
            r.type,
            r.version,
            r.lang,
            r.size_bytes,
            moment(r.created_ms),
            "yes" if r.current else "",
            r.restored_from or "",
        )
        for r in answer.handlers
    ]
    headers = ["type", "version", "lang", "bytes", "since", "active", "copy of"]
    return show_table(arguments, answer, headers, rows, empty)
