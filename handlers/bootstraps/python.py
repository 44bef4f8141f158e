"""The python side of a context: reads batches on fd 3, runs the tenant's handler over them, answers on fd 4.

One file, standard library only, run with -I. It promises the tenant the semantics of docs/handlers.md and
promises the daemon nothing: the daemon treats every byte that leaves here as hostile, because the tenant's
code lives in this same process.

One reply is written per job, at once: what was written survives a crash of the next job, so the daemon knows
exactly which job was running. The small write costs less than a microsecond; asking the daemon to wait for a
full buffer would cost truth.

`sh.py` and `wasm.py` load this file as a module and give `ready` another engine. Each of the three has a
`prepare`: whoever runs the file in a warm interpreter calls it before the environment and the tenant are known, and
before that, in the process that it is forked from, `warm_up` where there is one.
"""

from __future__ import annotations

import _thread  # threading itself is not imported: a cold start counts every millisecond
import errno
import faulthandler
import io
import json
import os
import signal
import struct
import sys
import time

TYPE_CHECKING = False  # nor typing
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any, NoReturn, TypeGuard

PROTOCOL = 1
REQUEST_FD = 3
REPLY_FD = 4
FOLDER = "FUNCTORY_HANDLER"

REQUEST = struct.Struct("<IHH")  # length, kind, slot
LOAD, BATCH, CHECK = 1, 2, 3
REPLY = struct.Struct("<IBBHII")  # length, kind, 0, code, index, duration_us
HELLO, LOADED, REFUSED, BEGUN, STOPPED, ENDED, FAILED, LEAVING, PROGRESS = 1, 2, 3, 4, 5, 6, 7, 8, 9
DETAIL = struct.Struct("<IIIII")  # result bytes, log bytes, log bytes dropped, retry after ms, new jobs
NO_DELAY = 0xFFFFFFFF
MAX_U32 = 0xFFFFFFFE

TIMED_OUT, TOO_BIG, NO_MEMORY, BROKEN = 504, 413, 507, 500
PROGRESS_BYTES = 1000
PROGRESS_FREE = 10
PROGRESS_NS = 100_000_000  # after the first ten: what a job says of its progress more often than this is left out
SLOW_NS = 20_000_000  # a job that runs longer prints through to the raw log: what it said survives a crash
ITERABLE_COROUTINE = 0x100  # of a generator's code: types.coroutine has made it one to wait for
TEXT_MAX = 8000  # characters of a traceback that are kept: its end says what happened


class Refused(Exception):
    """The text of a handler does not load; line and column count from 1 in the tenant's text."""

    def __init__(self, field: str, message: str, line: int = 0, column: int = 0, code: int = 400) -> None:
        super().__init__(message)
        self.field, self.message, self.line, self.column, self.code = field, message, line, column, code


class Outcome(BaseException):
    """ctx.retry and ctx.fail. Not an Exception, so that a tenant's `except Exception` does not swallow it."""

    def __init__(self, code: int, data: object = None, after_ms: int = NO_DELAY) -> None:
        super().__init__(code)
        self.code, self.data, self.after_ms = code, data, after_ms


class TimedOut(BaseException):
    """Raised inside the running job when the daemon asks it to stop: `finally` blocks get their chance."""


