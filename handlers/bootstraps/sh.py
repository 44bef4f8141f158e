"""The sh side of a context: a long-lived shell that sources the tenant's text, and this program between it
and the daemon.

`before`, `beforeEach` and `afterEach` are sourced by the shell itself, so the functions and variables that
they set are there for every job; each job is a subshell, so what it sets is gone after it. The payload is the
stdin of the job, what it and its children print is its log, `S: 403 why` is its status. Each job prints into a pipe
of its own: what a process that it left running prints is no other job's. JOB_CHILDREN names a file with
a line for each child job of a parent that runs again. The shell tells exit statuses on a descriptor that no job has.
A hook may end the shell, with `exit` say. That costs its batch; the next has a new shell, in which `before` has run.

One file, standard library only; the protocol and the job's log are those of `python.py` beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import sys
import tempfile
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from handlers.bootstraps import python
else:
    python = sys.modules.get("python")  # a warm template has loaded it
    if python is None:
        sys.path.insert(0, os.path.dirname(__file__))
        import python

        del sys.path[0]

SHELL = "/bin/sh"
WINDOWS = "its lines end as on Windows, and to sh that is part of their last word: save it with LF alone"
# exit status -> code; others are errors. 65 and 75 are EX_DATAERR and EX_TEMPFAIL of sysexits.h.
CODES = {0: 200, 65: 400, 75: 100}
ORDER_FD, STATUS_FD = 8, 9
PASS_ON_MS = 200  # what a job has printed leaves after this, even if it prints nothing more
ENDED_S = 1.0  # a shell that tells nothing any more has ended by then
READ_BYTES = 1 << 16  # as much as a pipe holds
MOST_READS = 16  # and as much as one can be made to hold: a process that prints without end is not waited for
MOST_LATE = 64  # pipes of earlier jobs that are kept open for the processes that these left running
# `set -e` of a hook holds for the jobs and the other hooks, and not for the shell between them: the exit status of a
# job would end it. When all are asked to stop, the shell waits for its job, whose traps are its own, and ends then. It
# says nothing of a job that was ended by a signal: its status tells that.
DRIVER = """
trap 'trap - TERM; kill -TERM $$' TERM
functory_e=+e
while IFS=' ' read -r functory_order functory_file functory_output JOB_ID JOB_ATTEMPT JOB_CHILDREN JOB_FOLLOWS \
    JOB_FOLLOWS_TYPE JOB_FOLLOWS_CODE <&8; do
    case $functory_order in
    job)
        { ( exec 8<&- 9>&- 2>&1 >"$functory_output" 2>&1; export JOB_ID JOB_ATTEMPT JOB_CHILDREN
            export JOB_FOLLOWS JOB_FOLLOWS_TYPE JOB_FOLLOWS_CODE; set "$functory_e"; . "$functory_file" )
          functory_status=$?
        } 2>/dev/null ;;
    hook)
        set "$functory_e"
        . "$functory_file" </dev/null
        functory_status=$?
        case $- in *e*) functory_e=-e ;; *) functory_e=+e ;; esac
        set +e ;;
    esac
    printf '%s\\n' "$functory_status" >&9
