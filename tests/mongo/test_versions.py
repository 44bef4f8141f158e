"""Two versions of the program on one database: the newer one raises its schema, and the older one is refused."""

import asyncio

import pytest

from functory.cli import main
from store.errors import SchemaTooNew
from store.mongo import MongoStore
from store.mongo.server import maintenance, schema

KNOWN = schema.VERSION


def be_of(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (schema, maintenance):
        monkeypatch.setattr(module, "VERSION", version)


async def schema_of(url: str) -> int:
    return (await MongoStore(url).get_version()).schema


async def test_a_database_of_a_newer_version_is_refused(mongo_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    be_of(KNOWN - 1, monkeypatch)
    async with MongoStore(mongo_url):
        pass
    assert await schema_of(mongo_url) == KNOWN - 1
    be_of(KNOWN, monkeypatch)
    async with MongoStore(mongo_url):
        assert await schema_of(mongo_url) == KNOWN
    be_of(KNOWN - 1, monkeypatch)
    with pytest.raises(SchemaTooNew, match=f"schema {KNOWN} .* knows {KNOWN - 1}"):
        await MongoStore(mongo_url).open()
    assert await schema_of(mongo_url) == KNOWN


async def test_an_older_database_is_told_apart_before_anything_changes(
    mongo_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with MongoStore(mongo_url):
        pass
    be_of(KNOWN + 1, monkeypatch)
    assert await asyncio.to_thread(main, ["store", "version", "--store", mongo_url]) == 0
    said = capsys.readouterr().out
    assert ("The store is older" in said, "keeps a copy" in said, "make a backup first" in said) == (True, False, True)
    move = ["migrate", "--from", mongo_url, "--to", mongo_url.replace("/test_", "/test_to_")]
    assert await asyncio.to_thread(main, move) == 2
    assert f"the source has schema {KNOWN}" in capsys.readouterr().err
    assert await schema_of(mongo_url) == KNOWN
