"""The errors of the store: one tree, each with a stable `code` that HTTP and the command line map once.

StoreError
├── StoreUnavailable    the database cannot be reached or is busy beyond patience; the call may be retried
│   ├── StoreFull       the disk or the quota under the database is exhausted
│   └── StoreLost       its file was removed or replaced while it was open; nothing was changed
├── StoreClosed         the store object is not open (never opened, or closed)
├── StoreCorrupt        the database says that its own content is damaged; nothing retries this away
├── SchemaTooNew        the database was written by newer code than this
├── UnsupportedStore    the URL, or the database library found here, is not one that the store can use
├── InvalidValue        an argument is outside what the protocol allows; nothing was changed
├── NotFound            the named thing does not exist for that tenant
└── Conflict            the named thing is in a state in which the verb is not allowed; nothing was changed

Stale leases are not errors: the report names them, because a batch goes on without them.
"""

from typing import ClassVar

from vocabulary.unavailable import Unavailable


class StoreError(Exception):
    """Anything that the store raises on purpose."""

    code: ClassVar[str] = "store_error"


class StoreUnavailable(StoreError, Unavailable):
    """The outcome of a write that fails so is unknown; every verb that says "idempotent" may be repeated."""

    code = "store_unavailable"


class StoreFull(StoreUnavailable):
    code = "store_full"


class StoreLost(StoreUnavailable):
    code = "store_lost"


class StoreClosed(StoreError):
    code = "store_closed"


class StoreCorrupt(StoreError):
    code = "store_corrupt"


class SchemaTooNew(StoreError):
    code = "schema_too_new"


class UnsupportedStore(StoreError):
    code = "unsupported_store"


class InvalidValue(StoreError, ValueError):
    """`field` names the argument, or the field of one, if it is known which."""

    code = "invalid_value"

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class NotFound(StoreError):
    code = "not_found"


class Conflict(StoreError):
    code = "conflict"
