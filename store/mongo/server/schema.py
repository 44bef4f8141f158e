"""The layout of the database: collections, the states of a job document, indexes.

A job is one document of `jobs`. Its field `s` is its state and `at` the time by which that state is
ordered, so that one index serves every listing and all upkeep:

    s    state                                          at
    q    queued: waiting or deferred                    due time
    r    running, or lapsed                             end of the lease
    p    paused: a parent that waits for its children   when it was paused
    k    paused: held by its running parent or by a     due time
         consumer, or between two rounds by its tenant
    ao af ab ac   archived: ok, failed, abandoned, cancelled     when it ended
    h    being created: not there yet for any reader
    x    being purged: not there any more
    d    deleted: only its id is left            when it was deleted

Indexes follow MongoDB's rule for compound keys: equality, then sort, then range. The claim reads the index in
its own order, (priority descending, due, id), and stops at the limit; the part that is not due yet is skipped
by a seek per priority. docs/mongodb.md has the table and the shard key.
"""

from typing import Final

from pymongo import ASCENDING, DESCENDING, IndexModel

from store.errors import SchemaTooNew, StoreCorrupt
from store.mongo.server.bulk import update_one, write_each
from store.mongo.server.driver import Collection, Database, Document, find_and_update, upserted
from vocabulary.names import jobtype_of
from vocabulary.states import Code

VERSION: Final = 7
"""Of what programs must agree on. A daemon that opens the database raises it to its own, and an older one is refused
from then on. Raise it when a program of the version before would break a promise: with a new collection or index
(`tests/unit/store/test_mongo_schema.py` insists), and with a new field that must not be ignored.

1   jobs, handlers, tenants, keys, rates, daemons
2   consumers, numbers, secrets, files of handlers, keys of jobs, rates by pattern
3   keys that wait for a token of a rate domain
4   a list of jobs that repeat
5   alert rules; jobs by unique name, key and failure; beginnings of large payloads; schedules that are paused, and
    their rounds
6   webhooks
7   ids of deleted jobs, and which ids journals may still have
"""

SERIES: Final = ("audit", "sysids", "writers")
"""Numbers that only grow. They begin when the database is made, not by an upsert at their first use: FerretDB
answers the same first number to two callers then."""

IMPORT_NOTE: Final = "import"
"""In `meta` while the store is being filled from another: which, and how far that has come."""

QUEUED: Final = "q"
RUNNING: Final = "r"
PAUSED: Final = "p"
HELD: Final = "k"
HIDDEN: Final = "h"
PURGED: Final = "x"
DELETED: Final = "d"
ARCHIVED: Final = {
    Code.OK: "ao",
    Code.FAILED: "af",
    Code.ABANDONED: "ab",
    Code.CANCELLED: "ac",
}
CODE_OF: Final = {state: code for code, state in ARCHIVED.items()}
ARCHIVED_STATES: Final = tuple(ARCHIVED.values())
LIVE_STATES: Final = (QUEUED, RUNNING, PAUSED, HELD)
LIVE_RANGE: Final = {"$gte": HELD, "$lte": RUNNING}
"""The live states and no others. An index can have one bound of them, and no list."""
VISIBLE_STATES: Final = (*LIVE_STATES, *ARCHIVED_STATES)
ALL_STATES: Final = (*VISIBLE_STATES, HIDDEN, PURGED)

# The indexes that queries name. MongoDB would find them by itself; DocumentDB's planner has no statistics of what
# is in a document, and prefers the whole collection to an index that is empty.
CLAIM: Final = "claim"
LISTING: Final = "listing"
UPKEEP: Final = "upkeep"
DEFERRED: Final = "deferred"
TODO: Final = "todo"
URGENT: Final = "urgent"
KEYED: Final = "keyed"
OPEN_TURNS: Final = "open"
LATER_TURNS: Final = "later"
WAITING_TURNS: Final = "waiting"
READY: Final = "ready"
REPEATING: Final = "repeating"
NAMED: Final = "named"
OF_KEY: Final = "of_key"
FAILED: Final = "failed"

