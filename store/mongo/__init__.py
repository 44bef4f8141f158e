"""MongoDB through motor: the shared back end. docs/mongodb.md explains the model and how to run it.

No transaction and no change stream is needed: every verb is made of changes of single documents, each on
condition of what was read, and of steps that are repeated when a crash interrupts them.

  server/    the connection, the layout of the database, and how changes are counted
  queue/     jobs: add, claim, renew, release, expire, change, list
  records/   handlers, tenants, keys, daemons, counters, export and import
"""

from pathlib import Path

from store.base import Store
from store.errors import UnsupportedStore
from store.mongo.queue.add import MongoAdd
from store.mongo.queue.claim import MongoClaim
from store.mongo.queue.create import MongoCreate
from store.mongo.queue.discard import MongoDiscard
from store.mongo.queue.expire import MongoExpire
from store.mongo.queue.job_changes import MongoJobChanges
from store.mongo.queue.keyed_claim import MongoKeys
from store.mongo.queue.listing import MongoListing
from store.mongo.queue.making import MongoMaking
from store.mongo.queue.numbers import MongoNumbers
from store.mongo.queue.rates import MongoRates
from store.mongo.records.activity import MongoActivity
from store.mongo.records.alerts import MongoAlerts
from store.mongo.records.consumers import MongoConsumers
from store.mongo.records.contents import MongoContents
from store.mongo.records.daemons import MongoDaemons
from store.mongo.records.handlers import MongoHandlers
from store.mongo.records.notes import MongoNotes
from store.mongo.records.once import MongoOnce
from store.mongo.records.scoreboard import MongoScoreboard
from store.mongo.records.secrets import MongoSecrets
from store.mongo.records.tenants import MongoTenants
from store.mongo.records.transfer import MongoTransfer
from store.mongo.records.webhooks import MongoWebhooks
from store.mongo.server.core import repeatable
from store.mongo.server.maintenance import MongoMaintenance

__all__ = ["MongoStore", "store_from_url"]


class MongoStore(
    MongoAdd,
    MongoClaim,
    MongoDiscard,
    MongoMaking,
    MongoExpire,
    MongoCreate,
    MongoJobChanges,
    MongoListing,
    MongoKeys,
    MongoNumbers,
    MongoRates,
    MongoConsumers,
    MongoHandlers,
    MongoContents,
    MongoScoreboard,
    MongoActivity,
    MongoDaemons,
    MongoTenants,
    MongoOnce,
    MongoSecrets,
    MongoAlerts,
    MongoWebhooks,
    MongoNotes,
    MongoMaintenance,
    MongoTransfer,
    Store,
):
    """The store on a MongoDB database: the one named in the URL, or `functory`."""

    def at(self, path: Path) -> Store:
        raise UnsupportedStore(f"the store is on MongoDB: {path} cannot hold one of its kind")

    @repeatable
    async def ping(self) -> None:
        await self.collections.database.command("ping")


def store_from_url(url: str) -> MongoStore:
    return MongoStore(url)
