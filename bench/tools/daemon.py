"""A real `functory serve` process for the benches, with the defaults that a user gets, and the load on it.

Defaults: every acknowledgement after a sync, SQLite with synchronous=FULL, the sandbox, fairness, results, a log line
for each event of a job (into a file, as a supervisor keeps it). Only the data directory and the port are chosen here.
"""

import asyncio
import base64
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from bench.tools.connection import Connection, connect, connect_many, message
from functory.daemon.operator_key import OPERATOR_KEY_FILE

PAYLOAD: Final = b"x" * 100
LINES_PER_POST: Final = 1000
POSTERS: Final = 4
"""Connections that post at once."""

_LISTENS: Final = re.compile(r"listens on http://[^\s:]+:(\d+)")
_START_TIMEOUT_S: Final = 120.0
_RUN_TIMEOUT_S: Final = 600.0
_LOOK_S: Final = 0.02
"""Between two looks at whether all is done: cheap for the daemon, and far below what is measured."""

_NAMED_THREADS: Final = Path(__file__).parent / "named_threads"

_WASM_NOTHING: Final = base64.b64encode(
    bytes.fromhex(
        "0061736d01000000010401600000030201000503010001071302066d656d6f72790200065f737461727400000a040102000b"
    )
).decode()
"""`(module (func (export "_start")) (memory (export "memory") 1))`"""

NO_OP: Final[dict[str, dict[str, Any]]] = {
    "python": {"lang": "python", "body": "return None"},
    "node": {"lang": "node", "body": "(payload, ctx) => null", "memory_mb": 192},
    "sh": {"lang": "sh", "body": ":"},
    "wasm": {"lang": "wasm", "body": _WASM_NOTHING},
}


def with_result(lang: str, size_bytes: int) -> dict[str, Any]:
    """A no-op that returns a result of this size."""
    bodies = {
        "python": f"return b'x' * {size_bytes}",
        "node": f"(payload, ctx) => Buffer.alloc({size_bytes}, 120)",
        "sh": f"printf %0{size_bytes}d 0",
    }
    return {**NO_OP[lang], "body": bodies[lang]}


class Service:
    """A daemon that listens. The operator's connection is separate from those that carry the load."""

    def __init__(self, pid: int, port: int, operator_key: str, operator: Connection) -> None:
        self.pid = pid
        self.port = port
        self.isolation = ""
        self._operator_key = operator_key
        self._operator = operator

    async def ask(self, method: str, path: str, body: object = None, *, key: str = "") -> Any:
        """JSON both ways, as the operator if no key is given."""
        content = b"" if body is None else json.dumps(body).encode()
        answer = await self._operator.exchange(
            message(method, path, key or self._operator_key, content, "application/json")
        )
        return json.loads(answer)

    async def check_isolation(self) -> None:
        """Raises if this daemon refuses to run tenants' code."""
        health = await self.ask("GET", "/admin/health")
        if "isolation" in health["problems"]:
            raise RuntimeError(f"no isolation here, so nothing to measure: {health['problems']['isolation']}")
        self.isolation = health["isolation"]

    async def make_tenant(self, name: str, handlers: dict[str, dict[str, Any]]) -> str:
        """Returns the tenant's key."""
        await self.ask("POST", "/admin/tenants", {"name": name})
        key: str = (await self.ask("POST", f"/admin/tenants/{name}/keys", {}))["key"]
        for job_type, handler in handlers.items():
            await self.ask("PUT", f"/{name}/handler/{job_type}", handler, key=key)
        return key

    async def gauges(self) -> dict[str, float]:
        answer: dict[str, float] = (await self.ask("GET", "/admin/health"))["gauges"]
        return answer

    async def metrics(self) -> dict[str, float]:
        """Summed over labels other than `code` and `state`: `job_endings_total ok`, `journal_lines_read_total`."""
        text = await self._operator.exchange(message("GET", "/metrics", self._operator_key))
        return sum_metrics(text.decode())

    async def post(self, requests: Iterable[bytes], posters: int = POSTERS) -> None:
        """Send all of them over this number of connections; returns when the last is acknowledged."""
        left = iter(requests)

        async def poster(connection: Connection) -> None:
            for request in left:
                await connection.exchange(request)

        async with connect_many(self.port, posters) as connections:
            await asyncio.gather(*map(poster, connections))

    async def until_ended(self, count: int) -> None:
        """Wait until this number of jobs has a recorded outcome; raises if any of them is not ok.

        Looks at what costs the daemon nothing (claimed, leases still held), then makes sure.
        """
        async with asyncio.timeout(_RUN_TIMEOUT_S):
            while True:
                gauges = await self.gauges()
                if gauges["jobs_claimed_total"] >= count and not gauges["leases_held"]:
                    ended = await self.metrics()
                    bad = {code: ended.get(f"job_endings_total {code}", 0) for code in ("failed", "error", "abandoned")}
                    if any(bad.values()):
                        raise RuntimeError(f"not all jobs ended well: {bad}")
                    if ended.get("job_endings_total ok", 0) >= count:
                        return
                await asyncio.sleep(_LOOK_S)

    async def until_stored(self, count: int) -> None:
        """Wait until this number of lines has moved from the journal to the store."""
        async with asyncio.timeout(_RUN_TIMEOUT_S):
            while True:
                if (await self.metrics())["journal_lines_read_total"] >= count:
                    return
                await asyncio.sleep(_LOOK_S)


