"""The type of what commands are added to: argparse has no public name for it."""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import argparse

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 (see above)