JOB_INDEXES: Final = (
    # claim: type, domain and priority (one of three) are equalities, due is sort and range at once
    IndexModel(
        [
            ("type", ASCENDING),
            ("dom", ASCENDING),
            ("prio", DESCENDING),
            ("at", ASCENDING),
            ("_id", ASCENDING),
        ],
        name=CLAIM,
        partialFilterExpression={"s": QUEUED},
    ),
    # claim of jobs with a key, which have no `dom`; all others are not in it
    IndexModel(
        [
            ("type", ASCENDING),
            ("key", ASCENDING),
            ("prio", DESCENDING),
            ("at", ASCENDING),
            ("_id", ASCENDING),
        ],
        name=KEYED,
        partialFilterExpression={"s": QUEUED, "key": {"$exists": True}},
    ),
    # types that have queued jobs of the highest priority; most jobs are not in it
    IndexModel(
        [("type", ASCENDING), ("at", ASCENDING)], name=URGENT, partialFilterExpression={"s": QUEUED, "prio": 1000}
    ),
    # listings, the oldest waiting job of every type, running jobs by type
    IndexModel([("s", ASCENDING), ("type", ASCENDING), ("at", ASCENDING), ("_id", ASCENDING)], name=LISTING),
    # upkeep over all types: lapsed leases, purge, jobs that wait too long
    IndexModel([("s", ASCENDING), ("at", ASCENDING)], name=UPKEEP),
    # deferred jobs that came due and are still counted as deferred
    IndexModel([("due", ASCENDING)], name=DEFERRED, partialFilterExpression={"d": True}),
    IndexModel([("type", ASCENDING), ("seq", ASCENDING)], name="seq", partialFilterExpression={"seq": {"$gte": 0}}),
    IndexModel(
        [("parent", ASCENDING), ("pend", ASCENDING), ("_id", ASCENDING)],
        name="children",
        partialFilterExpression={"parent": {"$exists": True}},
    ),
    # by number, of the few jobs that have one
    IndexModel([("no", ASCENDING)], name="number", partialFilterExpression={"no": {"$exists": True}}),
    # jobs that repeat and are not over; most are not in it
    IndexModel(
        [("type", ASCENDING), ("_id", ASCENDING)],
        name=REPEATING,
        partialFilterExpression={"repeat": {"$exists": True}, "s": {"$gte": HELD}},
    ),
    # listings by unique name, by key, and by the error of the last run: only jobs that have one are in them
    *(
        IndexModel(
            [("type", ASCENDING), (field, ASCENDING), ("s", ASCENDING), ("at", ASCENDING), ("_id", ASCENDING)],
            name=name,
            partialFilterExpression={field: {"$exists": True}},
        )
        for name, field in ((NAMED, "unique"), (OF_KEY, "key"), (FAILED, "out.fingerprint"))
    ),
    # steps for relatives that a crash may have interrupted
    IndexModel([("todo", ASCENDING)], name=TODO, partialFilterExpression={"todo": {"$exists": True}}),
)

OTHER_INDEXES: Final[dict[str, tuple[IndexModel, ...]]] = {
    "counters": (
        IndexModel([("k", ASCENDING), ("type", ASCENDING), ("last", DESCENDING)], name="by_type"),
        IndexModel([("k", ASCENDING), ("width", ASCENDING), ("start", ASCENDING)], name="by_time"),
        IndexModel([("k", ASCENDING), ("last", ASCENDING)], name="by_last"),
    ),
    "versions": (IndexModel([("type", ASCENDING), ("version", DESCENDING)], name="by_type"),),
    "keys": (IndexModel([("tenant", ASCENDING), ("created", ASCENDING), ("_id", ASCENDING)], name="by_tenant"),),
    "audit": (
        IndexModel([("tenant", ASCENDING), ("_id", DESCENDING)], name="by_tenant"),
        IndexModel([("at", ASCENDING)], name="by_time"),
    ),
    "once": (IndexModel([("expires", ASCENDING)], name="by_expiry"),),
    "consumers": (IndexModel([("type", ASCENDING)], name="by_type", unique=True),),
    "turns": (
        IndexModel(
            [("type", ASCENDING), ("tag", ASCENDING), ("_id", ASCENDING)],
            name=OPEN_TURNS,
            partialFilterExpression={"open": True},
        ),
        IndexModel([("type", ASCENDING), ("at", ASCENDING)], name=LATER_TURNS, partialFilterExpression={"open": False}),
        # those that wait for a token of a rate domain
        IndexModel(
            [("type", ASCENDING), ("dom", ASCENDING), ("tag", ASCENDING), ("_id", ASCENDING)],
            name=WAITING_TURNS,
            partialFilterExpression={"open": False, "dom": {"$exists": True}},
        ),
    ),
    "lanes": (IndexModel([("type", ASCENDING), ("top", DESCENDING), ("ready", ASCENDING)], name=READY),),
    "rates": (IndexModel([("tenant", ASCENDING)], name="patterns", partialFilterExpression={"pattern": True}),),
    "rate_buckets": (IndexModel([("full", ASCENDING)], name="full"),),
    "daemons": (IndexModel([("until", ASCENDING)], name="by_until"),),
}


