"""The packages of all tenants on this daemon: locks, trees that are ready, builds under way and what became of them.

Ensures: at most `builds` builds at once and one of a tenant, in turn; whoever asks for a tree that is being built waits
for that build, and hears its steps; a build goes on when those who asked have left. A tree that could not be built for
want of an index, or of room, time or memory, is tried again by itself. What is resolved stays resolved for an hour, so
that what was tried is what is saved.
"""

import asyncio
import hashlib
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from handlers.packages import Lock, Requirements, Wanted
from runner.errors import PackagesBusyError, PackagesMissingError, PackagesRefusedError, RunnerError
from runner.packages.sandbox import BuildSandbox
from runner.packages.source import Progress, State, Tell, nobody
from runner.packages.tools import About
from runner.packages.trees import Room, Tree, TreeFolder, over_quota, shown_mb
from vocabulary.names import tenant_of

log = logging.getLogger("functory.packages")

_MOST_WAITING: Final = 4
_LOCK_LIFE_S: Final = 3600.0
_MOST_LOCKS: Final = 256
_MOST_FAILURES: Final = 1000
_AGAIN_S: Final = 30.0
_LONGEST_AGAIN_S: Final = 600.0
_MOST_NAMED: Final = 10
_WAITING: Final = "waiting for its turn"

_Key = tuple[str, str]  # tenant, digest of the lock


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    builds: int = 2
    tree_bytes: int = 256 << 20
    memory_bytes: int = 512 << 20  # of one build
    unavailable: Mapping[str, str] = field(default_factory=dict)  # language: why no packages of it are got here


class _Failure(NamedTuple):
    """Why a tree could not be built. again_s: after how long it may be tried again, 0 for never; is_due: it may now."""

    text: str
    again_s: float
    is_due: bool = False


class _Build:
    """A tree that is being built, and those who hear of it."""

    task: asyncio.Task[Tree]

    def __init__(self) -> None:
        self.step = ""
        self._listeners: list[Tell] = []

    def tell(self, step: str) -> None:
        self.step = step
        for listener in self._listeners:
            listener(step)

    @contextmanager
    def heard_by(self, listener: Tell) -> Iterator[None]:
        """From the step that is under way on."""
        if self.step:
            listener(self.step)
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)