class Leave(Exception):
    """The job is over with (code, text) and so is this context: no other job may start in it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class TooBig(Exception):
    """A limit of the job was passed; the text says which."""


class Secrets(dict[str, str]):
    """Those that the handler names; another is not there, whether the tenant has it or not."""

    def __missing__(self, name: str) -> str:
        raise KeyError(f"{name} is not among this handler's `secrets`")


class Context:
    """What a handler gets as `ctx`."""

    __slots__ = ("attempt", "carried", "id", "new_jobs", "new_jobs_bytes", "payload_bytes", "slot")

    def __init__(self, slot: Slot, job_id: str, attempt: int, payload_bytes: bytes) -> None:
        self.slot = slot
        self.id = job_id
        self.attempt = attempt
        self.payload_bytes = payload_bytes
        self.new_jobs: list[bytes] | None = None
        self.carried: bytes | None = None

    @property
    def type(self) -> str:
        return self.slot.type

    @property
    def secrets(self) -> dict[str, str]:
        return self.slot.secrets

    @property
    def timeout_s(self) -> float:
        return float(self.slot.limits["timeout_s"])

    def retry(self, after_s: float | None = None, data: object = None) -> NoReturn:
        if after_s is None:
            raise Outcome(100, data)
        after_ms = float(after_s) * 1000  # a text times a thousand would be a text
        raise Outcome(100, data, int(min(max(after_ms, 0), MAX_U32)))

    def fail(self, data: object = None, code: int = 400) -> NoReturn:
        if not is_number(code) or not 400 <= code <= 499:
            raise ValueError(f"ctx.fail takes a whole number from 400 to 499 as its code, not {shown(code)}")
        raise Outcome(int(code), data)

    @property
    def children(self) -> list[dict[str, Any]]:
        """Its children, if it runs again after they have ended: id, type, code, exitcode, result, result_bytes."""
        return self.slot.children

    @property
    def follows(self) -> dict[str, str] | None:
        """The job whose result it gets, by `then` or `on_failure`: id, type, code. None if there is none."""
        return self.slot.origins.get(self.id)

    def enqueue(
        self,
        type: str,  # noqa: A002  the tenant writes ctx.enqueue(type=…)
        payload: object = "",
        *,
        delay_s: float | None = None,
        priority: int | None = None,
        domain: str | None = None,
        key: str | None = None,
        unique: str | None = None,
        child: bool = False,
        sibling: bool = False,
        max_attempts: int | None = None,
        retry_base_ms: int | None = None,
        retry_max_ms: int | None = None,
        retry_window_s: int | None = None,
        max_wait_s: int | None = None,
    ) -> None:
        if not is_type(type):
            raise ValueError(f"not a job type: {type!r}; letters, digits and _ . : - without the tenant")
        head = type
        limits = (max_attempts, retry_base_ms, retry_max_ms, retry_window_s, max_wait_s)
        if child or sibling or (delay_s, priority, domain, key, unique, *limits) != (None,) * 10:
            said = {"delay_s": delay_s, "priority": priority, "domain": domain, "key": key, "unique": unique,
                    "child": 1 if child else None, "sibling": 1 if sibling else None,
                    **dict(zip(LIMITS, limits, strict=True))}  # fmt: skip
            head += "?" + as_query({name: value for name, value in said.items() if value is not None})
        data = payload.encode("utf-8", "surrogateescape") if isinstance(payload, str) else dump(payload)
        self.add(head.encode() + b"|" + data)

    def carry(self, data: object) -> None:
        """The payload of the next round of a repeating job, or of the next attempt of one that is retried."""
        carried = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else dump(data)
        limit = self.slot.limits["new_job_bytes"]
        if len(carried) > limit:
            raise TooBig(f"carried more than {limit} bytes on")
        self.carried = carried

    def progress(self, value: object) -> None:
        """Show how far the job has come: a number, a text, or what JSON can hold. Ten times a second is enough."""
        self.slot.tell(self, value)

    def add(self, line: bytes) -> None:
        limits = self.slot.limits
        if self.new_jobs is None:
            self.new_jobs, self.new_jobs_bytes = [], 0
        size_bytes = self.new_jobs_bytes + len(line)
        if len(self.new_jobs) >= limits["new_jobs"]:
            raise TooBig(f"made more than {limits['new_jobs']} new jobs")
        if len(line) > limits["new_job_bytes"]:
            raise TooBig(f"made a new job of more than {limits['new_job_bytes']} bytes")
        if size_bytes > limits["new_jobs_bytes"]:
            raise TooBig(f"made new jobs of more than {limits['new_jobs_bytes']} bytes together")
        self.new_jobs.append(line)
        self.new_jobs_bytes = size_bytes


def is_type(text: object) -> bool:
    import re

    return isinstance(text, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,126}", text) is not None


def is_head(text: str) -> bool:
    """What stands before the bar of a new job: its type, and options after a question mark."""
    kind, _, options = text.partition("?")
    return is_type(kind) and len(options) <= 2000 and all("!" <= char <= "~" for char in options)


LIMITS = ("max_attempts", "retry_base_ms", "retry_max_ms", "retry_window_s", "max_wait_s")


def as_query(options: dict[str, object]) -> str:
    from urllib.parse import quote

    delay_s = options.get("delay_s", 0)
    if isinstance(delay_s, bool) or not isinstance(delay_s, int | float) or not 0 <= delay_s <= 3_155_760_000:
        raise ValueError(f"delay_s must be a number of seconds from 0 on, not {shown(delay_s)}")
    if options.get("priority", 500) not in (0, 500, 1000):
        raise ValueError(f"priority must be 0, 500 or 1000, not {shown(options['priority'])}")
    for name in ("domain", "key", "unique"):
        value = options.get(name)
        if value == "":
            raise ValueError(f"{name} is empty: leave it out if the job has none")
        if value is not None and (not isinstance(value, str) or len(value) > 255):
            raise ValueError(f"{name} must be a text of up to 255 characters, not {shown(value)}")
    for name in LIMITS:
        value = options.get(name)
        if value is not None and (not is_number(value) or value < 1):
            raise ValueError(f"{name} must be a whole number from 1 on, not {shown(value)}")
    query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in options.items())
    if len(query) > 2000:
        raise ValueError("the options of a new job are more than 2,000 characters: choose shorter names")
    return query


def shown(value: object) -> str:
    """In a message: a long value only by its kind, because a part of a secret would not be recognised as one."""
    text = repr(value)
    size = len(value if isinstance(value, str) else text)
    return text if len(text) <= 80 else f"a {type(value).__name__} of {size} characters"


def as_table(children: list[dict[str, Any]]) -> str:
    """For languages without JSON: id, type, code, exit code and result, with tabs between them, a line for each. In a
    result, what would break the line is written as `printf %b` reads it."""
    breaks = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0000"}  # a digit may follow
    rows = []
    for child in children:
        result = "".join(breaks.get(char, char) for char in child["result"] or "")
        rows.append(f"{child['id']}\t{child['type']}\t{child['code']}\t{child['exitcode']}\t{result}\n")
    return "".join(rows)


def ignore(*_: object) -> None:
    pass


def unchanged(value: object) -> object:
    return value


def encode(text: str) -> bytes:
    """What was printed, with bytes that are not UTF-8 as they were. Half a surrogate pair, which JSON may have, has no
    bytes: a replacement character stands for it."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        import re

        return re.sub("[\ud800-\udc7f\udd00-\udfff]", "\ufffd", text).encode("utf-8", "surrogateescape")


MARKED = {"J": "a new job line", "S": "a result", "C": "a line to carry on", "P": "a progress line"}
MARK_CHARS = len("#S: 200 ")  # that are at most before what a marked line says


JOB_MARKS = ("J: ", "#J: ")
STATUS_MARKS = ("S: ", "#S: ", "C: ", "#C: ", "P: ", "#P: ")


