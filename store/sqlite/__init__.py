"""The embedded store: one SQLite file, through APSW, which brings its own SQLite.

Owns everything that knows SQL. Several processes may share one file on one machine; never put it on a network
file system, where WAL does not work. docs/store.md has the layout and how to add a migration.

Read in this order:
  schema.py        tables, indexes, migrations; connection.py settings and errors
  writer.py        the thread that writes, with group commit; line.py what waits for it; readers.py the threads
                   that read; core.py both
  catalog.py       what the writer remembers; tally.py the counts of a transaction; buckets.py those by time;
                   totals.py those of a tenant by time
  bulk.py          many jobs in one statement; rows.py rows to values
  add.py           a job enters; claim.py it is handed out, within rates.py; release.py the delivery ends
  lone.py          endings in bulk; endings.py one by one, with what follows for relatives; moves.py the steps
                   they share; expire.py upkeep
  desk.py          single jobs of a tenant; listing.py reading them; scoreboard.py and activity.py counts
  handlers.py, daemons.py, tenants.py the other records
  care.py          the file as a whole: version, copy, check
  exporting.py, importing.py   the content to and from another store; importnote.py how far that has come
  roles/           the verbs: arguments checked, work handed to the writer or a reader
"""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from store.base import Store
from store.errors import UnsupportedStore
from store.sqlite.roles.activity import SqliteActivity
from store.sqlite.roles.care import SqliteCare
from store.sqlite.roles.daemons import SqliteDaemons
from store.sqlite.roles.handlers import SqliteHandlers
from store.sqlite.roles.jobs import SqliteDesk
from store.sqlite.roles.notes import SqliteNotes
from store.sqlite.roles.queue import SqliteQueue
from store.sqlite.roles.scoreboard import SqliteScoreboard
from store.sqlite.roles.tenants import SqliteTenants
from store.sqlite.roles.transfer import SqliteTransfer

__all__ = ["SqliteStore", "store_from_url"]


class SqliteStore(
    SqliteQueue,
    SqliteDesk,
    SqliteHandlers,
    SqliteScoreboard,
    SqliteActivity,
    SqliteDaemons,
    SqliteTenants,
    SqliteNotes,
    SqliteCare,
    SqliteTransfer,
    Store,
):
    """All roles on one file."""

    def at(self, path: Path) -> Store:
        return SqliteStore(path)


def store_from_url(url: str) -> Store:
    """`sqlite:///absolute/path.db`. Raises UnsupportedStore for a host, a query or a missing path."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or parts.query or parts.fragment or not path.strip("/") or path.endswith("/") or "\0" in path:
        raise UnsupportedStore("a SQLite store URL reads sqlite:///absolute/path.db and has nothing else in it")
    return SqliteStore(Path(path))
