"""The synchronous client: what is sent again and what is not, whose connection it is."""

from tests.mutants.mutant import Mutant, in_file

CALLS = "tests/unit/functory/test_sync_calls.py"
DAEMON = "tests/service/test_sync.py"

connections = in_file("functory/sync/connections.py", CALLS)
server = in_file("functory/sync/server.py", CALLS)
jobs = in_file("functory/sync/jobs.py", f"{DAEMON} {CALLS}")

MUTANTS: list[Mutant] = [
    connections("a child speaks over its parent's connection", "if process == os.getpid() and ", "if "),
    connections("a connection is used however long it was idle", " and time.monotonic() - since_s < _IDLE_S", ""),
    connections(
        "two threads speak over one connection",
        "                connection, process, since_s = self._kept.pop()\n",
        "                connection, process, since_s = self._kept[-1]\n",
    ),
    connections("connections are not kept", "len(self._kept) < _MOST_KEPT", "len(self._kept) < 0"),
    connections(
        "a refusal of half a body is taken for a broken connection",
        "    except (BrokenPipeError, ConnectionResetError):\n        is_whole = False",
        "    except ZeroDivisionError:\n        is_whole = False",
    ),
    server("a closed connection costs a pause", "if none.is_stale and not is_fresh:", "if False:"),
    server("what may not be done twice is sent over a kept connection", "0, not call.is_repeatable\n", "0, False\n"),
    server("what may not be done twice is sent twice", "call.is_repeatable or not none.is_sent", "True"),
    server(
        "what is not repeatable is repeated after any 5xx",
        "may_pass(refused) if call.is_repeatable else ",
        "may_pass(refused) or ",
    ),
    server(
        "what is refused is asked for again",
        "may_pass(refused) if call.is_repeatable else",
        "True if call.is_repeatable else",
    ),
    server("a server is asked when the time is up", "pause_s >= deadline_s:", "pause_s >= deadline_s + 60:"),
    server("the server's wish for a pause is ignored", "max(asked_s or 0.0, half_s)", "half_s"),
    server("a wait that was broken begins anew", "min(max(left_s, 0.0), _LOOK_S)", "_LOOK_S"),
    server(
        "an answer of somebody else is taken for an error of ours",
        "    except msgspec.MsgspecError:\n        raise problem(*reply) from None\n",
        "    except ZeroDivisionError:\n        raise problem(*reply) from None\n",
    ),
    jobs("a job has no idempotency key", "idempotency_key = secrets.token_hex(16)", "pass"),
    jobs(
        "a job without an idempotency key is sent twice",
        "is_repeatable=idempotency_key is not None",
        "is_repeatable=True",
    ),
    jobs("all jobs have one idempotency key", "secrets.token_hex(16)", '"0" * 32'),
    jobs("a large result is left out", "job.result is None and job.result_bytes", "False"),
    jobs("a job that goes on is taken for one that has ended", "if job is None or not job.is_over:", "if job is None:"),
]