class Log(io.TextIOBase):
    """stdout and stderr of the running job: its end, with `J: ` lines taken out as new jobs.

    Engines that run programs call `take_statuses`, and then a line `S: 403 why` is the status of the job, and `C: data`
    what it carries on, and `P: value` its progress. What a job prints after its first moments leaves at once on
    descriptor 1, so that it survives a crash and can be followed. What a forked copy of this process prints leaves line
    by line, as that of any sub-process, and the daemon takes the `J: ` lines out.
    """

    encoding = "utf-8"
    errors = "surrogateescape"

    def __init__(self) -> None:
        self.keep = 16384
        self.line_max = 1 << 20
        self.result_max = 1 << 24
        self.lines_max = 1000
        self.statuses = False
        self.on_progress: Callable[[object], None] = ignore
        self.started = 0  # when the job that is running began, 0 between jobs
        self.marks: tuple[str, ...] = JOB_MARKS
        self.forked = False
        self.reset()
        self._bytes = LogBytes(self)

    def reset(self) -> None:
        self.pieces: list[str] = []
        self.size = 0
        self.dirty = False  # something was written since the last `take`, whatever has become of it
        self.kept = ""
        self.dropped = 0
        self.lines: list[bytes] = []  # the new jobs that were printed
        self.status: tuple[int, bytes] | None = None
        self.carried: bytes | None = None
        self.open = ""  # the last line while it has no newline
        self.inside = False  # `open` continues a line whose beginning went to the log already
        self.overlong = ""  # what a marked line was to be that is too long

    def mark_forked(self) -> None:
        """What is in here was printed by the process that this one is a copy of, which tells it itself."""
        self.forked = True
        self.reset()

    def take_statuses(self) -> None:
        self.statuses = True
        if STATUS_MARKS[0] not in self.marks:
            self.marks += STATUS_MARKS

    def take_jobs(self, limits: dict[str, Any]) -> None:
        """Whether printed lines make jobs, as the handler has it that is loaded or runs now."""
        self.marks = (JOB_MARKS if limits["printed_jobs"] else ()) + (STATUS_MARKS if self.statuses else ())

    @property
    def buffer(self) -> LogBytes:
        return self._bytes

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() takes a str, not {type(text).__name__}")
        self.pieces.append(text)
        self.dirty = True
        self.size += len(text)
        if self.forked:
            if "\n" in text or self.size > self.keep:
                self.flush()
        elif self.started and time.perf_counter_ns() - self.started > SLOW_NS:
            self.pass_on()
        elif self.size > self.keep * 2:
            self.settle()
        return len(text)

    def flush(self) -> None:
        if self.forked:
            text, self.pieces, self.size = "".join(self.pieces), [], 0
            self.write_out(text)

    def pass_on(self) -> None:
        """All but new jobs leaves now: those belong to this job, and on the raw log they could be taken for the next
        one's. A line that has begun stays while it may become one."""
        self.settle()
        text, self.kept = self.kept, ""
        if self.inside or not any(self.open.startswith(mark) or mark.startswith(self.open) for mark in self.marks):
            text += self.open
            self.open, self.inside = "", True
        self.write_out(text)

    def write_out(self, text: str) -> None:
        view = memoryview(encode(text))
        while view:
            try:
                view = view[os.write(1, view) :]
            except BlockingIOError:  # a program that shares descriptor 1 made it non-blocking; node does
                import select

                select.select([], [1], [])

    def settle(self, final: bool = False) -> None:
        """Sort what was written into new jobs, a status and the log; memory stays bounded whatever it was."""
        begun = len(self.open)
        text, self.open = self.open, ""
        text += "".join(self.pieces)  # in place, for lines that are long and come in pieces
        self.pieces = []
        self.size = 0
        cut = len(text) if final else text.rfind("\n", begun) + 1
        self.open = text[cut:]
        if cut:
            done = text[:cut]
            self.kept += self.without_marks(done) if ": " in done else done
            self.inside = False
        mark = self.open[:2].lstrip("#")[:1] if self.open.startswith(self.marks) and not self.inside else ""
        if len(self.open) > (self.most_of(mark) + MARK_CHARS if mark else self.keep):
            if mark:
                self.overlong = self.overlong or f"{MARKED[mark]} of more than {self.most_of(mark)} bytes"
            self.kept += self.open
            self.open = ""
            self.inside = True
        if len(self.kept) > self.keep:
            self.dropped += len(encode(self.kept[: -self.keep]))
            self.kept = self.kept[-self.keep :]

    def most_of(self, mark: str) -> int:
        return self.result_max if mark == "S" else self.line_max

    def end_hook(self) -> None:
        """What it printed is the first job's, but not the start of its first line, nor its status."""
        self.settle()
        if self.open or self.inside:
            self.write("\n")
            self.settle()
        self.status = self.carried = None

    def without_marks(self, text: str) -> str:
        rest = []
        for number, line in enumerate(text.split("\n")):
            if line.startswith(self.marks) and not (self.inside and number == 0):
                note = self.take_mark(*line.lstrip("#").split(": ", 1))
                if not note:
                    continue
                rest.append(f"{line} [{note}]")
            else:
                rest.append(line)
        return "\n".join(rest)

    def take_mark(self, mark: str, value: str) -> str:
        """Note what a marked line says; returns what is wrong with it, or nothing."""
        if mark == "J":
            if "|" not in value or not is_head(value.partition("|")[0]):
                return "not a new job: write J: type|payload"
            if len(self.lines) <= self.lines_max:  # one too many is kept, and found to be that
                self.lines.append(encode(value))
            return ""
        if mark == "C":
            self.carried = encode(value)
            return ""
        if mark == "P":
            return self.take_progress(value)
        code, _, data = value.partition(" ")
        if len(code) != 3 or not code.isascii() or not code.isdigit():
            return "not a status: write S: code data"
        self.status = int(code), encode(data)
        return ""

    def take_progress(self, text: str) -> str:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        try:
            self.on_progress(value)
        except (ValueError, RecursionError) as err:
            return str(err)
        return ""

    def take(self) -> tuple[bytes, int, list[bytes]]:
        """(log bytes, dropped, new job lines) of the job that stopped, and a clean start for the next."""
        self.flush()
        self.settle(final=True)
        overlong = self.overlong
        found = encode(self.kept), self.dropped, self.lines
        self.reset()
        if overlong:
            raise TooBig(f"printed {overlong}")
        return found


