"""Handlers on this machine, in the sandbox that the service uses, without a service: what `invoke`, `test` and `dev`
share.

Settings come from the environment. Packages are resolved and installed as the service does it, into the user's cache:
a lock holds for a day, a tree until it was not used for a month.
"""

import asyncio
import json
import os
import platform
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from functory.cli.handler_file import named_files
from functory.config import Settings, load_config
from functory.daemon.isolation import choose_isolation
from functory.daemon.packages import open_packages
from functory.egress.proxy import EgressProxy
from functory.execution.tenant_book import Allowance
from functory.execution.trial_runs import TrialRuns
from functory.folders.local import TENANT, EnvironmentSecrets
from handlers.errors import InvalidHandlerError
from handlers.model import Handler
from handlers.packages import Lock, Wanted, parse_lock, requirements_of
from journal.durable import make_folder
from runner.outcome import Stopped
from runner.packages.provider import Packages
from runner.packages.source import State
from runner.resolver import Resolver
from runner.runner import Runner, RunnerSettings
from runner.targets import NOT_OPEN, Targets
from runner.trees import TreeSource
from scheduler import SchedulerOptions
from scheduler.oldest import OldestFirst

_JOBTYPE: Final = f"{TENANT}-handler"
_NOT_OPEN: Final = NOT_OPEN.encode()
_YOU_ALLOW_IT: Final = "Here the operator is you: FUNCTORY_HTTP_ALLOWED=127.0.0.1 lets handlers call that address."
_NO_FILES: Final[Mapping[str, bytes]] = MappingProxyType({})
_LOCK_LIFE_S: Final = 86_400.0
_TREE_LIFE_S: Final = 30 * 86_400.0

Say = Callable[[str], None]


class Workbench:
    """A sandbox that stays ready between runs."""

    def __init__(self, trials: TrialRuns, packages: Packages, cache: Path, say: Say) -> None:
        self._trials = trials
        self._packages = packages
        self._locks = cache / "locks"
        self._say = say
        self._last: Handler | None = None
        self._has_told = False

    async def load(self, handler: Handler, files: Mapping[str, bytes] = _NO_FILES) -> Handler:
        """The handler, checked, with the packages that it asks for in its text or in these files. The contexts of the
        one before it are ended."""
        loaded = await self._with_packages(handler, files)
        if self._last is not None and self._last != loaded:
            await self._trials.retire(_JOBTYPE, self._last)
        with named_files({"body": handler.entry} if handler.entry else {}):
            await self._trials.check(_JOBTYPE, loaded)
        self._last = loaded
        return loaded

    async def run(self, handler: Handler, payload: bytes) -> Stopped:
        stopped = await self._trials.invoke(_JOBTYPE, handler, payload)
        if not self._has_told and any(_NOT_OPEN in text for text in (stopped.log, stopped.result)):
            self._has_told = True
            self._say(_YOU_ALLOW_IT)
        return stopped

    async def _with_packages(self, handler: Handler, files: Mapping[str, bytes]) -> Handler:
        wanted = await asyncio.to_thread(requirements_of, handler.lang, handler.body, files)
        if wanted is None:
            return handler
        place = self._locks / f"{wanted.digest}.json"
        lock = await asyncio.to_thread(_read_lock, place, wanted)
        if lock is None:
            self._say(f"packages: looking for {', '.join(wanted.names)}")
            lock = await self._packages.lock(TENANT, wanted)
            await asyncio.to_thread(_keep_lock, place, lock)
        is_new = (await self._packages.known(TENANT, lock)).state != State.READY
        if is_new:
            self._say(f"packages: installing {', '.join(f'{each.name} {each.version}' for each in lock.packages)}")
        await self._packages.have(_JOBTYPE, lock)
        if is_new and (note := self._packages.progress(TENANT, lock).text):
            self._say(f"packages: {note}")
        return replace(handler, lock=lock)


@asynccontextmanager
async def open_workbench(say: Say, trees: TreeSource | None = None) -> AsyncIterator[Workbench]:
    settings = (await asyncio.to_thread(load_config, {}, file=Path(os.devnull))).settings
    async with AsyncExitStack() as stack:
        isolation = await choose_isolation(settings)
        if isolation.refusal:
            print(f"functory: {isolation.refusal}", file=sys.stderr)
        cache = await asyncio.to_thread(_cache_folder)
        packages = await open_packages(settings, isolation, cache / "packages")
        egress = EgressProxy(Resolver(Targets(settings.hosts_allowed, settings.http_allowed)))
        stack.push_async_callback(egress.close)
        runner = Runner(isolation.launcher, _runner_settings(settings), EnvironmentSecrets(), packages, egress, trees)
        await runner.start()
        stack.push_async_callback(runner.close)
        stack.push_async_callback(packages.close)
        await _sweep(packages)
        policy = OldestFirst(SchedulerOptions(slots=1))
        trials = TrialRuns(runner, lambda _: Allowance(network=True), policy, refusal=isolation.refusal)
        yield Workbench(trials, packages, cache, say)


def _runner_settings(settings: Settings) -> RunnerSettings:
    return RunnerSettings(http_allowed=settings.http_allowed, hosts_allowed=settings.hosts_allowed)


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return make_folder((Path(base) if base else Path.home() / ".cache") / "functory")


async def _sweep(packages: Packages) -> None:
    for tree, _ in await packages.unused(TENANT, _TREE_LIFE_S):
        await packages.drop(tree)


def _read_lock(place: Path, wanted: Wanted) -> Lock | None:
    """The lock that was made of these requirements lately; of python packages, for this python."""
    try:
        if time.time() - place.stat().st_mtime > _LOCK_LIFE_S:
            return None
        lock = parse_lock(json.loads(place.read_bytes()))
    except (OSError, ValueError, InvalidHandlerError):
        return None
    if lock is None or (lock.requirements, lock.lang) != (wanted.digest, wanted.lang):
        return None
    python = ".".join(platform.python_version_tuple()[:2])
    return lock if lock.lang != "python" or lock.python == python else None


def _keep_lock(place: Path, lock: Lock) -> None:
    make_folder(place.parent)
    new = place.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(lock.to_json()))
    new.replace(place)
