"""The end of what a job has said, in bounded memory, for those who read along and for its outcome."""

from typing import Final

from runner.log_note import end_of, gap

KEPT_BYTES: Final = 16 * 1024


class LogTail:
    def __init__(self) -> None:
        self._kept = b""
        self._dropped = 0

    @property
    def size_bytes(self) -> int:
        return len(self._kept)

    def add(self, text: bytes, most_bytes: int = KEPT_BYTES) -> None:
        """Whole lines: one that is not ended is. At most so many bytes are kept then."""
        if text:
            kept = self._kept + text + (b"" if text.endswith(b"\n") else b"\n")
            self._kept, self._dropped = end_of(kept, self._dropped, most_bytes)

    def since(self, offset: int) -> tuple[bytes, int]:
        """What came after the first `offset` bytes, and the offset after that. What is gone is counted in its place."""
        end = self._dropped + len(self._kept)
        if offset >= self._dropped:
            return self._kept[offset - self._dropped :], end
        return gap(self._dropped - offset) + self._kept, end

    @property
    def kept(self) -> bytes:
        return self._kept

    @property
    def dropped(self) -> int:
        """Bytes before what is kept."""
        return self._dropped