class LogBytes(io.RawIOBase):
    """sys.stdout.buffer."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.log.write(bytes(data).decode("utf-8", "surrogateescape"))
        return len(data)


class Slot:
    """One handler that is loaded: what to call per job and per batch."""

    def __init__(
        self,
        kind: str,
        limits: dict[str, Any],
        call: Callable[[str, Context], object],
        before_each: Callable[[], object] | None = None,
        after_each: Callable[[], object] | None = None,
        *,
        finish: Callable[[object], object] = unchanged,
        numbers_are_statuses: bool = True,
    ) -> None:
        self.type = kind
        self.limits = limits
        self.call = call
        self.finish = finish  # makes a value of what was returned, if it is not None
        self.before_each = before_each
        self.after_each = after_each
        self.secrets = Secrets()
        self.tell: Callable[[Context, object], None] = ignore  # what a job says of its progress
        self.children: list[dict[str, Any]] = []  # of the running job
        self.origins: dict[str, dict[str, str]] = {}  # of those of the batch that follow another job
        self.numbers_are_statuses = numbers_are_statuses  # what `return 201` means; a pair has its status either way


class Python:
    """The engine for tenants' python: one namespace per context, shared by all handlers that live in it."""

    file = "handler.py"
    log: Log

    def __init__(self) -> None:
        self.module = type(sys)("handler")
        self.globals: dict[str, Any] = self.module.__dict__
        self.globals["__builtins__"] = __builtins__
        self.loop: Any = None
        self.tasks_cancelled = False

    def be_a_module(self) -> None:
        """Dataclasses, pickle and typing look up what a handler defines in the module that it says it is from.

        A `handler` that can be imported, of the folder or of a package, keeps that name: `import handler` means it.
        """
        if sys.modules.get(self.module.__name__) is not self.module:
            from importlib.machinery import PathFinder

            if PathFinder.find_spec("handler") is not None:
                self.module.__name__ = "__handler__"
            sys.modules[self.module.__name__] = self.module

    def load(self, spec: dict[str, Any]) -> Slot:
        compiled = self.compile(spec)
        self.be_a_module()
        if spec.get("entry"):
            self.globals["__file__"] = os.path.join(os.getcwd(), spec["entry"])
        if "before" in compiled:
            self.run(compiled["before"], "before", spec["limits"])
        self.globals.pop("handler", None)  # of another type that shares this context
        exec(compiled["body"], self.globals)
        call = self.globals.get("handler")
        if not callable(call):
            raise Refused("body", "handler is not a function; define handler(payload, ctx)")
        hooks = [compiled.get(name) for name in ("beforeEach", "afterEach")]
        each = [None if code is None else (lambda code=code: exec(code, self.globals)) for code in hooks]
        statuses = spec.get("returns") == "status"
        return Slot(spec["type"], spec["limits"], call, *each, finish=self.finish, numbers_are_statuses=statuses)

    def check(self, spec: dict[str, Any]) -> bytes:
        self.compile(spec)
        require_handler(spec["body"])
        return b""

    def run(self, code: CodeType, field: str, limits: dict[str, Any]) -> None:
        try:
            exec(code, self.globals)
        except BaseException as err:
            raise Refused(field, f"{explain(err)}\n{hint_for(err, limits)}".strip(), code=BROKEN) from None

    def finish(self, value: Any) -> object:
        """An async handler has not run yet when it has returned, whatever it was wrapped in."""
        kind = type(value)
        if hasattr(kind, "__await__") or (hasattr(kind, "gi_code") and value.gi_code.co_flags & ITERABLE_COROUTINE):
            return self.wait(value)
        return value

    def wait(self, awaitable: Any) -> object:
        import asyncio

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        task = asyncio.ensure_future(awaitable, loop=self.loop)
        try:
            return self.loop.run_until_complete(task)
        except (TimedOut, asyncio.CancelledError) as err:
            if not isinstance(err, TimedOut) and not self.tasks_cancelled:
                raise
            ended = self.end_tasks(task) or err
            if isinstance(ended, Exception):  # that a `finally` block raised
                raise ended from None
            raise TimedOut("asked to stop").with_traceback(ended.__traceback__) from None

    def stop(self) -> None:
        """Called by a signal handler, which then raises TimedOut: in the task that is running, for which others may not
        wait, or in the event loop, and so in none."""
        if self.loop is not None and self.loop.is_running():
            import asyncio

            self.loop.call_soon_threadsafe(self.cancel_tasks, asyncio.current_task(self.loop))

    def cancel_tasks(self, but: Any = None) -> None:
        """Once: a second time would break off what they do in `finally`."""
        import asyncio

        if not self.tasks_cancelled:
            self.tasks_cancelled = True
            for task in asyncio.all_tasks(self.loop) - {but}:
                task.cancel()

    def end_tasks(self, first: Any) -> BaseException | None:
        """Let all tasks come to their end; how the first did, if it had not yet."""
        import asyncio

        self.cancel_tasks()
        ended = None
        if not first.done():
            first.cancel()  # it may be a future that is no task
            try:
                self.loop.run_until_complete(first)
            except BaseException as err:
                ended = err
        others = asyncio.all_tasks(self.loop)
        if others:
            self.loop.run_until_complete(asyncio.gather(*others, return_exceptions=True))
        return ended

    def compile(self, spec: dict[str, Any]) -> dict[str, CodeType]:
        import ast

        compiled = {}
        for field in ("before", "beforeEach", "body", "afterEach"):
            text = spec.get(field)
            if not text:
                continue
            name = (spec.get("entry") or self.file) if field == "body" else field + ".py"
            remember(name, text)
            try:
                tree = ast.parse(text, name)
                if field == "body":
                    tree = as_module(tree)
                compiled[field] = compile(tree, name, "exec", dont_inherit=True)
            except SyntaxError as err:
                raise Refused(field, str(err.msg), err.lineno or 0, err.offset or 0) from None
            except (ValueError, RecursionError, MemoryError) as err:
                raise Refused(field, f"cannot be compiled: {str(err) or type(err).__name__}") from None
        return compiled


