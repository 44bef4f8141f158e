"""The bounds of a context and of each job in it, with the words that a tenant reads when one is reached."""

from dataclasses import dataclass
from typing import Any

from handlers.model import Handler
from runner.launch import Limits

_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """What the operator allows; the handler's own timeout and memory come on top of it."""

    log_bytes: int = 16 * 1024  # the end of a job's log that is kept
    output_bytes: int = 64 * _MB  # past this much raw output the job is ended
    result_bytes: int = 16 * _MB
    new_jobs: int = 1000  # per job
    new_job_bytes: int = 1 * _MB  # each
    new_jobs_bytes: int = 16 * _MB  # together
    compiled_bytes: int = 256 * _MB  # machine code of one wasm module
    start_timeout_s: float = 20.0
    check_timeout_s: float = 20.0
    kill_grace_s: float = 1.0  # between asking a job to stop and ending its process tree
    processes: int = 64
    open_files: int = 256
    file_bytes: int = 64 * _MB
    scratch_bytes: int = 64 * _MB

    @property
    def reply_bytes(self) -> int:
        """The biggest message that a context may send."""
        return self.result_bytes + self.new_jobs_bytes + 4 * (self.log_bytes + self.new_jobs) + 64 * 1024

    def for_launch(self, handler: Handler) -> Limits:
        return Limits(
            memory_bytes=handler.memory_mb * _MB,
            processes=self.processes,
            open_files=self.open_files,
            file_bytes=self.file_bytes,
            scratch_bytes=self.scratch_bytes,
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
            "hints": {
                "EMFILE": f"limit reached: at most {self.open_files} open files",
                "EAGAIN": f"limit reached: at most {self.processes} processes and threads",
                "EFBIG": f"limit reached: a file may have at most {self.file_bytes >> 20} MB",
                "ENOSPC": f"limit reached: scratch space of {self.scratch_bytes >> 20} MB is full",
                "EDQUOT": f"limit reached: scratch space of {self.scratch_bytes >> 20} MB is full",
            },
        }
