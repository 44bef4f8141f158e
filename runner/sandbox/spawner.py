"""The daemon's hold on one spawner process: start it, hand it orders, end it with everything that it forked.

The other side is `inner.spawner`. The process must be started from the thread of the event loop: its life is
bound to that thread (`--die-with-parent`), so that no context outlives a daemon that was killed.
"""

import asyncio
import os
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from typing import Final

from runner.errors import ContextLostError, IsolationError
from runner.sandbox import runtime
from runner.sandbox.handover import Handover
from runner.sandbox.inner.order import Order
from runner.sandbox.runtime import View

_START_TIMEOUT_S: Final = 30.0
_LAST_WORDS_BYTES: Final = 1000


class Spawner:
    """One warm process that forks contexts with one view of the file system."""

    def __init__(
        self,
        view: View,
        handed: Handover,
        *,
        bwrap: str | None,
        own_uids: bool,
        clean_environment: bool,
        close_descriptors: bool,
    ) -> None:
        self._view = view
        self.handed = handed
        self._bwrap = bwrap
        self._own_uids = own_uids
        self._environment: dict[str, str] | None = {} if clean_environment else None
        self._close_descriptors = close_descriptors
        self._process: Process | None = None
        # Not a pipe: contexts of a spawner that died hold its end open, where no namespace ends them with it.
        self._said = os.memfd_create("said", os.MFD_CLOEXEC)
        self._control: socket.socket | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it and wait until it can take orders.

        Raises IsolationError with what it printed if it cannot.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        command, copies = await asyncio.to_thread(self._command, theirs.fileno())
        fds = (theirs.fileno(), *copies.values())
        for fd in fds:
            os.set_inheritable(fd, True)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=self._said,
                env=self._environment,
                start_new_session=True,
                # pass_fds would force close_fds on
                **({"pass_fds": fds} if self._close_descriptors else {"close_fds": False}),
            )
        except OSError as error:
            ours.close()
            raise IsolationError(f"{command[0]} could not be started: {error}") from error
        finally:
            theirs.close()
            for fd in copies.values():
                os.close(fd)
        self._control = ours
        loop = asyncio.get_running_loop()
        try:
            word = await asyncio.wait_for(loop.sock_recv(ours, 16), _START_TIMEOUT_S)
        except (OSError, TimeoutError):
            word = b""
        if word != b"ready":
            said = await self._last_words()
            await self.close()
            raise IsolationError(f"the sandbox could not be started: {said or 'no answer'}")

    def _command(self, control_fd: int) -> tuple[list[str], dict[str, int]]:
        """What starts it, and the descriptors of the files that bubblewrap copies into its root."""
        command = runtime.spawner_command(self._view, self.handed, control_fd, own_root=self._bwrap is not None)
        if self._bwrap is None:
            return command, {}
        copies = {place: _memfd(content) for place, content in runtime.copied_files(self.handed).items()}
        inside = runtime.in_bubblewrap(command, self._view, self.handed, self._bwrap, copies, own_uids=self._own_uids)
        return inside, copies

    async def send(self, order: Order, fds: Sequence[int]) -> None:
        """Hand over an order with the descriptors of its context.

        What becomes of it is told on its report socket.
        """
        if self._control is None:
            raise ContextLostError("the spawner is not running")
        order_fd = order.to_fd()
        try:
            while True:
                try:
                    socket.send_fds(self._control, [b"launch"], [order_fd, *fds])
                    return
                except BlockingIOError:
                    await asyncio.sleep(0)  # many launches at once: the spawner takes them one after the other
        except OSError as error:
            raise ContextLostError(f"the spawner has ended: {error}") from error
        finally:
            os.close(order_fd)

    async def close(self) -> None:
        """End the process; with namespaces this ends every context that it forked. Idempotent."""
        control, self._control = self._control, None
        if control is not None:
            control.close()
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        await process.wait()
        os.close(self._said)

    async def _last_words(self) -> str:
        process = self._process
        if process is None:
            return ""
        if process.returncode is None:
            process.kill()
        await process.wait()
        size = os.fstat(self._said).st_size
        return (
            os.pread(self._said, _LAST_WORDS_BYTES, max(0, size - _LAST_WORDS_BYTES)).decode(errors="replace").strip()
        )


def _memfd(content: bytes) -> int:
    fd = os.memfd_create("data", os.MFD_CLOEXEC)
    os.pwrite(fd, content, 0)  # and the offset stays at the beginning
    return fd
