"""Flags for the settings, the same for every command that needs them, and `functory config`."""

import argparse
import json
import re
from pathlib import Path
from typing import Final

from functory.cli.commands import Commands
from functory.cli.table import render_table
from functory.config import Config, load_config, setting_fields

_PASSWORD_OPTION: Final = re.compile(r"([?&][^=&]*password[^=&]*=)[^&]*", re.IGNORECASE)


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("config", help="print the effective settings and where each came from")
    add_settings(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run_config)


def add_settings(parser: argparse.ArgumentParser, *only: str) -> None:
    """Add a flag for each setting, or only for those named. Values are parsed with the rest of the configuration, so
    errors look the same."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings file (default: functory.toml, if there)")
    group = parser.add_argument_group("settings")
    for name, each in setting_fields().items():
        if only and name not in only:
            continue
        default = each.metadata["default"] or "none"
        group.add_argument(
            f"--{name.replace('_', '-')}",
            dest=f"setting_{name}",
            metavar="VALUE",
            help=f"{each.metadata['help']} (default: {default})",
        )


def config_of(arguments: argparse.Namespace) -> Config:
    given = {name: getattr(arguments, f"setting_{name}", None) for name in setting_fields()}
    return load_config({name: text for name, text in given.items() if text is not None}, file=arguments.config)


def run_config(arguments: argparse.Namespace) -> int:
    config = config_of(arguments)
    rows = [(name, _hide_password(source.text), source.place) for name, source in config.sources.items()]
    if arguments.json:
        print(json.dumps({name: {"value": value, "from": place} for name, value, place in rows}, indent=2))
    else:
        print(render_table(["setting", "value", "from"], rows))
    return 0


def _hide_password(text: str) -> str:
    """A store's URL without its passwords: `mongodb://user:secret@host` becomes `mongodb://user:***@host`, and options
    such as `tlsCertificateKeyFilePassword=secret` are hidden, too."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        return text
    user, at, host = rest.rpartition("@")
    shown = f"{user.partition(':')[0]}:***@{host}" if at and ":" in user else rest
    return scheme + mark + _PASSWORD_OPTION.sub(r"\1***", shown)
