"""How much a server reads to answer a command, by its own count: index entries and documents.

MongoDB says so in `explain`. FerretDB's `explain` does not execute, so PostgreSQL is asked, with the function into
which DocumentDB makes the command.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bson import json_util
from pymongo import MongoClient

from tests.support.mongo_commands import without_session
from tests.support.mongo_server import FerretDB, MongoServer

_READERS = {"find": "bson_aggregation_find", "aggregate": "bson_aggregation_pipeline"}
_COUNTS = (
    *("totalKeysExamined", "totalDocsExamined"),  # MongoDB
    *("innerScanLoops", "eligibleDeadItems"),  # entries of one of DocumentDB's indexes
    *("Rows Removed by Filter", "Rows Removed by Index Recheck"),
)


def examined(server: MongoServer, database: str, commands: Sequence[Mapping[str, Any]]) -> int:
    """Entries and documents that the commands read: queries, and the conditions of updates. Blocks."""
    queries = [query for command in commands for query in _queries(without_session(command))]
    if not queries:
        return 0
    if isinstance(server, FerretDB):
        plans = server.ask_postgres(*(_explaining(database, query) for query in queries))
        return sum(_counted(plan) for plan in _documents(plans))
    client: MongoClient[dict[str, Any]]
    with MongoClient(server.url) as client:
        plans_here = [client[database].command({"explain": query, "verbosity": "executionStats"}) for query in queries]
    return sum(_counted(plan) for plan in plans_here)


def _queries(command: dict[str, Any]) -> list[dict[str, Any]]:
    verb, collection = next(iter(command.items()))
    if verb == "update":
        return [{"find": collection, "filter": update["q"]} for update in command["updates"]]
    return [command] if verb in _READERS else []


def _explaining(database: str, query: Mapping[str, Any]) -> str:
    reader = _READERS[next(iter(query))]
    text = json_util.dumps(query).replace("'", "''")
    select = f"SELECT document FROM documentdb_api_catalog.{reader}('{database}', '{text}')"  # noqa: S608  # the test's own
    return f"EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF, BUFFERS OFF, SUMMARY OFF) {select}"


def _documents(text: str) -> Iterator[object]:
    """JSON documents that follow each other."""
    decoder = json.JSONDecoder()
    while text := text.strip():
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:]


def _counted(plan: object) -> int:
    if isinstance(plan, list):
        return sum(_counted(part) for part in plan)
    if not isinstance(plan, Mapping):
        return 0
    own = sum(int(plan.get(count, 0)) for count in _COUNTS)
    if "Relation Name" in plan:  # PostgreSQL's node that reads the table
        own += int(plan["Actual Rows"])
    return own + sum(_counted(part) for part in plan.values())