def sum_metrics(text: str) -> dict[str, float]:
    """The Prometheus text by name, and by the label `code` or `state` where there is one."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, _, value = line.rpartition(" ")
        name, _, labels = name.removeprefix("functory_").partition("{")
        kept = re.search(r'(?:code|state)="([^"]*)"', labels)
        key = f"{name} {kept[1]}" if kept else name
        found[key] = found.get(key, 0.0) + float(value)
    return found


def posts(tenant: str, job_type: str, key: str, jobs: int, lines: int = LINES_PER_POST) -> list[bytes]:
    """The requests that post this number of jobs; the last one may be shorter, and zero jobs need none."""
    path = f"/{tenant}/job/{job_type}/add"
    whole, rest = divmod(max(jobs, 0), lines)
    full = message("POST", path, key, (PAYLOAD + b"\n") * lines)
    return [full] * whole + ([message("POST", path, key, (PAYLOAD + b"\n") * rest)] if rest else [])


@asynccontextmanager
async def serve(
    folder: Path, settings: Sequence[str] = (), program: Sequence[str] = ("-m", "functory")
) -> AsyncIterator[Service]:
    """Start, wait until it listens, and stop as an operator would.

    program: what Python runs, another than ours to measure it from inside. Its log is `folder/daemon.log`, new with
    each start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "daemon.log"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FUNCTORY_")}
    environ["PYTHONPATH"] = str(_NAMED_THREADS)
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *program, "serve", "--data-dir", str(folder), "--port", "0", *settings,
            stdin=asyncio.subprocess.DEVNULL, stderr=stderr, env=environ,
        )  # fmt: skip
    try:
        port = await _listens(process, log)
        key = (folder / OPERATOR_KEY_FILE).read_text().strip()
        async with connect(port) as operator:
            service = Service(process.pid, port, key, operator)
            await service.check_isolation()
            yield service
    except BaseException as error:
        error.add_note(f"The end of the daemon's log:\n{log.read_text(errors='replace')[-2000:]}")
        raise
    finally:
        await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Two signals, the second to hurry: lines that are left in the journal need not reach the store any more."""
    for _ in range(2):
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await asyncio.sleep(_LOOK_S)  # two signals at once would arrive as one
    await process.wait()


async def _listens(process: asyncio.subprocess.Process, log: Path) -> int:
    async with asyncio.timeout(_START_TIMEOUT_S):
        while process.returncode is None:
            if match := _LISTENS.search(log.read_text(errors="replace")):
                return int(match[1])
            await asyncio.sleep(_LOOK_S)
    raise RuntimeError(f"the daemon ended with status {process.returncode}")
