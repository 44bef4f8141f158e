"""The embedded store: one SQLite file, through APSW, which brings its own SQLite.

Owns everything that knows SQL. Several processes may share one file on one machine; never put it on a network
file system, where WAL does not work. docs/store.md has the layout and how to add a migration.

  file/      the file itself: connections, schema, the thread that writes, the counts of a transaction
  queue/     jobs: add, claim, renew, release, expire, change, list
  records/   handlers, tenants, keys, daemons, counters, export and import
  roles/     the verbs of the protocol: each hands its work to the writer or a reader
"""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from store.base import Store
from store.errors import UnsupportedStore
from store.sqlite.roles.activity import SqliteActivity
from store.sqlite.roles.alerts import SqliteAlerts
from store.sqlite.roles.consumers import SqliteConsumers
from store.sqlite.roles.contents import SqliteContents
from store.sqlite.roles.daemons import SqliteDaemons
from store.sqlite.roles.handlers import SqliteHandlers
from store.sqlite.roles.jobs import SqliteJobs
from store.sqlite.roles.maintenance import SqliteMaintenance
from store.sqlite.roles.notes import SqliteNotes
from store.sqlite.roles.queue import SqliteQueue
from store.sqlite.roles.scoreboard import SqliteScoreboard
from store.sqlite.roles.secrets import SqliteSecrets
from store.sqlite.roles.straight import SqliteStraight
from store.sqlite.roles.tenants import SqliteTenants
from store.sqlite.roles.transfer import SqliteTransfer
from store.sqlite.roles.webhooks import SqliteWebhooks

__all__ = ["SqliteStore", "store_from_url"]


class SqliteStore(
    SqliteQueue,
    SqliteStraight,
    SqliteJobs,
    SqliteConsumers,
    SqliteHandlers,
    SqliteContents,
    SqliteScoreboard,
    SqliteActivity,
    SqliteDaemons,
    SqliteTenants,
    SqliteSecrets,
    SqliteAlerts,
    SqliteWebhooks,
    SqliteNotes,
    SqliteMaintenance,
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
