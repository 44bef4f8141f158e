"""MongoDB through motor: the shared back end. docs/mongodb.md explains the model and how to run it.

No transaction and no change stream is needed: every verb is made of changes of single documents, each on
condition of what was read, and of steps that are repeated when a crash interrupts them.
"""

from store.base import Store
from store.mongo.activity import Activities
from store.mongo.care import Care
from store.mongo.claiming import Claiming
from store.mongo.core import repeatable
from store.mongo.daemons import Daemons
from store.mongo.desk import Desk
from store.mongo.handlers import Handlers
from store.mongo.importing import Importing
from store.mongo.listing import Listing
from store.mongo.notes import Notes
from store.mongo.releasing import Releasing
from store.mongo.scoreboard import Scores
from store.mongo.tenants import Tenants

__all__ = ["MongoStore", "store_from_url"]


class MongoStore(
    Claiming,
    Releasing,
    Desk,
    Importing,
    Listing,
    Scores,
    Activities,
    Handlers,
    Daemons,
    Tenants,
    Notes,
    Care,
    Store,
):
    """The store on a MongoDB database: the one named in the URL, or `functory`."""

    @repeatable
    async def ping(self) -> None:
        await self.collections.database.command("ping")


def store_from_url(url: str) -> MongoStore:
    return MongoStore(url)