def as_module(tree: ast.Module) -> ast.Module:
    """A body that defines `handler` stays as it is; any other becomes the inside of one, lines unmoved."""
    import ast

    if any(names_handler(node) and not isinstance(node, ast.AnnAssign) for node in tree.body):
        return tree
    if any(map(names_handler, own_parts(tree.body))) and not is_inside(tree.body):
        return tree
    arguments = ast.arguments([], [ast.arg("payload"), ast.arg("ctx")], None, [], [], None, [])
    kind = ast.AsyncFunctionDef if awaits(tree.body) else ast.FunctionDef
    function = kind("handler", arguments, tree.body or [ast.Pass()], [], None)
    return ast.fix_missing_locations(ast.Module([function], []))


def names_handler(node: ast.AST) -> bool:
    import ast

    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name == "handler"
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "handler" for target in node.targets)
    if isinstance(node, ast.AnnAssign):
        return node.value is not None and isinstance(node.target, ast.Name) and node.target.id == "handler"
    return isinstance(node, ast.Import | ast.ImportFrom) and any((a.asname or a.name) == "handler" for a in node.names)


def is_inside(nodes: list[ast.stmt]) -> bool:
    """Whether only a function can have this as its body: then `handler` is a name of its own in it."""
    import ast

    parts = list(own_parts(nodes))
    if awaits(nodes) or any(isinstance(part, ast.Return) for part in parts):
        return True
    first_set: dict[str, int] = {}
    loaded: dict[str, int] = {}
    for name in (part for part in parts if isinstance(part, ast.Name)):
        seen = first_set if isinstance(name.ctx, ast.Store) else loaded
        seen[name.id] = min(name.lineno, seen.get(name.id, name.lineno))
    given = [name for name in ("payload", "ctx") if name in loaded]
    return "handler" in loaded or any(loaded[name] <= first_set.get(name, loaded[name]) for name in given)


def require_handler(text: str) -> None:
    """Refuse a body that only defines things under other names, or a handler that cannot be called as it will be: its
    jobs would end well and have done nothing, or never end well."""
    import ast

    tree = ast.parse(text)
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    for node in tree.body:
        if isinstance(node, functions) and node.name == "handler" and not takes_two(node.args):
            raise Refused("body", "handler must take two arguments: handler(payload, ctx)", node.lineno, 1)
    if as_module(tree) is tree:
        return
    found = [node for node in tree.body if isinstance(node, functions) or defines_lambda(node)]
    if found and all(does_nothing(node) for node in tree.body):
        name = getattr(found[-1], "name", "a lambda")
        raise Refused(
            "body",
            f"defines {name}, but nothing calls it: define handler(payload, ctx), or send only what goes inside it",
            found[-1].lineno,
            1,
        )


def takes_two(arguments: ast.arguments) -> bool:
    most = len(arguments.posonlyargs) + len(arguments.args)
    required = most - len(arguments.defaults)
    return required <= 2 <= (2 if arguments.vararg else most) and None not in arguments.kw_defaults


def defines_lambda(node: ast.stmt) -> bool:
    import ast

    return isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Lambda)


def does_nothing(node: ast.stmt) -> bool:
    """Whether a statement at the top of a body has no effect but to give something a name."""
    import ast

    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Pass):
        return True
    if isinstance(node, ast.If):
        return "__name__" in ast.dump(node.test)  # the part that runs when the file is a program
    if defines_lambda(node):
        return True
    values = isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr)
    return values and not any(isinstance(part, ast.Call | ast.Await | ast.Yield) for part in ast.walk(node))


def awaits(nodes: list[ast.stmt]) -> bool:
    """True when `await` or `async for` stands in the body itself."""
    import ast

    for node in own_parts(nodes):
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            return True
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp) and any(
            part.is_async for part in node.generators
        ):
            return True
    return False


def own_parts(nodes: list[ast.stmt]) -> Iterator[ast.AST]:
    """All that stands in the body itself, and not in a function or class that is defined there."""
    import ast

    waiting: list[ast.AST] = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def remember(name: str, text: str) -> None:
    """Let tracebacks show the tenant's own lines."""
    import linecache

    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


def explain(err: BaseException) -> str:
    """The end of the traceback, without the frames of this file."""
    if isinstance(err, Refused):
        return err.message
    import traceback

    step = err.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename == __file__:
        step = step.tb_next
    return without_places("".join(traceback.format_exception(type(err), err, step)).strip())


def explain_timeout(err: TimedOut, limits: dict[str, Any]) -> str:
    """Where it was, by the frames that are not ours."""
    import traceback

    frames = traceback.extract_tb(err.__traceback__)
    theirs = traceback.format_list(frame for frame in frames if frame.filename != __file__)
    return without_places("".join(["Traceback (most recent call last):\n", *theirs, timed_out(limits)]))


def timed_out(limits: dict[str, Any]) -> str:
    return f"timed out after {limits['timeout_s']:g} s"


def without_places(text: str) -> str:
    """The end of a traceback: where the files lie on this machine is noise."""
    for folder in (os.path.dirname(os.__file__), os.environ.get(FOLDER)):
        text = text.replace(f"{folder}/", "") if folder else text
    return text[-TEXT_MAX:]


def dump(data: object) -> bytes:
    if data is None:
        return b""
    if isinstance(data, bytes):
        return data
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogateescape")


