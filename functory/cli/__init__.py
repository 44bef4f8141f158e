"""The command line: parse, call one operation, print. Each group of commands is a module with `add_commands`."""

from functory.cli.main import main

__all__ = ["main"]
