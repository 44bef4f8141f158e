"""The driver: the one file that names motor, and all that differs from PyMongo's own asyncio client.

Owns the connection, its write concern, and the translation of the driver's errors into the store's.
The move to PyMongo's client is the import, an `await` before `aggregate` and `close`, and nothing elsewhere:
see docs/decisions/0007-motor.md.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from bson.int64 import Int64
from dns.exception import DNSException
from motor.motor_asyncio import (
    AsyncIOMotorClient as _Client,
)
from motor.motor_asyncio import (
    AsyncIOMotorCollection,
    AsyncIOMotorCursor,
    AsyncIOMotorDatabase,
)
from motor.motor_asyncio import (
    AsyncIOMotorGridFSBucket as _Bucket,
)
from pymongo import ReturnDocument
from pymongo import errors as driver_errors
from pymongo.monitoring import CommandListener

from store.errors import (
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnavailable,
    UnsupportedStore,
)

Document = dict[str, Any]
Collection = AsyncIOMotorCollection[Document]
Cursor = AsyncIOMotorCursor[Document]
Database = AsyncIOMotorDatabase[Document]
Client = _Client[Document]
Bucket = _Bucket
T = TypeVar("T")

DEFAULT_DATABASE: Final = "functory"
DEFAULTS_MS: Final = {
    "serverSelectionTimeoutMS": 5_000,
    "socketTimeoutMS": 60_000,
    "heartbeatFrequencyMS": 5_000,
    "connectTimeoutMS": 5_000,
}
"""Unless the URL says otherwise. A server that hangs is found out by a heartbeat, after the last two together at the
most: all calls that wait for it fail then."""
RETRIES: Final = 4
DUPLICATE_KEY: Final = 11000
RETRY_BASE_S: Final = 0.05

# What a server says when it is on its way down or up, or another node has become primary, or gave up on a
# conflict with a concurrent write. (Codes: MongoDB's error_codes.yml.) 1 is an internal error: so FerretDB
# hands on whatever PostgreSQL says that is not about a value, in the words and the language of that server. What a
# server says of a value has a code of its own, so no document is tried again for ever.
# 18 says that our user is not let in: so it is between the change of its password and the restart with the new one.
_UNAVAILABLE_CODES: Final = frozenset(
    {1, 6, 7, 18, 64, 79, 89, 91, 100, 112, 133, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436}
)
_FULL_CODES: Final = frozenset({14031})
# The same in the error of one write of several, which has a code of PostgreSQL's.
_UNAVAILABLE_WORDS: Final = (
    "deadlock detected",
    "failed to connect",
    "conn closed",
    "shutting down",
    "starting up",
)


class _PlainInt(TypeDecoder):
    """The driver marks numbers of 64 bits with a class of its own, which encoders further up do not know."""

    @property
    def bson_type(self) -> type[Int64]:
        return Int64

    def transform_bson(self, value: Any) -> int:
        return int(value)


def connect(url: str, listeners: Sequence[CommandListener] = ()) -> tuple[Client, Database]:
    """A client that acknowledges a write only when a majority has it in its journal. Connects lazily.

    Raises UnsupportedStore for a URL that the driver refuses; the message never repeats the URL.
    """
    defaults: dict[str, Any] = {k: v for k, v in DEFAULTS_MS.items() if k.lower() not in url.lower()}
    try:
        client: Client = _Client(
            url,
            w="majority",
            journal=True,
            readPreference="primary",
            appname="functory",
            event_listeners=list(listeners),
            **defaults,
        )
        options: CodecOptions[Document] = CodecOptions(
            uuid_representation=UuidRepresentation.STANDARD, type_registry=TypeRegistry([_PlainInt()])
        )
        database = client.get_default_database(DEFAULT_DATABASE, codec_options=options)
    except (driver_errors.ConfigurationError, ValueError, TypeError) as error:
        raise UnsupportedStore(
            f"the MongoDB URL is refused by the driver: {type(error).__name__}. Is it mongodb://user:password@host/name,"
            " with user and password percent-encoded (@ as %40, / as %2F, : as %3A)?"
        ) from None
    return client, database


def has_server(client: Client) -> bool:
    """Whether the driver knows a server for writing: otherwise the next call waits until one is found."""
    known: bool = client.delegate.topology_description.has_writable_server()
    return known


async def disconnect(client: Client) -> None:
    await asyncio.to_thread(client.close)


def bucket(database: Database) -> Bucket:
    """GridFS, for payloads and results that are too big for a document."""
    return _Bucket(database, bucket_name="blobs")


async def aggregate(
    collection: Collection, pipeline: Sequence[Mapping[str, Any]], *, hint: str | None = None
) -> list[Document]:
    """All documents that the pipeline returns, in one reply where they fit. `hint` names the index to be read."""
    options = {} if hint is None else {"hint": hint}
    cursor = collection.aggregate(list(pipeline), batchSize=20_000, **options)
    return await cursor.to_list(None)


async def upserted(call: Callable[[], Awaitable[T]]) -> T:
    """What a call with upsert returns. Two callers may both find nothing and both insert: the server refuses
    the second, which has to look again, and then finds what the first inserted."""
    for _ in range(RETRIES):
        try:
            return await call()
        except (driver_errors.DuplicateKeyError, driver_errors.BulkWriteError) as error:
            if not _only_duplicates(error):
                raise
    return await call()


def _only_duplicates(error: driver_errors.OperationFailure) -> bool:
    problems = (error.details or {}).get("writeErrors", ())
    return all(problem["code"] == DUPLICATE_KEY for problem in problems)


async def find_and_update(
    collection: Collection,
    which: Mapping[str, Any],
    update: Mapping[str, Any],
    *,
    fields: Mapping[str, Any] | None = None,
) -> Document | None:
    """The document after the update, or None where the condition matched nothing (the stubs say never)."""
    found: Document | None = await collection.find_one_and_update(
        which, update, projection=fields, return_document=ReturnDocument.AFTER
    )
    return found


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed a little later."""
    if isinstance(error, driver_errors.ConnectionFailure | driver_errors.WaitQueueTimeoutError):
        return True
    if isinstance(error, driver_errors.BulkWriteError):
        problems = [*error.details.get("writeErrors", ()), *error.details.get("writeConcernErrors", ())]
        return any(_is_transient(problem.get("code"), problem.get("errmsg", "")) for problem in problems)
    if isinstance(error, driver_errors.OperationFailure):
        return error.timeout or _is_transient(error.code, str(error))
    return False


