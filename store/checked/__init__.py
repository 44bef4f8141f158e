"""The front of every store: each verb checks its arguments, once for all back ends, and hands them on.

`open_store` puts it before the back end that the URL names. So back ends refuse the same arguments with the same words,
never see a hostile name, and have no checks of their own. A verb that raises InvalidValue has reached no database.

  core.py          the back end behind; open, close, ping, version, copy and check
  queue.py         add, claim, renew, release, expire
  straight.py      jobs that start before the store has them
  jobs.py          single jobs, listings, indexed queues, rate domains
  consumers.py     consumers, their leaders and windows
  handlers.py, contents.py, scoreboard.py, daemons.py, tenants.py, secrets.py, alerts.py, webhooks.py, transfer.py
                   the other roles
The checks themselves are in store/names.py and store/checks.py.
"""

from pathlib import Path

from store.base import Store
from store.checked.alerts import CheckedAlerts
from store.checked.consumers import CheckedConsumers
from store.checked.contents import CheckedContents
from store.checked.core import CheckedMaintenance
from store.checked.daemons import CheckedDaemons
from store.checked.handlers import CheckedHandlers
from store.checked.jobs import CheckedJobs
from store.checked.queue import CheckedQueue
from store.checked.scoreboard import CheckedActivity, CheckedScoreboard
from store.checked.secrets import CheckedSecrets
from store.checked.straight import CheckedStraight
from store.checked.tenants import CheckedNotes, CheckedTenants
from store.checked.transfer import CheckedTransfer
from store.checked.webhooks import CheckedWebhooks

__all__ = ["CheckedStore"]


class CheckedStore(
    CheckedQueue,
    CheckedStraight,
    CheckedJobs,
    CheckedConsumers,
    CheckedHandlers,
    CheckedContents,
    CheckedScoreboard,
    CheckedActivity,
    CheckedDaemons,
    CheckedTenants,
    CheckedSecrets,
    CheckedAlerts,
    CheckedWebhooks,
    CheckedNotes,
    CheckedMaintenance,
    CheckedTransfer,
    Store,
):
    """All roles before one back end."""

    def at(self, path: Path) -> Store:
        return CheckedStore(self._behind.at(path))

    def behind(self) -> "CheckedStore":
        """The same store for whoever prepares its use: not kept out."""
        return CheckedStore(self._behind)