def judge(value: object, numbers_are_statuses: bool) -> tuple[int, bytes]:
    """(code, result) of what a handler returned."""
    code, data = 200, value
    if numbers_are_statuses and is_number(value):
        code, data = int(value), None
    elif isinstance(value, tuple) and len(value) == 2 and is_status(value[0]):
        code, data = int(value[0]), value[1]
    if not (100 <= code <= 299 or 400 <= code <= 599):
        return BROKEN, f"returned {code}, an invalid status code; use 1xx, 2xx, 4xx or 5xx".encode()
    return with_result(code, data)


def is_number(value: Any) -> TypeGuard[int]:
    """Whole numbers, members of http.HTTPStatus among them; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_status(value: Any) -> TypeGuard[int]:
    """What says in a pair that it is a status: a plain number or a member of http.HTTPStatus. Other enums are data."""
    kind = type(value)  # by its name: importing http would make each start slower
    return kind is int or (is_number(value) and (kind.__module__, kind.__name__) == ("http", "HTTPStatus"))


def with_result(code: int, data: object) -> tuple[int, bytes]:
    try:
        return code, dump(data)
    except (TypeError, ValueError, RecursionError) as err:
        return BROKEN, f"returned what JSON cannot hold: {err}".encode()


def judge_error(err: BaseException, limits: dict[str, Any]) -> tuple[int, bytes, int]:
    """(code, result, after_ms) of what a handler raised."""
    if isinstance(err, BaseExceptionGroup):
        err = outcome_of(err) or err
    if isinstance(err, Outcome):
        return *with_result(err.code, err.data), err.after_ms
    if isinstance(err, TooBig | Leave):
        return getattr(err, "code", TOO_BIG), str(err).encode(), NO_DELAY
    if isinstance(err, MemoryError):
        text = f"out of memory: the limit is {limits['memory_mb']} MB\n{explain(err)}"
        return NO_MEMORY, text.encode("utf-8", "replace"), NO_DELAY
    if isinstance(err, TimedOut):
        return TIMED_OUT, explain_timeout(err, limits).encode("utf-8", "replace"), NO_DELAY
    text = explain(err)
    hint = hint_for(err, limits)
    text = f"{text}\n{hint}" if hint else text
    return BROKEN, text.encode("utf-8", "replace"), NO_DELAY


def outcome_of(group: BaseExceptionGroup[BaseException]) -> Outcome | None:
    """The first call of ctx.fail or ctx.retry in the tasks of a group, if nothing else went wrong in it."""
    if group.split(Outcome)[1] is not None:
        return None
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first if isinstance(first, Outcome) else None


def hint_for(err: BaseException, limits: dict[str, Any]) -> str:
    """What the daemon has to say about such an error."""
    name = "MODULE_NOT_FOUND" if isinstance(err, ModuleNotFoundError) else ""
    if isinstance(err, OSError) and err.errno is not None:
        name = errno.errorcode.get(err.errno, "")
    return str(limits["hints"].get(name, ""))


def well_formed(text: str) -> str:
    """With a replacement character for each half of a surrogate pair, and for each byte that was not UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Channel:
    """The two pipes."""

    def __init__(self, request_fd: int, reply_fd: int) -> None:
        self.requests = open(request_fd, "rb", buffering=1 << 16)  # noqa: SIM115  open for life
        self.reply_fd = reply_fd
        self.running = False
        self.asked = False  # to stop
        self.forked = False
        self.batch = 0
        self.job: Context | None = None  # the one that is running: no other may tell its progress
        self.telling = _thread.RLock()  # again by the same thread too: from a signal handler of the tenant's
        self.tells = False  # a job of this context has told its progress
        self.told = 0  # when that was last
        self.times_told = 0  # by the running job

    def mark_forked(self) -> None:
        self.forked = True
        self.telling = _thread.RLock()  # a thread that is not in this copy may have held it

    def read(self) -> tuple[int, int, bytes] | None:
        """(kind, slot, body), or None when the daemon has closed its end."""
        head = self.requests.read(REQUEST.size)
        if len(head) < REQUEST.size:
            return None
        length, kind, slot = REQUEST.unpack(head)
        body = self.requests.read(length)
        return (kind, slot, body) if len(body) == length else None

    def write(self, data: bytes) -> None:
        if self.forked:  # a copy of this process that the handler made and let run on: it has nothing to report
            os._exit(0)
        view = memoryview(data)
        while view:
            view = view[os.write(self.reply_fd, view) :]

    def reply(self, kind: int, code: int = 0, index: int = 0, body: bytes = b"") -> None:
        self.write(REPLY.pack(len(body), kind, 0, code, index, 0) + body)

    def progress(self, job: Context | None, value: object) -> None:
        """Called by any thread, at any time: what is not about the running job is left out."""
        text = well_formed(json.dumps(value, ensure_ascii=False, allow_nan=False)).encode()
        if len(text) > PROGRESS_BYTES:
            raise ValueError(f"progress of more than {PROGRESS_BYTES} bytes: say it in fewer words")
        self.tells = True  # before `job` is looked at: see `end_job`
        with self.telling:
            if job is None or job is not self.job:
                return
            now = time.perf_counter_ns()
            if self.times_told < PROGRESS_FREE or now - self.told >= PROGRESS_NS:
                self.told = now
                self.times_told += 1
                self.reply(PROGRESS, index=self.batch, body=text)

    def end_job(self) -> None:
        """From here on no thread writes between the bytes of a reply, or after it.

        A lock would cost a third of a short job's time here, so it is taken only where progress was ever told. A thread
        that tells for the first time says so before it looks at `job`, which is None by now.
        """
        self.job = None
        if self.tells:
            with self.telling:
                pass

    def stopped(
        self,
        index: int,
        code: int,
        duration_us: int,
        result: bytes,
        log: bytes,
        dropped: int,
        after_ms: int,
        new_jobs: list[bytes],
        *,
        carried: bytes | None,
    ) -> None:
        last = [] if carried is None else [carried]
        lines = b"".join(len(line).to_bytes(4, "little") + line for line in new_jobs + last)
        detail = DETAIL.pack(len(result), len(log), min(dropped, MAX_U32), after_ms, len(new_jobs))
        size = len(detail) + len(result) + len(log) + len(lines)
        self.write(REPLY.pack(size, STOPPED, 0, code, index, duration_us) + detail + result + log + lines)


