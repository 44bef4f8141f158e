"""The version of a store: of its schema and of the database under it."""

from typing import NamedTuple


class StoreVersion(NamedTuple):
    """schema is that of the database, 0 when it has none yet; known is the newest that this program can use.

    engine names the database library or server with its version, for people.
    """

    schema: int
    known: int
    engine: str
