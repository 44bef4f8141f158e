"""An insertion that no majority confirmed is no insertion, also when some of its jobs were there already."""

from types import SimpleNamespace
from typing import Any

import pytest
from pymongo.errors import BulkWriteError

from store.errors import StoreUnavailable
from store.mongo.queue.add import insert_new
from store.mongo.server.driver import DUPLICATE_KEY


async def insert_with(details: dict[str, Any]) -> set[int]:
    async def insert_many(*_: Any, **__: Any) -> None:
        raise BulkWriteError(details)

    database: Any = SimpleNamespace(collections=SimpleNamespace(jobs=SimpleNamespace(insert_many=insert_many)))
    return await insert_new(database, [{"_id": "b"}, {"_id": "c"}, {"_id": "a"}], mark=1)


async def test_what_no_majority_confirmed_is_not_acknowledged() -> None:
    duplicate = {"index": 1, "code": DUPLICATE_KEY, "errmsg": "there already"}
    assert await insert_with({"writeErrors": [duplicate], "writeConcernErrors": []}) == {0}, "the second in order"
    with pytest.raises(StoreUnavailable):
        await insert_with({"writeErrors": [duplicate], "writeConcernErrors": [{"code": 64, "errmsg": "timeout"}]})
