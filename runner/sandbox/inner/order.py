"""An order to start one context, as the daemon sends it to a spawner: plain values that travel as JSON in a
memfd.

A memfd and not the socket, because an argument list may be bigger than a socket's message. The order knows no
tenant: a context is made blank, locked, and then waits for its environment, which comes first on the request
pipe.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

# Descriptors that come with an order, in this sequence; those of the cgroups follow.
FD_ORDER, FD_REQUEST, FD_REPLY, FD_LOG, FD_REPORT = range(5)
FIXED_FDS: Final = 5
MAX_FDS: Final = 16

# What goes over the report socket of a context. From the context, JSON: {"init": true} with a pidfd (and a listener),
# {"ready": true}, {"failed": text} for a layer, {"unstartable": text} for the program,
# {"exit": wait status}. To the context's init, bare words:
TERMINATE: Final = b"terminate"
KILL: Final = b"kill"
TIDY: Final = b"tidy"  # end all processes but the program, then answer {"tidied": how many are left}
TIDY_BUT_CHILDREN: Final = b"tidy but children"  # the same, and the program's own children stay
REPORT_BYTES: Final = 4096

_LENGTH_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Order:
    argv: tuple[str, ...]  # as the context sees it
    fork: bool  # run the python file argv[0] in a fork of the warm interpreter instead of exec'ing argv
    scratch: str  # the one writable directory; with namespaces a tmpfs is mounted on it
    scratch_bytes: int
    scratch_files: int
    network: bool
    proxy_port: int  # 0 for none; where a listener is opened in the context's own network, and handed to the daemon
    namespaces: bool
    own_uid: int | None
    close_descriptors: bool
    rlimits: tuple[tuple[int, int], ...]  # (resource, soft and hard value)
    landlock: bool
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    seccomp: str  # the assembled program in hex, "" for none
    tree: str = ""  # the name of the folder of the handler in `trees`, with namespaces
    trees: str = ""  # where the spawner has all of them; gone in the context
    folder: str = ""  # where the context is to have it
    serves: int = 0  # a port of the context's own network at which it may listen, beside the listener's

    def to_fd(self) -> int:
        """A memfd with this order; the caller closes it."""
        fd = os.memfd_create("order", os.MFD_CLOEXEC)
        try:
            os.pwrite(fd, json.dumps({name: getattr(self, name) for name in _FIELDS}).encode(), 0)
        except OSError:
            os.close(fd)
            raise
        return fd

    @classmethod
    def from_fd(cls, fd: int) -> "Order":
        values = json.loads(os.pread(fd, os.fstat(fd).st_size, 0))
        for name in ("argv", "readable", "writable"):
            values[name] = tuple(values[name])
        values["rlimits"] = tuple((resource, value) for resource, value in values["rlimits"])
        return cls(**values)


_FIELDS: Final = tuple(field.name for field in fields(Order))


def pack_environment(env: Mapping[str, str]) -> bytes:
    """What the daemon writes to the request pipe to set a blank context going."""
    body = json.dumps(dict(env)).encode()
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


def read_environment(fd: int) -> dict[str, str] | None:
    """Wait for the environment, and read not one byte more; None when the context is not wanted after all."""
    head = _read_exactly(fd, _LENGTH_BYTES)
    body = _read_exactly(fd, int.from_bytes(head, "big")) if head else b""
    return json.loads(body) if body else None


def _read_exactly(fd: int, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = os.read(fd, count - len(parts))
        if not part:
            return b""
        parts += part
    return bytes(parts)