def ready(engine: Any) -> Callable[[], None]:
    """Say hello. What is returned answers requests until the daemon closes the pipe.

    Two steps, because all of this can be done before anybody knows for which tenant.
    """
    for fd in (REQUEST_FD, REPLY_FD):
        os.set_inheritable(fd, False)  # programs that a handler starts have no business with them
    channel = Channel(REQUEST_FD, REPLY_FD)
    log = Log()
    sys.stdout = sys.stderr = engine.log = log

    stop = getattr(engine, "stop", ignore)

    def on_term(_signal: int, _frame: FrameType | None) -> None:
        if channel.running:
            channel.asked = True
            stop()
            raise TimedOut("asked to stop")
        os._exit(0)

    signal.signal(signal.SIGTERM, on_term)
    os.register_at_fork(after_in_child=channel.mark_forked)
    os.register_at_fork(after_in_child=log.mark_forked)
    leave_sigterm_to_copies(on_term)
    channel.reply(HELLO, index=PROTOCOL)
    return lambda: serve(engine, channel, log)


def tell_crashes() -> None:
    """A crash below python leaves its last words in the raw log. To be called before an engine takes such signals for
    what its code does: whoever asks for them last gets them first, and this ends the process."""
    faulthandler.enable(2)


def leave_sigterm_to_copies(handler: object) -> None:
    """A forked copy ends at SIGTERM, as any program does that has not said otherwise.

    Whoever starts one may want to end it at once, as pools of processes do. The signal waits until the copy has come so
    far: python forgets those that come between the fork and its first steps in the copy.
    """
    masks: dict[int, set[int | signal.Signals]] = {}  # by thread: each has its own mask, and its number in the copy

    def block() -> None:
        masks[_thread.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop(_thread.get_ident()))

    def unblock_copy() -> None:
        if signal.getsignal(signal.SIGTERM) is handler:  # else the tenant has set one
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=unblock_copy)


def enter_folder() -> None:
    """The files of a handler that is a folder: read by their names, and imported."""
    folder = os.environ.get(FOLDER)
    if folder:
        os.chdir(folder)
        sys.path.insert(0, folder)


def serve(engine: Any, channel: Channel, log: Log) -> None:
    slots: dict[int, Slot] = {}
    log.on_progress = lambda value: channel.progress(channel.job, value)
    enter_folder()
    while (request := channel.read()) is not None:
        kind, number, body = request
        if kind == BATCH:
            if number in slots:  # else its handler was refused, and it came along with that
                run_batch(channel, log, slots[number], body)
            continue
        length = int.from_bytes(body[:4], "little")
        spec = json.loads(body[4 : 4 + length])
        spec["attachment"] = body[4 + length :]
        limits = spec["limits"]
        log.keep, log.line_max, log.lines_max = limits["log_bytes"], limits["new_job_bytes"], limits["new_jobs"]
        log.result_max = limits["result_bytes"]
        log.take_jobs(limits)
        answer = b""
        try:
            if kind == CHECK:
                answer = engine.check(spec)
            else:
                slots[number] = engine.load(spec)
                log.end_hook()
                slots[number].tell = channel.progress
                slots[number].secrets = Secrets({name: os.environ.get(name, "") for name in spec.get("secrets", ())})
        except Refused as err:
            report = {"field": err.field, "message": err.message, "line": err.line, "column": err.column}
            channel.reply(REFUSED, err.code, number, json.dumps(report).encode())
        except BaseException as err:
            message = f"{explain(err)}\n{hint_for(err, limits)}".strip()
            report = {"field": "body", "message": message, "line": 0, "column": 0}
            channel.reply(REFUSED, BROKEN, number, json.dumps(report).encode())
        else:
            channel.reply(LOADED, index=number, body=answer)


def run_batch(channel: Channel, log: Log, slot: Slot, body: bytes) -> None:
    number, count = struct.unpack_from("<II", body)
    channel.batch = number
    sizes = struct.unpack_from(f"<{count}I", body, 8)
    attempts = struct.unpack_from(f"<{count}I", body, 8 + 4 * count)
    at = 8 + 8 * count
    ids_end = at + 4 + int.from_bytes(body[at : at + 4], "little")
    ids = body[at + 4 : ids_end].decode().split("\n")
    slot.origins = take_origins(ids) if b" " in body[at + 4 : ids_end] else {}
    family = body[ids_end + sizes[0] :] if count == 1 else b""  # of a single job: what it is told of its children
    slot.children = json.loads(family) if family else []
    log.take_jobs(slot.limits)
    if slot.before_each is not None:
        if not run_hook(channel, log, slot.before_each, FAILED, number):
            return
        channel.reply(BEGUN, index=number)
    if not run_jobs(channel, log, slot, body, ids_end, sizes, attempts, ids):
        channel.reply(LEAVING, index=number)
        os._exit(0)
    if slot.after_each is None or run_hook(channel, log, slot.after_each, ENDED, number):
        log.reset()  # what afterEach printed: the jobs of its batch have stopped
        channel.reply(ENDED, index=number)


def take_origins(names: list[str]) -> dict[str, dict[str, str]]:
    """What stands behind ids, taken out of the list: the jobs that these follow."""
    origins = {}
    for index, name in enumerate(names):
        if " " in name:
            names[index], *origin = name.split(" ")
            origins[names[index]] = dict(zip(("id", "type", "code"), origin, strict=True))
    return origins