def _is_transient(code: int | None, text: str) -> bool:
    return code in _UNAVAILABLE_CODES or any(words in text for words in _UNAVAILABLE_WORDS)


def _has_no_names(error: driver_errors.PyMongoError) -> bool:
    """Whether it asked for the hosts of a URL with `+srv` in vain. It does so again at the next call. For the driver
    that is a fault of the URL, also while the resolver is away."""
    return isinstance(error, driver_errors.ConfigurationError) and isinstance(error.__cause__, DNSException)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """The driver's errors as the store's."""
    try:
        yield
    except driver_errors.InvalidOperation as error:
        raise StoreClosed(f"{what}: the connection is closed") from error
    except driver_errors.PyMongoError as error:
        if isinstance(error, driver_errors.OperationFailure) and error.code in _FULL_CODES:
            raise StoreFull(f"{what}: the server's disk is full") from error
        if is_transient(error) or _has_no_names(error):
            raise StoreUnavailable(f"{what}: MongoDB cannot be reached or is changing: {error!s:.300}") from error
        raise StoreError(f"{what}: MongoDB refused: {error!s:.500}") from error


async def retried(call: Callable[[], Awaitable[T]]) -> T:
    """What the call returns; repeated, after growing pauses, while it fails for a reason that passes.

    Only for calls that change nothing, or change the same when they are repeated.
    """
    for attempt in range(RETRIES):
        try:
            return await call()
        except driver_errors.ServerSelectionTimeoutError:
            raise  # the driver has waited long enough for a server
        except driver_errors.PyMongoError as error:
            if not is_transient(error):
                raise
            await asyncio.sleep(RETRY_BASE_S * 2**attempt * (0.5 + random.random()))  # noqa: S311  # jitter
    return await call()