class Packages:
    """Implements `runner.packages.source.PackageSource`."""

    def __init__(
        self,
        sandbox: BuildSandbox,
        trees: TreeFolder,
        settings: ProviderSettings,
        quota_of: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        self._sandbox = sandbox
        self._trees = trees
        self._settings = settings
        self._quota_of = quota_of
        self._hold: Callable[[int], AbstractAsyncContextManager[None]] = lambda _: nullcontext()
        self._changed: Callable[[str], None] = lambda _: None
        self._collect: Callable[[str], Awaitable[None]] | None = None
        self._about: dict[str, asyncio.Task[About]] = {}  # by language
        self._ready: dict[_Key, Tree] = {}
        self._building: dict[_Key, _Build] = {}
        self._failures: OrderedDict[_Key, _Failure] = OrderedDict()
        self._locks: OrderedDict[tuple[str, str], tuple[Lock, float]] = OrderedDict()
        self._seats = asyncio.Semaphore(settings.builds)
        self._turns: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        await asyncio.to_thread(self._trees.sweep)

    async def close(self) -> None:
        """Builds under way are ended, and leave nothing."""
        tasks = [*self._tasks, *(build.task for build in self._building.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._sandbox.close)

    def when_changed(self, listener: Callable[[str], None]) -> None:
        """The listener is told a tenant whose trees have changed: jobs of it may be able to run now."""
        self._changed = listener

    def use_memory(self, hold: Callable[[int], AbstractAsyncContextManager[None]]) -> None:
        """Builds take their memory from what contexts have together."""
        self._hold = hold

    def unavailable(self, lang: str) -> str:
        """Why this daemon gets no packages for the language; "" if it does."""
        return self._settings.unavailable.get(lang, "")

    def all_unavailable(self) -> dict[str, str]:
        """The languages of which it gets none, with the reason."""
        return {lang: reason for lang, reason in self._settings.unavailable.items() if reason}

    # What a handler asks for

    async def lock(self, tenant: str, requirements: Wanted, *, anew: bool = False, tell: Tell = nobody) -> Lock:
        """Resolve, or what was resolved for the tenant within the hour. Raises PackagesRefusedError,
        PackagesMissingError, PackagesBusyError."""
        self._require_installer(requirements.lang)
        known = self._locks.get((tenant, requirements.digest))
        if known is not None and not anew and time.monotonic() - known[1] < _LOCK_LIFE_S:
            return known[0]
        about = await self._get_about(requirements.lang)
        if isinstance(requirements, Requirements) and not requirements.allows(about.version):
            raise PackagesRefusedError(
                f"requires-python is {requirements.requires_python}, and handlers have {about.version}"
            )
        async with self._turn(tenant, tell):
            lock = await self._sandbox.resolve(tenant, requirements, about, tell)
        self._locks[tenant, requirements.digest] = (lock, time.monotonic())
        while len(self._locks) > _MOST_LOCKS:
            self._locks.popitem(last=False)
        return lock

    # Trees

    def is_ready(self, tenant: str, lock: Lock) -> bool:
        key = (tenant, lock.digest)
        if key in self._ready:
            return True
        failure = self._failures.get(key)
        if failure is None or failure.is_due:
            self._start(tenant, lock)
        return False

    async def have(self, jobtype: str, lock: Lock, tell: Tell = nobody) -> Tree:
        tenant = tenant_of(jobtype)
        tree = self._ready.get((tenant, lock.digest))
        if tree is not None and await asyncio.to_thread(self._trees.used, tree, jobtype):
            return tree
        self._ready.pop((tenant, lock.digest), None)  # another process has collected it
        build = self._start(tenant, lock)
        with build.heard_by(tell):
            tree = await asyncio.shield(build.task)
        await asyncio.to_thread(self._trees.used, tree, jobtype)
        return tree

    # Collection: whoever knows the versions says what is still referred to

    async def tenants(self) -> list[str]:
        """Those that have trees."""
        return await asyncio.to_thread(self._trees.tenants)

    async def unused(self, tenant: str, for_s: float) -> list[tuple[Tree, list[str]]]:
        """Trees with which no context was started for so long, and the types that have used them."""

        def look() -> list[tuple[Tree, list[str]]]:
            old = [tree for tree in self._trees.of(tenant) if self._trees.unused_s(tree) > for_s]
            return [(tree, self._trees.users(tree)) for tree in old]

        return await asyncio.to_thread(look)

    async def is_of(self, tree: Tree, lock: Lock) -> bool:
        return tree.key == await self._name(lock)

    async def drop(self, tree: Tree) -> None:
        self._ready = {key: each for key, each in self._ready.items() if each.folder != tree.folder}
        await asyncio.to_thread(self._trees.remove, tree)

    async def drop_tenant(self, tenant: str) -> None:
        """The tenant is gone."""
        self._ready = {key: tree for key, tree in self._ready.items() if key[0] != tenant}
        await asyncio.to_thread(self._trees.remove_tenant, tenant)

    def when_full(self, collect: Callable[[str], Awaitable[None]]) -> None:
        """What is called for a tenant whose quota has no room for another tree."""
        self._collect = collect

    def progress(self, tenant: str, lock: Lock) -> Progress:
        key = (tenant, lock.digest)
        if key in self._ready:
            return Progress(State.READY, _note(lock))
        if key in self._building:
            return Progress(State.BUILDING, self._building[key].step or _WAITING)
        if key in self._failures:
            return Progress(State.FAILED, self._failures[key].text)
        return Progress(State.ABSENT, self.unavailable(lock.lang))

    async def known(self, tenant: str, lock: Lock) -> Progress:
        """As `progress`, and a tree that was built before this daemon started is found."""
        if (tenant, lock.digest) not in self._ready:
            await self._find(tenant, lock)
        return self.progress(tenant, lock)

    def _start(self, tenant: str, lock: Lock) -> _Build:
        key = (tenant, lock.digest)
        build = self._building.get(key)
        if build is None:
            build = self._building[key] = _Build()
            build.task = asyncio.create_task(self._build(tenant, lock, build.tell), name=f"packages of {tenant}")
            build.task.add_done_callback(lambda done: self._built(key, done))
        return build

    def _built(self, key: _Key, task: asyncio.Task[Tree]) -> None:
        self._building.pop(key, None)
        before = self._failures.pop(key, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._ready[key] = task.result()
        else:
            self._failures[key] = failure = _failure(error, before)
            while len(self._failures) > _MOST_FAILURES:
                self._failures.popitem(last=False)
            if not isinstance(error, RunnerError):
                log.error("packages.build_failed", extra={"tenant": key[0], "reason": repr(error)})
            if failure.again_s:
                asyncio.get_running_loop().call_later(failure.again_s, self._may_try_again, key, failure)
        self._changed(key[0])

    def _may_try_again(self, key: _Key, failure: _Failure) -> None:
        """What may come out otherwise is tried again when the next job asks for it."""
        if self._failures.get(key) is failure:
            self._failures[key] = failure._replace(is_due=True)
            self._changed(key[0])

    async def _find(self, tenant: str, lock: Lock) -> Tree | None:
        name = await self._name(lock)
        tree = await asyncio.to_thread(self._trees.find, tenant, name)
        if tree is not None:
            self._ready[tenant, lock.digest] = tree
        return tree

    async def _build(self, tenant: str, lock: Lock, tell: Tell) -> Tree:
        tree = await self._find(tenant, lock)
        if tree is not None:
            return tree
        self._require_installer(lock.lang)
        name = await self._name(lock)
        async with self._turn(tenant, tell):
            if (tree := await self._find(tenant, lock)) is not None:  # another process was quicker
                return tree
            room = await self._room(tenant, Room(tenant, name, self._sandbox.folder_of(lock.lang), 0))
            log.info("packages.build", extra={"tenant": tenant, "packages": len(lock.packages), "tree": name})
            return await self._sandbox.install(tenant, lock, lambda reader: self._trees.receive(reader, room), tell)

    async def _room(self, tenant: str, room: Room) -> Room:
        """With the bytes that a new tree of the tenant may have."""
        quota = self._quota_of(tenant)
        if quota is None:
            return room._replace(max_bytes=self._settings.tree_bytes)
        used = await asyncio.to_thread(self._trees.size_bytes, tenant)
        if used + self._settings.tree_bytes > quota and self._collect is not None:
            await self._collect(tenant)
            used = await asyncio.to_thread(self._trees.size_bytes, tenant)
        if used >= quota:
            raise over_quota(f"the tenant has {shown_mb(used)} of packages, and may have {shown_mb(quota)}")
        if quota - used < self._settings.tree_bytes:
            return room._replace(max_bytes=quota - used, quota_bytes=quota)
        return room._replace(max_bytes=self._settings.tree_bytes)

    async def _name(self, lock: Lock) -> str:
        """Of the tree: the same lock for the same kind of python or node."""
        tag = (await self._get_about(lock.lang)).tag
        return hashlib.sha256(f"{tag} {lock.digest}".encode()).hexdigest()[:32]

    async def _get_about(self, lang: str) -> About:
        known = self._about.get(lang)
        if known is None or (known.done() and (known.cancelled() or known.exception())):
            known = self._about[lang] = self._in_background(self._sandbox.about(lang))
        return await asyncio.shield(known)

    @asynccontextmanager
    async def _turn(self, tenant: str, tell: Tell) -> AsyncIterator[None]:
        """One build of a tenant after the other, and not too many at once in all."""
        if self._waiting[tenant] >= _MOST_WAITING:
            raise PackagesBusyError(f"{_MOST_WAITING} builds of packages of this tenant wait: try again later")
        self._waiting[tenant] += 1
        own = self._turns.setdefault(tenant, asyncio.Lock())
        if own.locked() or self._seats.locked():
            tell(_WAITING)
        try:
            async with own, self._seats, self._hold(self._settings.memory_bytes):
                yield
        finally:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant], self._turns[tenant]

    def _require_installer(self, lang: str) -> None:
        if reason := self.unavailable(lang):
            raise PackagesMissingError(reason)

    def _in_background(self, work: Coroutine[Any, Any, About]) -> asyncio.Task[About]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _failure(error: BaseException, before: _Failure | None) -> _Failure:
    """A build that was refused may have taken long: each further one comes later than the one before."""
    text = str(error) or type(error).__name__
    if not isinstance(error, PackagesRefusedError):
        return _Failure(text, _AGAIN_S)
    if error.is_final:
        return _Failure(text, 0.0)
    again_s = min(max(_AGAIN_S, 2 * before.again_s if before is not None else 0.0), _LONGEST_AGAIN_S)
    return _Failure(f"{text}; jobs that need them have it tried again {again_s:g} s later", again_s)


def _note(lock: Lock) -> str:
    """What is to be known of packages that are there."""
    if not lock.unrun:
        return ""
    shown = ", ".join(lock.unrun[:_MOST_NAMED]) + (" and others" if len(lock.unrun) > _MOST_NAMED else "")
    return f"the install scripts of {shown} were not run, as is the rule here"