class Collections:
    """The collections of one database, by name."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.jobs: Collection = database["jobs"]
        self.names: Collection = database["names"]  # unique name of a live job: who holds it
        self.types: Collection = database[
            "types"
        ]  # per jobtype: paused, has domains, indexed queue, what its consumer let in
        self.counters: Collection = database["counters"]  # per jobtype, bucket and failure group
        self.writers: Collection = database["writers"]  # what is being counted: see ledger.py
        self.shelf: Collection = database["shelf"]  # per jobtype: the handler version in force
        self.versions: Collection = database["versions"]
        self.consumers: Collection = database["consumers"]
        self.rates: Collection = database["rates"]
        self.rate_buckets: Collection = database["rate_buckets"]  # of domains that a pattern limits
        self.lanes: Collection = database["lanes"]  # per jobtype and rate domain: see queue/domain_claim.py
        self.turns: Collection = database["turns"]  # per jobtype and key: see queue/turns.py
        self.positions: Collection = database["positions"]
        self.daemons: Collection = database["daemons"]
        self.tenants: Collection = database["tenants"]
        self.keys: Collection = database["keys"]
        self.secrets: Collection = database["secrets"]  # sealed values by tenant and name
        self.alerts: Collection = database["alerts"]  # rules by tenant and name
        self.webhooks: Collection = database["webhooks"]  # by tenant and name
        self.contents: Collection = database["contents"]  # pieces of files by tenant and digest
        self.audit: Collection = database["audit"]
        self.once: Collection = database["once"]
        self.numbers: Collection = database["numbers"]  # per tenant: the last number of a job
        self.meta: Collection = database["meta"]  # schema version and the store's own counters


async def prepare(collections: Collections) -> None:
    """Create what is missing, and raise the version. Safe to run from many daemons at once. Raises SchemaTooNew.

    The version comes first: an older daemon that starts meanwhile is refused, and what is created is looked for at
    every start, so it is made up for after a crash.
    """
    made: dict[str, Document] = {"schema": {"version": VERSION}} | {what: {"n": 0} for what in SERIES}
    steps = [update_one({"_id": key}, {"$setOnInsert": fields}, upsert=True) for key, fields in made.items()]
    await upserted(lambda: write_each(collections.meta, steps))
    older = {"_id": "schema", "version": {"$lt": VERSION}}
    await collections.meta.update_one(older, {"$set": {"version": VERSION}})
    found = await collections.meta.find_one({"_id": "schema"})
    if found is not None and found["version"] > VERSION:
        raise SchemaTooNew(
            f"the database has schema {found['version']} and this version of Functory knows {VERSION}: run the newer"
            " version, or restore a backup made before (docs/backup.md)"
        )
    await collections.jobs.create_indexes(list(JOB_INDEXES))
    for name, indexes in OTHER_INDEXES.items():
        await collections.database[name].create_indexes(list(indexes))


async def next_number(collections: Collections, what: str) -> int:
    """The next of one of the SERIES, 1 first."""
    found = await find_and_update(collections.meta, {"_id": what}, {"$inc": {"n": 1}})
    if found is None:
        raise StoreCorrupt(f"the series of {what} is gone from the collection `meta`")
    number: int = found["n"]
    return number


def types_of(tenant: str) -> dict[str, str]:
    """The condition that a jobtype belongs to the tenant, as a range: '.' follows '-' in the alphabet."""
    return {"$gte": jobtype_of(tenant, ""), "$lt": f"{tenant}."}
