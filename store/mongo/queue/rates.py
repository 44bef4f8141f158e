"""Rate domains: token buckets shared by all daemons, each one document changed by compare and swap."""

from collections import Counter
from collections.abc import Collection, Mapping

from pymongo import UpdateOne
from pymongo.errors import DuplicateKeyError

from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Document
from store.values.records import RateDomain, RateState
from vocabulary.token_bucket import next_token_ms, refill


class MongoRates(Core):
    @once
    async def set_rate_domain(self, domain: RateDomain, *, now_ms: int) -> None:
        key = _key(domain.tenant, domain.domain)
        limit: Document = {
            "tenant": domain.tenant,
            "domain": domain.domain,
            "rate": float(domain.rate_per_s),
            "burst": domain.burst,
        }
        rates = self.collections.rates
        while True:
            old = await rates.find_one({"_id": key})
            if old is None:
                fresh = {**limit, "tokens": float(domain.burst), "updated": now_ms, "version": 0}
                try:
                    await rates.insert_one({"_id": key, **fresh})
                except DuplicateKeyError:
                    continue
                return
            tokens = min(float(domain.burst), _tokens(old, now_ms))
            changed = {**limit, "tokens": tokens, "updated": max(now_ms, old["updated"])}
            same = {"_id": key, "version": old["version"]}
            if (await rates.update_one(same, {"$set": changed, "$inc": {"version": 1}})).matched_count:
                return

    @once
    async def delete_rate_domain(self, tenant: str, domain: str) -> bool:
        done = await self.collections.rates.delete_one({"_id": _key(tenant, domain)})
        return done.deleted_count == 1

    @repeatable
    async def list_rate_domains(self, tenant: str, *, now_ms: int) -> list[RateState]:
        cursor = self.collections.rates.find({"_id": {"$gte": f"{tenant}|", "$lt": f"{tenant}}}"}})
        states = []
        for found in await cursor.sort("_id", 1).to_list(None):
            tokens = _tokens(found, now_ms)
            domain = RateDomain(tenant, found["domain"], found["rate"], found["burst"])
            soonest = next_token_ms(tokens, rate_per_s=domain.rate_per_s, now_ms=now_ms)
            states.append(RateState(domain, tokens, soonest))
        return states


async def limits_of(db: Core, tenant: str, domains: Collection[str]) -> dict[str, Document]:
    """The buckets of those domains that are limited, by domain."""
    keys = [_key(tenant, domain) for domain in domains if domain]
    found = await db.collections.rates.find({"_id": {"$in": keys}}).to_list(None)
    return {bucket["domain"]: bucket for bucket in found}


async def take_tokens(
    db: Core, buckets: Mapping[str, Document], wanted: Counter[str], *, mark: int, now_ms: int
) -> set[str]:
    """Take the wanted number of tokens of each domain. Returns the domains that gave them.

    A bucket that another daemon has changed since it was read gives nothing: read it again.
    """
    steps = []
    for domain, count in wanted.items():
        bucket = buckets[domain]
        left = {
            "tokens": _tokens(bucket, now_ms) - count,
            "updated": max(now_ms, bucket["updated"]),
            "by": mark,
        }
        same = {"_id": bucket["_id"], "version": bucket["version"]}
        steps.append(UpdateOne(same, {"$set": left, "$inc": {"version": 1}}))
    if not steps:
        return set()
    done = await db.collections.rates.bulk_write(steps, ordered=False)
    if done.matched_count == len(steps):
        return set(wanted)
    keys = [buckets[domain]["_id"] for domain in wanted]
    ours = await db.collections.rates.find({"_id": {"$in": keys}, "by": mark}).to_list(None)
    return {bucket["domain"] for bucket in ours}


async def give_tokens_back(db: Core, tenant: str, unused: Counter[str]) -> None:
    """Tokens that were taken for jobs which another daemon then claimed first."""
    steps = [
        UpdateOne({"_id": _key(tenant, domain)}, {"$inc": {"tokens": float(count), "version": 1}})
        for domain, count in unused.items()
    ]
    if steps:
        await db.collections.rates.bulk_write(steps, ordered=False)


def _key(tenant: str, domain: str) -> str:
    return f"{tenant}|{domain}"


def _tokens(bucket: Document, now_ms: int) -> float:
    return refill(bucket["tokens"], bucket["updated"], rate_per_s=bucket["rate"], burst=bucket["burst"], now_ms=now_ms)


def next_token_at(bucket: Document, taken: int, now_ms: int) -> int:
    """When the domain has a token again, after that many were taken."""
    return next_token_ms(_tokens(bucket, now_ms) - taken, rate_per_s=bucket["rate"], now_ms=now_ms)


def whole_tokens(bucket: Document, now_ms: int) -> int:
    """How many jobs of the domain may start now."""
    return int(_tokens(bucket, now_ms))
