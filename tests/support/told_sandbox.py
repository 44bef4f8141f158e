"""A build sandbox that does as it is told, and the packages of a daemon that has it."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile

from handlers.packages import Lock, LockedPackage, Requirements
from runner.packages.frames import FrameReader
from runner.packages.provider import Packages, ProviderSettings
from runner.packages.tools import About
from runner.packages.trees import TreeFolder
from tests.support.wheels import frame

HASH = "sha256:" + "0" * 64


class ToldSandbox:
    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.resolved: list[str] = []
        self.most = self.now = 0
        self.of_tenant: Counter[str] = Counter()
        self.most_of_one = 0
        self.trouble: Exception | None = None
        self.tell: Callable[[str], None] = lambda _: None
        """Of the last build that began."""
        self.sent = frame(b"F", "a.py", b"x" * 10) + frame(b"E")

    async def about(self, _lang: str) -> About:
        return About("3.11.7", "tag")

    def folder_of(self, lang: str) -> str:
        return {"python": "site", "node": "node_modules"}[lang]

    async def resolve(self, tenant: str, wanted: Requirements, _about: About, tell: Callable[[str], None]) -> Lock:
        tell("resolving")
        self.resolved.append(tenant)
        return Lock(wanted.digest, "3.11", (LockedPackage("a", str(len(self.resolved)), (HASH,)),))

    async def install(
        self, tenant: str, _lock: Lock, take: Callable[[FrameReader], object], tell: Callable[[str], None]
    ) -> object:
        self.now += 1
        self.most = max(self.most, self.now)
        self.of_tenant[tenant] += 1
        self.most_of_one = max(self.most_of_one, *self.of_tenant.values())
        self.tell = tell
        tell("installing")
        await self.gate.wait()
        self.now -= 1
        self.of_tenant[tenant] -= 1
        if self.trouble is not None:
            raise self.trouble
        return await asyncio.to_thread(self._send, take)

    def _send(self, take: Callable[[FrameReader], object]) -> object:
        with TemporaryFile() as sent:  # more than a pipe holds
            sent.write(self.sent)
            sent.seek(0)
            return take(FrameReader(sent.fileno()))

    def close(self) -> None:
        """Nothing to close."""


def packages(told: ToldSandbox, folder: Path, quota: int | None = None, **settings: object) -> Packages:
    return Packages(told, TreeFolder(folder), ProviderSettings(**settings), lambda _: quota)  # type: ignore[arg-type]


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not met():  # noqa: ASYNC110 (several tasks bring it about: no one event)
            await asyncio.sleep(0)
