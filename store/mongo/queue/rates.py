"""Rate domains: token buckets shared by all daemons, each one document changed by compare and swap.

The bucket of a limit on a name is the document of the limit. A domain that a pattern limits has a document in
`rate_buckets` from its first claim until it is full again.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pymongo.errors import BulkWriteError, DuplicateKeyError

from store.claim_rules import OF_CLAIMS
from store.mongo.server.bulk import Write, delete_one, update_found, update_one, write_each
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import DUPLICATE_KEY, Document, aggregate
from store.mongo.server.driver import Collection as MongoCollection
from store.mongo.server.lane_opening import keyed_lane_id, lane_id
from store.mongo.server.schema import types_of
from store.names import AHEAD_MS
from store.rate_rules import (
    MOST_WAIT_MS,
    Bucket,
    Limit,
    Patterns,
    check_limits,
    check_room,
    full_ms,
    grown,
    is_pattern,
    tokens_at,
)
from store.values.records import RateDomain, RateState, rate_state
from vocabulary.token_bucket import next_token_ms


class Held(NamedTuple):
    """The bucket of a domain as it was read: its tokens by now, and the limit on it. version None: it is to be made."""

    key: str
    limit: Limit
    tokens: float
    updated_ms: int
    version: int | None
    is_own: bool


class MongoRates(Core):
    @once
    async def set_rate_domain(self, domain: RateDomain, *, now_ms: int) -> bool:
        is_changed = await _set(self, domain, now_ms)
        if is_pattern(domain.domain):
            ahead = {"_id": _of_tenant(domain.tenant), "updated": {"$gt": now_ms + AHEAD_MS}}
            await self.collections.rate_buckets.delete_many(ahead)
        await _reopen_lanes(self, domain.tenant, now_ms)
        return is_changed

    @once
    async def delete_rate_domain(self, tenant: str, domain: str, *, now_ms: int) -> bool:
        done = await self.collections.rates.delete_one({"_id": _key(tenant, domain)})
        await _reopen_lanes(self, tenant, now_ms)
        return done.deleted_count == 1

    @repeatable
    async def list_rate_domains(self, tenant: str, *, now_ms: int) -> list[RateState]:
        cursor = self.collections.rates.find({"_id": _of_tenant(tenant)})
        states = []
        for found in await cursor.sort("_id", 1).to_list(None):
            tokens = float(found["burst"]) if found.get("pattern") else _tokens(found, now_ms)
            states.append(_state(tenant, _limit(found), tokens, found["updated"], now_ms))
        return states

    @repeatable
    async def find_rate(self, tenant: str, domain: str, *, now_ms: int) -> RateState | None:
        held = (await limits_of(self, tenant, [domain], now_ms)).get(domain)
        return None if held is None else _state(tenant, held.limit, held.tokens, held.updated_ms, now_ms)


async def _set(db: Core, domain: RateDomain, now_ms: int) -> bool:
    """Returns whether the limit is another now."""
    key = _key(domain.tenant, domain.domain)
    limit: Document = {
        "tenant": domain.tenant,
        "domain": domain.domain,
        "rate": float(domain.rate_per_s),
        "burst": domain.burst,
    }
    if is_pattern(domain.domain):
        limit["pattern"] = True
    rates = db.collections.rates
    while True:
        old = await rates.find_one({"_id": key})
        if old is None:
            check_limits(await rates.count_documents({"_id": _of_tenant(domain.tenant)}))
            if "pattern" in limit:
                check_room(await rates.count_documents({"tenant": domain.tenant, "pattern": True}))
            fresh = {**limit, "tokens": float(domain.burst), "updated": now_ms, "version": 0}
            try:
                await rates.insert_one({"_id": key, **fresh})
            except DuplicateKeyError:
                continue
            return True
        tokens = min(float(domain.burst), _tokens(old, now_ms))
        updated_ms = now_ms if old["updated"] > now_ms + AHEAD_MS else max(now_ms, old["updated"])
        changed = {**limit, "tokens": tokens, "updated": updated_ms}
        same = {"_id": key, "version": old["version"]}
        if (await rates.update_one(same, {"$set": changed, "$inc": {"version": 1}})).matched_count:
            return (old["rate"], old["burst"]) != (limit["rate"], limit["burst"])


async def _reopen_lanes(db: Core, tenant: str, now_ms: int) -> None:
    """After a limit changed: lanes that rest, and turns that wait for a token, may run earlier."""
    resting = {"type": types_of(tenant), "ready": {"$gt": now_ms}}
    await update_found(db.collections.lanes, resting, {"$set": {"ready": 0}, "$inc": {"v": 1}})


async def limits_of(db: Core, tenant: str, domains: Collection[str], now_ms: int) -> dict[str, Held]:
    """The buckets of those domains that are limited, by domain. One reply has limits, patterns and buckets."""
    keys = {_key(tenant, domain): domain for domain in domains if domain}
    if not keys:
        return {}
    named = {"$match": {"_id": {"$in": list(keys)}}}
    patterns = {"coll": "rates", "pipeline": [{"$match": {"tenant": tenant, "pattern": True}}]}
    buckets = {"coll": "rate_buckets", "pipeline": [named]}
    found = await aggregate(db.collections.rates, [named, {"$unionWith": patterns}, {"$unionWith": buckets}])
    own = {row["_id"]: row for row in found if "domain" in row and "pattern" not in row}
    kept = {row["_id"]: row for row in found if "domain" not in row}
    by_pattern = Patterns({row["_id"]: _limit(row) for row in found if "pattern" in row}.values())
    held = {}
    for key, domain in keys.items():
        if key in own:
            row = own[key]
            held[domain] = Held(key, _limit(row), _tokens(row, now_ms), row["updated"], row["version"], is_own=True)
        elif (limit := by_pattern.find(domain)) is not None:
            held[domain] = _held_by(key, limit, kept.get(key), now_ms)
    return held


def _held_by(key: str, limit: Limit, row: Document | None, now_ms: int) -> Held:
    if row is None:
        return Held(key, limit, float(limit.burst), now_ms, None, is_own=False)
    return Held(key, limit, tokens_at(_bucket(row), limit, now_ms), row["updated"], row["version"], is_own=False)


async def take_tokens(db: Core, held: Mapping[str, Held], wanted: Counter[str], *, mark: int, now_ms: int) -> set[str]:
    """Take the wanted number of tokens of each domain. Returns the domains that gave them.

    A bucket that another daemon has changed since it was read gives nothing: read it again.
    """
    given: set[str] = set()
    for is_own, collection in ((True, db.collections.rates), (False, db.collections.rate_buckets)):
        mine = {domain: count for domain, count in wanted.items() if held[domain].is_own == is_own}
        if not mine:
            continue
        steps = [_take(held[domain], count, mark, now_ms) for domain, count in mine.items()]
        if await _all_matched(collection, steps):
            given |= mine.keys()
            continue
        keys = {held[domain].key: domain for domain in mine}
        ours = await collection.find({"_id": {"$in": list(keys)}, "by": mark}, {"_id": 1}).to_list(None)
        given |= {keys[row["_id"]] for row in ours}
    return given


def _take(held: Held, count: int, mark: int, now_ms: int) -> Write:
    tokens, updated_ms = held.tokens - count, max(now_ms, held.updated_ms)
    left: Document = {"tokens": tokens, "updated": updated_ms, "by": mark}
    if held.is_own:
        return update_one({"_id": held.key, "version": held.version}, {"$set": left, "$inc": {"version": 1}})
    rate_per_s, burst = held.limit.rate_per_s, held.limit.burst
    left |= {"rate": rate_per_s, "burst": burst, "full": full_ms(tokens, held.limit, updated_ms)}
    # A number that no bucket of this domain had: one that was collected and made anew is another one.
    version = secrets.randbits(52) if held.version is None else held.version
    same = {"_id": held.key, "version": version}
    return update_one(same, {"$set": left, "$inc": {"version": 1}}, upsert=held.version is None)


async def _all_matched(collection: MongoCollection, steps: Sequence[Write]) -> bool:
    try:
        done = await write_each(collection, steps)
    except BulkWriteError as error:
        if any(problem["code"] != DUPLICATE_KEY for problem in error.details["writeErrors"]):
            raise
        return False  # another daemon made it in this moment
    return done.matched + done.upserted == len(steps)


async def give_tokens_back(db: Core, held: Mapping[str, Held], unused: Counter[str]) -> None:
    """Tokens that were taken for jobs which another daemon then claimed first."""
    for is_own, collection in ((True, db.collections.rates), (False, db.collections.rate_buckets)):
        steps = [
            update_one({"_id": held[domain].key}, {"$inc": {"tokens": float(count), "version": 1}})
            for domain, count in unused.items()
            if held[domain].is_own == is_own
        ]
        if steps:
            await write_each(collection, steps)


async def reopen_domains(db: Core, jobtype: str, domains: Collection[str]) -> None:
    """Tokens of them were given back: who saw the domain without them may have closed its lane, or turns."""
    if domains:
        ids = [name(jobtype, domain) for domain in domains for name in (lane_id, keyed_lane_id)]
        ids += [keyed_lane_id(jobtype, OF_CLAIMS + domain) for domain in domains]
        await db.collections.lanes.update_many({"_id": {"$in": ids}}, {"$set": {"ready": 0}, "$inc": {"v": 1}})


async def collect_full(db: Core, now_ms: int, limit: int) -> None:
    """Remove buckets of patterns that are full: they say nothing. One that a slower limit holds now stays."""
    buckets = db.collections.rate_buckets
    full = await buckets.find({"full": {"$lte": now_ms}}).limit(limit).to_list(limit)
    by_tenant: defaultdict[str, list[Document]] = defaultdict(list)
    for row in full:
        by_tenant[row["_id"].partition("|")[0]].append(row)
    for tenant, rows in by_tenant.items():
        set_on = await db.collections.rates.find({"tenant": tenant, "pattern": True}).to_list(None)
        patterns = Patterns(map(_limit, set_on))
        await write_each(buckets, [_collecting(row, patterns, now_ms) for row in rows])


def _collecting(row: Document, patterns: Patterns, now_ms: int) -> Write:
    same = {"_id": row["_id"], "version": row["version"]}
    limit = patterns.find(row["_id"].partition("|")[2])
    if limit is None or (tokens := tokens_at(_bucket(row), limit, now_ms)) >= limit.burst:
        return delete_one(same)
    updated_ms = max(now_ms, row["updated"])
    changed = {"tokens": tokens, "updated": updated_ms, "rate": limit.rate_per_s, "burst": limit.burst}
    changed["full"] = full_ms(tokens, limit, updated_ms)
    return update_one(same, {"$set": changed, "$inc": {"version": 1}})


def _key(tenant: str, domain: str) -> str:
    return f"{tenant}|{domain}"


def _of_tenant(tenant: str) -> Document:
    """All its keys."""
    return {"$gte": f"{tenant}|", "$lt": f"{tenant}}}"}


def _limit(row: Document) -> Limit:
    return Limit(row["domain"], row["rate"], row["burst"], row["updated"])


def _bucket(row: Document) -> Bucket:
    return Bucket(row["tokens"], row["updated"], row["rate"], row["burst"])


def _tokens(row: Document, now_ms: int) -> float:
    return grown(row["tokens"], row["updated"], rate_per_s=row["rate"], burst=row["burst"], now_ms=now_ms)


def _state(tenant: str, limit: Limit, tokens: float, updated_ms: int, now_ms: int) -> RateState:
    return rate_state(RateDomain(tenant, limit.name, limit.rate_per_s, limit.burst), tokens, updated_ms, now_ms)


def next_token_at(held: Held, taken: int, now_ms: int) -> int:
    """When to look at the domain again after that many were taken: when it has a token, and before long."""
    tokens, rate_per_s = held.tokens - taken, held.limit.rate_per_s
    soonest_ms = next_token_ms(tokens, rate_per_s=rate_per_s, now_ms=now_ms, updated_ms=held.updated_ms)
    return min(soonest_ms, now_ms + MOST_WAIT_MS)


def whole_tokens(held: Held) -> int:
    """How many jobs of the domain may start now."""
    return int(held.tokens)
