"""A file system of its own, of a few megabytes, that can be filled to its last byte. Only root may mount it."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path


class SmallDisk:
    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path = path
        self._size_bytes = size_bytes
        self._ballast = path / "ballast"

    def mount(self) -> str:
        """Why that is not possible; empty when it is done."""
        self.path.mkdir()
        options = f"size={self._size_bytes}"
        command = ["mount", "-t", "tmpfs", "-o", options, "functory-test", str(self.path)]
        return subprocess.run(command, check=False, capture_output=True, text=True).stderr.strip()

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            left = os.statvfs(self.path)
            os.posix_fallocate(file.fileno(), 0, left.f_bavail * left.f_frsize)  # others may be writing, too
        with self._ballast.open("ab", buffering=0) as file:
            step = 1 << 16
            while step:
                try:
                    file.write(b"x" * step)
                except OSError:
                    step //= 2

    def free(self) -> None:
        self._ballast.unlink()

    def unmount(self) -> None:
        """Also while a process that is about to end still has something open there."""
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)