done
"""


class Sh:
    """The engine."""

    log: python.Log

    def __init__(self) -> None:
        self.folder = ""
        self.pipe = JobPipe()
        self.before = ""
        self.texts: dict[str, str] = {}  # by the file that each is in
        self.place = re.compile(rb"(?!)")
        self.files = 0
        self.pid = 0
        self.payload_fd = self.order_fd = self.status_fd = self.output_fd = -1

    def load(self, spec: dict[str, Any]) -> python.Slot:
        self.log.take_statuses()
        if spec["before"]:  # of the first handler
            self.before = self.save("before", spec["before"])
        if not self.pid:
            self.start()
        body = self.save("handler", spec["body"])
        hooks = [self.hook(name, spec[name]) for name in ("beforeEach", "afterEach")]
        return python.Slot(spec["type"], spec["limits"], lambda _, ctx: self.run(body, ctx), *hooks)

    def check(self, spec: dict[str, Any]) -> bytes:
        import subprocess

        for field in ("before", "beforeEach", "body", "afterEach"):
            if spec[field]:
                if spec[field].partition("\n")[0].endswith("\r"):
                    raise python.Refused(field, WINDOWS, 1)
                command = [SHELL, "-n", self.save(field, spec[field])]
                done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  it only parses
                if done.returncode:
                    raise refused(field, done.stderr.decode("utf-8", "replace"))
        return b""

    def save(self, name: str, text: str) -> str:
        """A file of that name in a folder of its own: what the shell says of it begins with `handler.sh: LINE:`."""
        if not self.folder:  # not before: where it goes is known with the environment
            self.folder = tempfile.mkdtemp(prefix="sh-")
            self.pipe.path = os.path.join(self.folder, "output")
            self.place = re.compile(re.escape(os.fsencode(self.folder)) + rb"/\d+/")
        self.files += 1
        path = os.path.join(self.folder, str(self.files), f"{name}.sh")
        self.texts[path] = text + "\n"
        write(path, self.texts[path])
        return path

    def list_children(self, ctx: python.Context) -> str:
        """The file that tells a parent of its children."""
        path = os.path.join(self.folder, "children")
        write(path, python.as_table(ctx.children))
        return path

    def hook(self, name: str, text: str) -> Callable[[], None] | None:
        if not text:
            return None
        path = self.save(name, text)
        return lambda: self.source(name, path)

    def start(self) -> None:
        """One shell per context. Its stdin is a memfd that is filled anew, and rewound, for each job."""
        if self.payload_fd < 0:
            self.payload_fd = high(os.memfd_create("payload"))
        orders, self.order_fd = map(high, os.pipe())
        self.status_fd, statuses = map(high, os.pipe())
        self.output_fd, output = map(high, os.pipe())
        os.set_blocking(self.output_fd, False)
        places = {0: self.payload_fd, 1: output, 2: output, ORDER_FD: orders, STATUS_FD: statuses}
        self.pid = os.posix_spawn(
            SHELL,
            [SHELL, "-c", DRIVER, "handler"],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in places.items()],
            # Python ignores these two, and a shell would inherit that.
            setsigdef=[signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ],
        )
        for fd in (orders, statuses, output):
            os.close(fd)
        if self.before:
            self.source("before", self.before)

    def restart(self) -> None:
        try:
            self.start()
            self.log.end_hook()
        except python.Refused as err:
            if self.pid:  # without what `before` was to set it is of no use
                os.kill(self.pid, signal.SIGKILL)
                self.end()
            raise python.Refused("before", f"before failed: {err.message}", code=python.BROKEN) from None

    def source(self, name: str, path: str) -> None:
        try:
            status = self.order("hook", path)
        except python.Leave as err:
            raise python.Refused(name, f"{err}: {self.printed()}", code=python.BROKEN) from None
        if status:
            raise python.Refused(name, f"exit status {status}: {self.printed()}", code=python.BROKEN)

    def printed(self) -> str:
        """Without a line that was cut: a part of a secret would not be recognised behind other words."""
        text, dropped = self.log.take()[:2]
        return (text.partition(b"\n")[2] if dropped else text).decode("utf-8", "replace").strip()

    def run(self, path: str, ctx: python.Context) -> object:
        os.ftruncate(self.payload_fd, 0)
        os.pwrite(self.payload_fd, ctx.payload_bytes, 0)
        os.lseek(self.payload_fd, 0, os.SEEK_SET)
        children = self.list_children(ctx) if ctx.children else "/dev/null"
        try:
            if not self.pid:  # before the job's pipe is open: `before` runs now, and lets go of it
                self.restart()
            self.pipe.open()
            said = " ".join((self.pipe.path, ctx.id, str(ctx.attempt), children, *(ctx.follows or {}).values()))
            status = self.order("job", path, f" {said}", self.pipe.fd)
        except python.TimedOut:
            raise python.Leave(python.TIMED_OUT, python.timed_out(ctx.slot.limits)) from None
        self.log.settle(final=True)
        if self.log.carried is not None:
            ctx.carry(self.log.carried)
        if self.log.status is not None:
            return self.log.status
        return verdict(status, ctx.slot.limits)

    def order(self, kind: str, path: str, rest: str = "", job_fd: int = -1) -> int:
        """Have the shell do one thing and return its exit status; its output goes to the log meanwhile."""
        if not self.pid:
            self.restart()
        if not os.path.exists(path):  # a job that cleans up its scratch space finds the texts there
            write(path, self.texts[path])
        outputs = [self.output_fd] if job_fd < 0 else [job_fd, self.output_fd]
        try:
            os.write(self.order_fd, f"{kind} {path}{rest}\n".encode())
            return self.hear(outputs)
        except python.TimedOut:
            self.pipe.let_go()
            self.hear_out(outputs)
            raise
        except Exception:  # it is gone, the tenant's text wrote to what is not its own, or it is still at this order
            raise python.Leave(python.BROKEN, f"the shell that runs the jobs {self.end()}") from None

    def hear(self, outputs: list[int]) -> int:
        waiting = select.poll()
        for fd in (self.status_fd, *outputs):
            waiting.register(fd, select.POLLIN)
        while True:
            look_again = self.log.pieces or self.log.kept or self.pipe.late
            ready = {fd for fd, _ in waiting.poll(PASS_ON_MS if look_again else None)}
            if not ready and self.log.started:
                self.log.pass_on()
            self.pipe.drain()
            for fd in ready.intersection(outputs):
                if self.status_fd not in ready and self.read_output(fd) == b"":
                    waiting.unregister(fd)
            if self.status_fd in ready:
                status = os.read(self.status_fd, 16)
                self.pipe.let_go()
                self.read_rest(outputs)
                return int(status)

    def hear_out(self, outputs: list[int]) -> None:
        """The job was asked to stop, too. What it says until it has ended, or is killed, leaves at once.

        It has ended with the shell, which waits for it, and its pipe: it may print elsewhere, and its programs may take
        longer than it.
        """
        waiting = select.poll()
        for fd in (self.status_fd, *outputs):
            waiting.register(fd, select.POLLIN)
        unended = {self.status_fd, outputs[0]}
        while unended:
            self.log.pass_on()
            for fd, _ in waiting.poll():
                if fd == self.status_fd:
                    if os.read(fd, 16):
                        return self.read_rest(outputs)
                elif self.read_output(fd) != b"":
                    continue
                waiting.unregister(fd)
                unended.discard(fd)
        return self.read_rest(outputs)

    def end(self) -> str:
        """How the shell ended; one that still runs is ended. Its pipes may close a moment before that is known."""
        latest = time.monotonic() + ENDED_S
        ended, how = os.waitpid(self.pid, os.WNOHANG)
        while not ended and time.monotonic() < latest:
            time.sleep(0.001)
            ended, how = os.waitpid(self.pid, os.WNOHANG)
        if not ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.pid = 0
        for fd in (self.order_fd, self.status_fd, self.output_fd):
            os.close(fd)
        if not ended:
            return "no longer tells how they end"
        status = os.waitstatus_to_exitcode(how)
        return f"ended by {signal_name(-status)}" if status < 0 else f"ended with exit status {status}"

    def read_output(self, fd: int) -> bytes | None:
        """Take what was printed, if anything was. Empty at its end: nobody is left who could print."""
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return None
        if data:
            self.log.buffer.write(self.place.sub(b"", data))
        return data

    def read_rest(self, fds: list[int]) -> None:
        for fd in fds:
            data: bytes | None = b"-"
            for _ in range(MOST_READS):
                if not data:
                    break
                data = self.read_output(fd)
            if fd == self.pipe.fd and data != b"":  # a process that the job left running has it, too
                self.pipe.leave()


class JobPipe:
    """What a job prints comes out here. It has a name, because the shell that is to open it is running already.

    The next job has the same one, unless somebody else still has it then. That one is read on, for nobody: who prints
    into a pipe that is closed is ended. It is read now and then, so whoever prints without end is slowed down.
    """

    def __init__(self) -> None:
        self.path = ""
        self.fd = self.own_fd = -1
        self.late: list[int] = []  # of processes that jobs left running, the oldest first

    def open(self) -> None:
        """For a job. While it has a writer of ours, nothing wakes us when the job's are gone."""
        try:
            self.own_fd = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # a new one is due, or a job has cleaned up its scratch space
            self.drop()
            with to_scratch(os.path.dirname(self.path)):
                os.mkfifo(self.path, 0o600)
                self.fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
                self.own_fd = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)

    def let_go(self) -> None:
        if self.own_fd >= 0:
            os.close(self.own_fd)
            self.own_fd = -1

    def leave(self) -> None:
        """To those who still have it."""
        self.late.append(self.fd)
        self.fd = -1
        if len(self.late) > MOST_LATE:
            os.close(self.late.pop(0))
        self.drop()

    def drain(self) -> None:
        for fd in self.late[:]:
            with contextlib.suppress(BlockingIOError):
                if not os.read(fd, READ_BYTES):
                    self.late.remove(fd)
                    os.close(fd)

    def drop(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        with contextlib.suppress(OSError):  # what is in the way of a new one is told when that is made
            os.unlink(self.path)


def verdict(status: int, limits: dict[str, Any]) -> object:
    """What an exit status means."""
    code = CODES.get(status, python.BROKEN)
    if code != python.BROKEN:
        return code
    if status == 128 + signal.SIGXFSZ:
        return code, f"ended by SIGXFSZ. {limits['hints']['EFBIG']}".encode()
    text = f"ended by {signal_name(status - 128)}" if status > 128 else f"exit status {status}"
    return code, text.encode()


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def write(path: str, text: str) -> None:
    with to_scratch(os.path.dirname(path)), open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


@contextlib.contextmanager
def to_scratch(folder: str) -> Iterator[None]:
    """Its folders may be gone, and it may be full: then this context is of no further use."""
    try:
        os.makedirs(folder, exist_ok=True)
        yield
    except OSError as err:
        raise python.Leave(python.BROKEN, f"the scratch space cannot be written to: {err.strerror}") from None


def high(fd: int) -> int:
    """The same descriptor with a number that is out of the way of those that the shell expects."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(fd)
    return moved


def refused(field: str, message: str) -> python.Refused:
    """dash says `FILE: LINE: what`, bash `FILE: line LINE: what`; neither knows columns."""
    found = re.search(r":\s*(?:line )?(\d+):\s*(.*)", message, re.DOTALL)
    if found is None:
        return python.Refused(field, message.strip())
    return python.Refused(field, found[2].strip(), int(found[1]))


def prepare() -> Callable[[], None]:
    python.tell_crashes()
    return python.ready(Sh())


if __name__ == "__main__":
    prepare()()
