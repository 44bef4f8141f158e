"""Time zones by their names in the database of IANA. The package tzdata has the names, so that all daemons accept the
same ones; what the system knows of a zone comes first, because systems are kept up to date.

Reading blocks. Whoever may not wait reads all zones before, on a thread.
"""

from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo


def find_zone(name: str) -> ZoneInfo | None:
    """None if there is none of that name."""
    return _read(name) if name in _names() else None


@cache
def read_zones() -> None:
    for name in _names():
        _read(name)


@cache
def _names() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text("ascii").split())


@cache
def _read(name: str) -> ZoneInfo:
    return ZoneInfo(name)
