"""A disk for the crash model: it keeps what was synced apart from what was only written.

After a crash an unsynced sector may hold its old bytes, the new ones, zeros, a torn mix, or a stale sector from
elsewhere on the disk; each sector for itself, so writes reorder. A file may have any of the sizes it had since its
last sync. A name that was created, renamed or removed since the last directory sync may be in its old or new state,
each name for itself. What was synced stays.
"""

import errno
import random
from dataclasses import dataclass, field

SECTOR_BYTES = 512


class Crashed(OSError):
    """The machine is off: raised by the operation at which the crash falls and by all after it."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "the machine crashed")


@dataclass(slots=True, eq=False)
class Inode:
    durable: bytes = b""
    live: bytearray = field(default_factory=bytearray)
    sizes: list[int] = field(default_factory=list)
    """Every size since the last sync."""
    dirty: dict[int, list[bytes]] = field(default_factory=dict)
    """The contents that each unsynced sector had in turn."""

    def touch(self, begin: int, end: int) -> None:
        for sector in range(begin // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            at = sector * SECTOR_BYTES
            self.dirty.setdefault(sector, []).append(bytes(self.live[at : at + SECTOR_BYTES]))
        self.sizes.append(len(self.live))

    def settle(self) -> None:
        self.durable = bytes(self.live)
        self.sizes.clear()
        self.dirty.clear()


class CrashDisk:
    """Implements journal.Disk in memory. `crash_at` counts operations down to the crash.

    `skip_file_sync` and `skip_directory_sync` leave the syncs out, as a journal that forgot them would: for the
    tests of the test.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        crash_at: int | None = None,
        skip_file_sync: bool = False,
        skip_directory_sync: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self.crash_at = crash_at
        self.skip_file_sync = skip_file_sync
        self.skip_directory_sync = skip_directory_sync
        self.durable_names: dict[str, Inode] = {}
        self.live_names: dict[str, Inode] = {}
        self.operations = 0

    # Operations of the directory

    def lock(self) -> None: ...

    def unlock(self) -> None: ...

    def names(self) -> list[str]:
        self.step()
        return sorted(self.live_names)

    def create(self, name: str) -> "CrashFile":
        self.step()
        if name in self.live_names:
            raise FileExistsError(errno.EEXIST, "exists", name)
        self.live_names[name] = Inode()
        return CrashFile(self, self.live_names[name])

    def open(self, name: str, *, writable: bool = False) -> "CrashFile":
        self.step()
        if name not in self.live_names:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        return CrashFile(self, self.live_names[name])

    def rename(self, old: str, new: str) -> None:
        self.step()
        self.live_names[new] = self.live_names.pop(old)

    def remove(self, name: str) -> None:
        self.step()
        del self.live_names[name]

    def sync_directory(self) -> None:
        self.step()
        if not self.skip_directory_sync:
            self.durable_names = dict(self.live_names)

    def free_bytes(self) -> int:
        return 1 << 40

    # The crash

    def step(self) -> None:
        """One more operation; the crash falls on the one that `crash_at` names."""
        if self.crash_at is not None and self.operations >= self.crash_at:
            raise Crashed
        self.operations += 1

    def after_crash(self, seed: int) -> "CrashDisk":
        """One of the states in which the disk may be found when the machine comes up again."""
        rng = random.Random(seed)
        found = CrashDisk(seed, skip_file_sync=self.skip_file_sync, skip_directory_sync=self.skip_directory_sync)
        stale = [sector for inode in self._inodes() for sectors in inode.dirty.values() for sector in sectors]
        mood = rng.choice(("nothing", "everything", "mixed", "mixed", "mixed"))
        contents = {id(inode): _content_after_crash(inode, mood, stale, rng) for inode in self._inodes()}
        for name in sorted(self.durable_names.keys() | self.live_names.keys()):
            is_new = mood == "everything" or (mood == "mixed" and rng.random() < 0.5)
            inode = (self.live_names if is_new else self.durable_names).get(name)
            if inode is not None:
                content = contents[id(inode)]
                found.live_names[name] = Inode(durable=content, live=bytearray(content))
        found.durable_names = dict(found.live_names)
        return found

    def _inodes(self) -> list[Inode]:
        return list({id(inode): inode for inode in [*self.durable_names.values(), *self.live_names.values()]}.values())


class CrashFile:
    def __init__(self, disk: CrashDisk, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode

    def write(self, data: bytes, offset: int) -> int:
        self._disk.step()
        live = self._inode.live
        if self._disk.random.random() < 0.1 and len(data) > 1:
            data = data[: self._disk.random.randrange(1, len(data))]  # a short write
        if len(live) < offset:
            live.extend(bytes(offset - len(live)))
        live[offset : offset + len(data)] = data
        self._inode.touch(offset, offset + len(data))
        return len(data)

    def read(self, offset: int, size: int) -> bytes:
        self._disk.step()
        return bytes(self._inode.live[offset : offset + size])

    def size(self) -> int:
        return len(self._inode.live)

    def truncate(self, size: int) -> None:
        self._disk.step()
        live = self._inode.live
        before = len(live)
        if size < before:
            del live[size:]
        else:
            live.extend(bytes(size - before))
        self._inode.touch(min(size, before), max(size, before))

    def sync(self) -> None:
        self._disk.step()
        if not self._disk.skip_file_sync:
            self._inode.settle()

    def close(self) -> None: ...


def _content_after_crash(inode: Inode, mood: str, stale: list[bytes], rng: random.Random) -> bytes:
    if mood == "nothing" or not inode.sizes:
        return inode.durable
    if mood == "everything":
        return bytes(inode.live)
    sizes = [len(inode.durable), *inode.sizes]
    size = rng.choice(sizes) if rng.random() < 0.7 else rng.randint(min(sizes), max(sizes))
    content = bytearray(inode.durable[:size].ljust(size, b"\0"))
    for sector, versions in inode.dirty.items():
        begin = sector * SECTOR_BYTES
        if begin >= size:
            continue
        old = bytes(content[begin : begin + SECTOR_BYTES])
        content[begin : begin + SECTOR_BYTES] = _sector_after_crash(old, versions, stale, rng)[: len(old)].ljust(
            len(old), b"\0"
        )
    return bytes(content)


def _sector_after_crash(old: bytes, versions: list[bytes], stale: list[bytes], rng: random.Random) -> bytes:
    new = rng.choice(versions)
    match rng.choice(("old", "new", "new", "new", "zero", "torn", "stale")):
        case "old":
            return old
        case "zero":
            return bytes(SECTOR_BYTES)
        case "torn":
            cut = rng.randrange(SECTOR_BYTES)
            return new[:cut] + old[cut:]
        case "stale":
            return rng.choice(stale)
        case _:
            return new
