"""`functory completion bash | zsh` and `functory openapi`: for shells and for tools."""

import argparse

import shtab

from functory.cli.commands import Commands
from functory.cli.remote import print_json
from functory.web.api.openapi import build_openapi
from functory.web.app import ROUTES


def add_commands(commands: Commands) -> None:
    completion = commands.add_parser("completion", help="print a completion script: source <(functory completion bash)")
    completion.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)
    completion.set_defaults(run=run_completion)
    openapi = commands.add_parser("openapi", help="print the description of the HTTP interface")
    openapi.set_defaults(run=run_openapi)


def run_completion(arguments: argparse.Namespace) -> int:
    from functory.cli.main import make_parser  # noqa: PLC0415 (the parser is made of these modules)

    print(shtab.complete(make_parser(), arguments.shell))
    return 0


def run_openapi(_: argparse.Namespace) -> int:
    print_json(build_openapi(ROUTES))
    return 0
