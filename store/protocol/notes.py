"""Verbs on notes: small values of the application with an end, such as who is signed in."""

import abc


class NoteBoard(abc.ABC):
    """Values by key, of the whole service and of no tenant; every daemon of the store sees the same."""

    @abc.abstractmethod
    async def put_note(self, key: str, value: bytes, *, expires_ms: int) -> None:
        """Write value under key, over what stands there. expire_records removes it when it has expired. Atomic,
        idempotent. Raises InvalidValue: value over 1 MiB, a key that is no label."""

    @abc.abstractmethod
    async def get_note(self, key: str, *, now_ms: int) -> bytes | None:
        """The value, or None when there is none that has not expired at now_ms."""

    @abc.abstractmethod
    async def drop_note(self, key: str) -> bool:
        """Remove it at once; False if there was none."""