def run_hook(channel: Channel, log: Log, hook: Callable[[], object], kind: int, number: int) -> bool:
    channel.running = True
    try:
        hook()
        log.end_hook()
        if channel.asked:  # and it went on all the same: its jobs are reported already
            raise TimedOut("asked to stop")
    except BaseException as err:
        channel.running = False
        log.end_hook()
        try:  # noqa: SIM105  contextlib is not imported
            log.pass_on()  # to the first job of the batch, and no other
        except OSError:  # the hook has closed descriptor 1
            pass
        log.reset()
        channel.reply(kind, BROKEN, number, explain(err).encode("utf-8", "replace"))
        if isinstance(err, TimedOut):
            os._exit(0)
        return False
    channel.running = False
    return True


def run_jobs(
    channel: Channel,
    log: Log,
    slot: Slot,
    body: bytes,
    at: int,
    sizes: tuple[int, ...],
    attempts: tuple[int, ...],
    ids: list[str],
) -> bool:
    """One job after the other; the path of a job that says nothing and returns None is kept short.

    False when the job that stopped last is the last that this process can run.
    """
    call, limits, end_job = slot.call, slot.limits, channel.end_job
    clock, pack, write, reply_fd = time.perf_counter_ns, REPLY.pack, os.write, channel.reply_fd
    channel.running = True
    for index, size in enumerate(sizes):
        raw = body[at : at + size]
        at += size
        ctx = Context(slot, ids[index], attempts[index], raw)
        after_ms = NO_DELAY
        last = False
        channel.job, channel.times_told = ctx, 0
        log.started = started = clock()
        try:
            value = call(raw.decode("utf-8", "surrogateescape"), ctx)
            said_nothing = value is None and ctx.new_jobs is None and ctx.carried is None
            if said_nothing and not log.dirty and not channel.forked and not channel.asked:
                end_job()
                write(reply_fd, pack(0, STOPPED, 0, 200, index, min((clock() - started) // 1000, MAX_U32)))
                continue
            code, result = judge(slot.finish(value), slot.numbers_are_statuses)
        except BaseException as err:
            last = isinstance(err, Leave)
            code, result, after_ms = judge_error(err, limits)
        end_job()
        duration_us = min((clock() - started) // 1000, MAX_U32)
        log.started = 0
        text, dropped, new_jobs = b"", 0, ctx.new_jobs or []
        try:
            if log.dirty:
                text, dropped, printed = log.take()
                for line in printed:
                    ctx.add(line)
                new_jobs = ctx.new_jobs or []
            if len(result) > limits["result_bytes"]:
                raise TooBig(f"returned {len(result)} bytes, the limit is {limits['result_bytes']}")
        except TooBig as err:
            code, result, new_jobs = TOO_BIG, str(err).encode(), []
        if code >= BROKEN:
            new_jobs = []  # it will run again and make them again
        carried = ctx.carried if code < BROKEN and code != TOO_BIG else None
        channel.stopped(index, code, duration_us, result, text, dropped, after_ms, new_jobs, carried=carried)
        if last or channel.asked:  # also one that went on all the same: its later jobs run elsewhere
            return False
    channel.running = False
    log.started = 0
    return True


def rehearse(engine: Any, spec: dict[str, Any], attachment: bytes = b"") -> None:
    """Load a handler that does nothing and run a job of it, past the pipes and with a log that is thrown away.

    A forked process pays for each page that it is the first to write to. That is most of what the first job of a
    context would wait for; now nobody waits yet.
    """
    engine.log = log = Log()
    limits = {"timeout_s": 1, "memory_mb": 64, "log_bytes": 1, "result_bytes": 1, "new_jobs": 1, "new_job_bytes": 1,
              "new_jobs_bytes": 1, "printed_jobs": True, "hints": {}}  # fmt: skip
    load = json.dumps({"type": "", "before": "", "beforeEach": "", "afterEach": "", "limits": limits, **spec}).encode()
    load = len(load).to_bytes(4, "little") + load + attachment
    batch = struct.pack("<5I", 1, 1, 1, 1, 1) + b"-x"
    request_fd = os.memfd_create("rehearsal")
    for kind, body in ((LOAD, load), (BATCH, batch)):
        os.write(request_fd, REQUEST.pack(len(body), kind, 0) + body)
    os.lseek(request_fd, 0, os.SEEK_SET)
    channel = Channel(request_fd, os.open(os.devnull, os.O_WRONLY))
    serve(engine, channel, log)
    channel.requests.close()
    os.close(channel.reply_fd)


def add_interactive_names() -> None:
    """`exit` and the like, which python has from `site`; what else that would do, finding packages, is not wanted."""
    import site

    site.setquit()
    site.sethelper()


def add_packages(folder: str, env: str, *modules: str) -> None:
    """Have the handler's packages found, after the standard library, and import what it will import.

    A module may read the environment when it is imported, so it is there by then. What fails will fail again, and be
    told, when the handler is loaded.
    """
    sys.path.append(folder)
    os.environ.update(json.loads(env))
    for name in modules:
        try:
            __import__(name)
        except BaseException:  # noqa: S112  # it will be raised again by the handler's own import
            continue


def rehearse_python() -> None:
    engine = Python()  # the tenant's is another one, with a clean namespace
    rehearse(engine, {"body": "return None"})
    sys.modules.pop(engine.module.__name__, None)


def warm_up() -> None:
    """Once, in the process that contexts are forked from: what is the same in all of them."""
    add_interactive_names()
    rehearse_python()


def prepare() -> Callable[[], None]:
    rehearse_python()
    if len(sys.argv) > 2:
        add_packages(*sys.argv[1:])
        del sys.argv[1:]
    tell_crashes()
    return ready(Python())


if __name__ == "__main__":
    warm_up()
    prepare()()
