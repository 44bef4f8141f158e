"""The bounds of a context and of each job in it, with the words that a tenant reads when one is reached."""

import os
from dataclasses import dataclass
from typing import Any, Final

from handlers.model import Handler
from runner.launch import Limits
from vocabulary.sizes import MIB

NO_PACKAGES: Final = (
    "Handlers have the standard library of their language and no packages, whatever is installed on this machine: "
    "a python handler asks for packages in its text or in requirements.txt of its folder, a node handler in "
    "package.json of its folder (docs/packages.md), others call a service that has the code"
)
NOT_AMONG_PACKAGES: Final = (
    "It is not among the packages that the handler asks for: add it to its dependencies, in a folder requirements.txt "
    "or package.json"
)
NO_NETWORK: Final = (
    "This handler has no network: its setting `hosts` is empty. List the hosts that it calls, with "
    "`functory handler put TYPE FILE --host NAME` or as hosts = [...] in functory.toml of its folder (docs/handlers.md)"
)
PAST_PROXY: Final = (
    "The hosts of a handler are reached through the proxy that HTTPS_PROXY names, and this call went past it. What "
    "does not look at HTTPS_PROXY (SMTP, databases) needs a tunnel through it, or a worker (docs/cookbook.md)"
)
HINTS: Final = frozenset({NO_PACKAGES, NOT_AMONG_PACKAGES, NO_NETWORK, PAST_PROXY})
"""Said after the error of a module that is not found, or of a call: advice, and not the cause."""


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """What the operator allows; the handler's own timeout and memory come on top of it."""

    log_bytes: int = 16 * 1024  # the end of a job's log that is kept
    output_bytes: int = 64 * MIB  # past this much raw output the job is ended
    result_bytes: int = 16 * MIB
    new_jobs: int = 1000  # per job
    new_job_bytes: int = 1 * MIB  # each; also what a job carries on to its next round
    new_jobs_bytes: int = 16 * MIB  # together
    compiled_bytes: int = 64 * MIB  # machine code of one wasm module
    start_timeout_s: float = 20.0
    check_timeout_s: float = 20.0
    message_s: float = 10.0  # for the whole of one message of a context, once it has begun
    kill_grace_s: float = 1.0  # between asking a job to stop and ending its process tree
    processes: int = 64
    open_files: int = 256
    file_bytes: int = 64 * MIB
    scratch_bytes: int = 64 * MIB
    cpu_s: int = 7200 * (os.cpu_count() or 1)  # of one process: more than any context lives, on all cores

    @property
    def reply_bytes(self) -> int:
        """The biggest message that a context may send."""
        new_bytes = self.new_jobs_bytes + self.new_job_bytes  # new jobs, and what is carried on
        return self.result_bytes + new_bytes + 4 * (self.log_bytes + self.new_jobs) + 64 * 1024

    def for_launch(self, memory_mb: int, reserved_mb: int = 0) -> Limits:
        return Limits(
            memory_bytes=memory_mb * MIB,
            processes=self.processes,
            open_files=self.open_files,
            file_bytes=self.file_bytes,
            scratch_bytes=self.scratch_bytes,
            cpu_s=self.cpu_s,
            reserved_bytes=reserved_mb * MIB,
        )

    def for_child(self, handler: Handler) -> dict[str, Any]:
        """What the bootstrap enforces itself, as only it can say so politely, and words for the rest."""
        return {
            "timeout_s": handler.timeout_s,
            "memory_mb": handler.memory_mb,
            "log_bytes": self.log_bytes,
            "result_bytes": self.result_bytes,
            "new_jobs": self.new_jobs,
            "new_job_bytes": self.new_job_bytes,
            "new_jobs_bytes": self.new_jobs_bytes,
            "printed_jobs": handler.prints_jobs,
            "hints": {
                "EMFILE": f"limit reached: at most {self.open_files} open files",
                "EAGAIN": f"limit reached: at most {self.processes} processes and threads",
                "EFBIG": f"limit reached: a file may have at most {self.file_bytes >> 20} MB",
                "ENOSPC": f"limit reached: scratch space of {self.scratch_bytes >> 20} MB is full",
                "EDQUOT": f"limit reached: scratch space of {self.scratch_bytes >> 20} MB is full",
                "MODULE_NOT_FOUND": NO_PACKAGES if handler.lock is None else NOT_AMONG_PACKAGES,
            },
        }
