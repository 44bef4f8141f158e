"""Records of another store as writes to collections: whole documents, replaced by key, so that each is idempotent."""

from collections.abc import Callable
from typing import Any, Final

from store.mongo.queue.deleted import deleted_document, position_fields
from store.mongo.records.alerts import alert_document
from store.mongo.records.consumers import consumer_document
from store.mongo.records.contents import content_document
from store.mongo.records.handlers import handler_document
from store.mongo.records.scoreboard import EVENTS
from store.mongo.records.secrets import secret_document
from store.mongo.records.tenants import audit_document, key_document, tenant_document
from store.mongo.records.webhooks import webhook_document
from store.mongo.server.bulk import Write, replace_one, update_one
from store.mongo.server.driver import Document
from store.mongo.server.tally import bucket_key, failure_key, type_key
from store.rate_rules import is_pattern
from store.values.consumers import ConsumerRecord
from store.values.scoreboard import Bucket, FailureGroup
from store.values.transfer import OnceRecord, Part, RateBucketRecord, RateRecord, SeriesRecord, TypeRecord

Writes = list[tuple[str, Write]]
"""The name of a collection, and a change of it."""


def _replaced(collection: str, document: Document) -> Writes:
    return [(collection, replace_one({"_id": document["_id"]}, document, upsert=True))]


def _type(record: TypeRecord) -> Writes:
    flags: Document = {"paused": record.paused, "head": record.head, "processed": record.processed}
    if record.released is not None:
        flags["released"] = record.released
    events = {event: getattr(record, event) for event in EVENTS}
    counted: Document = {"$set": events, "$setOnInsert": {"k": "t", "type": record.jobtype}}
    writes: Writes = [
        ("types", update_one({"_id": record.jobtype}, {"$set": flags}, upsert=True)),
        ("counters", update_one({"_id": type_key(record.jobtype)}, counted, upsert=True)),
    ]
    if record.last_handler:
        shelf = {"_id": record.jobtype, "last": record.last_handler, "current": record.handler}
        writes += _replaced("shelf", shelf)
    return writes


def _consumer(consumer: ConsumerRecord) -> Writes:
    pulled = {"$set": {"pulled": consumer.is_pulled}}
    return [
        *_replaced("consumers", consumer_document(consumer)),
        ("types", update_one({"_id": consumer.jobtype}, pulled, upsert=True)),
    ]


def _rate(record: RateRecord) -> Writes:
    tenant, domain, rate, burst = record.domain
    document = {"_id": f"{tenant}|{domain}", "tenant": tenant, "domain": domain, "rate": float(rate), "burst": burst}
    document |= {"pattern": True} if is_pattern(domain) else {}
    return _replaced("rates", document | {"tokens": record.tokens, "updated": record.updated_ms, "version": 0})


def _rate_bucket(record: RateBucketRecord) -> Writes:
    tenant, domain, rate, burst = record.domain
    document = {"_id": f"{tenant}|{domain}", "rate": float(rate), "burst": burst, "tokens": record.tokens}
    return _replaced("rate_buckets", document | {"updated": record.updated_ms, "full": record.full_ms, "version": 0})


def _once(record: OnceRecord) -> Writes:
    key = f"{record.tenant}|{record.key}"
    return _replaced("once", {"_id": key, "value": record.value, "expires": record.expires_ms})


def _bucket(bucket: Bucket) -> Writes:
    document: Document = {
        "_id": bucket_key(bucket.jobtype, bucket.width_ms, bucket.start_ms),
        "k": "b",
        "type": bucket.jobtype,
        "width": bucket.width_ms,
        "start": bucket.start_ms,
        "runner_us": bucket.runner_us,
        **{event: getattr(bucket, event) for event in EVENTS},
        **{
            name: {str(cell): count for cell, count in histogram.cells.items()}
            for name, histogram in (("duration", bucket.duration), ("wait", bucket.wait))
        },
    }
    return _replaced("counters", document)


def _failures(group: FailureGroup) -> Writes:
    document = {
        "_id": failure_key(group.jobtype, group.fingerprint),
        "k": "f",
        "type": group.jobtype,
        "fingerprint": group.fingerprint,
        "message": group.message,
        "runs": group.runs,
        "first": group.first_ms,
        "last": group.last_ms,
        "example": group.example_id,
    }
    return _replaced("counters", document)


def _series(series: SeriesRecord) -> Writes:
    return [("meta", update_one({"_id": series.name}, {"$max": {"n": series.last}}))]


WRITES: Final[dict[Part, Callable[[Any], Writes]]] = {
    Part.TENANTS: lambda tenant: _replaced("tenants", tenant_document(tenant)),
    Part.KEYS: lambda key: _replaced("keys", key_document(key)),
    Part.TYPES: _type,
    Part.HANDLERS: lambda handler: _replaced("versions", handler_document(handler)),
    Part.CONTENTS: lambda content: _replaced("contents", content_document(content)),
    Part.CONSUMERS: _consumer,
    Part.RATES: _rate,
    Part.RATE_BUCKETS: _rate_bucket,
    Part.ONCE: _once,
    Part.NUMBERS: lambda record: _replaced("numbers", {"_id": record.tenant, "n": record.last}),
    Part.SECRETS: lambda secret: _replaced("secrets", secret_document(secret)),
    Part.ALERTS: lambda alert: _replaced("alerts", alert_document(alert)),
    Part.WEBHOOKS: lambda webhook: _replaced("webhooks", webhook_document(webhook)),
    Part.BUCKETS: _bucket,
    Part.FAILURES: _failures,
    Part.AUDIT: lambda record: _replaced("audit", audit_document(record.number, record.event)),
    Part.POSITIONS: lambda position: _replaced("positions", {"_id": position.reader} | position_fields(position)),
    Part.DELETED: lambda record: _replaced("jobs", deleted_document(*record)),
    Part.SERIES: _series,
}
