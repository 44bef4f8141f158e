"""Acts from inside a context, or by running one: what handlers do with processes, memory and output."""

import asyncio
from typing import Final

from functory.errors import ClientError
from functory.hostile.act import MAX_VICTIM_WAIT_S, Act, Through
from functory.hostile.arena import Arena

_RAW: Final = "import os, time\ndef out(data):\n    while data: data = data[os.write(1, data):]\n"
_FRAMES: Final = """import os, struct, threading, time
def reply(kind, number, code=200, length=0, body=b''):
    os.write(4, struct.pack('<IBBHII', length or len(body), kind, 0, code, number, 0) + body)
def later(what):
    def wait():
        time.sleep(0.1); what()
    threading.Thread(target=wait, daemon=True).start()
"""
_CONTEXTS: Final = 12
_BUSY_PROCESSES: Final = 50
_TURNING_TYPES: Final = 8
_MAKERS: Final = 100
_MADE: Final = 1000
"""New jobs of each: as many as a job may make."""
_SMALL: Final = 10_000
_LARGE: Final = 500
"""Results of each size."""
_TOO_BIG: Final = 413
_REFUSED: Final = 429


async def oversized_line(arena: Arena) -> str:
    """Print a new-job line that passes the limit only when it is finished."""
    body = _RAW + "out(b'J: x|' + b'a' * (2 ** 20 - 4)); time.sleep(0.2); out(b'a' * 60_000 + b'\\n')"
    job = await arena.run_job("line", body)
    if job.exitcode != _TOO_BIG:
        raise Through(f"the job ended with {job.exitcode}, not {_TOO_BIG}")
    return f"the job ended with {job.exitcode}"


async def half_frames(arena: Arena) -> str:
    """Send the daemon halves of 30 MB messages from twelve idle contexts."""
    body = _FRAMES + "later(lambda: (reply(5, 0, length=30_000_000), [os.write(4, bytes(60_000)) for _ in range(400)]))"
    await _in_many_contexts(arena, body)
    return f"{_CONTEXTS} contexts spoke while they were idle"


async def idle_output(arena: Arena) -> str:
    """Print a thousand new jobs of 60 KB from each of twelve idle contexts."""
    body = _FRAMES + "later(lambda: [os.write(1, b'J: x|' + b'a' * 60_000 + b'\\n') for _ in range(1000)])"
    await _in_many_contexts(arena, body)
    return f"{_CONTEXTS} contexts printed while they were idle"


async def forged_refusal(arena: Arena) -> str:
    """Refuse to be loaded in a message of 33 MB."""
    body = _FRAMES + "reply(3, 0, code=500, body=b'x' * 33_000_000)\ndef handler(payload, ctx): pass"
    await arena.hostile.put_handler("refuse", "python", body, timeout_s=10.0, options={"max_attempts": 1})
    added = await arena.hostile.add_jobs("refuse", ["x"] * 4)
    job = await arena.ended(_ids(added.ids)[0])
    return f"the job ended with {job.exitcode}"


async def big_results(arena: Arena) -> str:
    """Return forty results of 16 MB as fast as they can be made."""
    await arena.hostile.put_handler("big", "python", "return bytes(16_000_000)", memory_mb=200)
    added = await arena.hostile.add_jobs("big", ["x"] * 40)
    return f"{await _all_ended(arena, len(_ids(added.ids)))} of 40 were recorded"


async def busy_leftovers(arena: Arena) -> str:
    """Leave fifty busy processes behind when the job has ended."""
    body = f"import os\nfor _ in range({_BUSY_PROCESSES}):\n    if os.fork() == 0:\n        while True: pass"
    job = await arena.run_job("leave", body)
    await asyncio.sleep(3)
    return f"{_BUSY_PROCESSES} processes were left by a job of {(job.duration_us or 0) / 1e6:.2f} s"


async def busy_threads(arena: Arena) -> str:
    """Leave a busy thread in each of six idle contexts."""
    body = "import threading\ndef burn():\n    while True: pass\nthreading.Thread(target=burn, daemon=True).start()"
    await _in_many_contexts(arena, body, count=6)
    await asyncio.sleep(3)
    return "six contexts went on working"


async def hoard_memory(arena: Arena) -> str:
    """Take 120 MB in each of sixteen jobs that run side by side, where all contexts may have 512 MB."""
    for number in range(16):
        body = f"hoard = b'x' * 110_000_000\nimport time; time.sleep(0.2)\nreturn {number!r}"
        await arena.hostile.put_handler(f"hoard{number}", "python", body, options={"max_attempts": 2})
    ids = [_ids((await arena.hostile.add_jobs(f"hoard{number}", ["x"])).ids)[0] for number in range(16)]
    jobs = [await arena.ended(job_id) for job_id in ids]
    return f"{sum(job.exitcode == 200 for job in jobs)} of 16 jobs got their memory, in turn"


async def endless_output(arena: Arena) -> str:
    """Print without end."""
    job = await arena.run_job(
        "yes", "import subprocess; subprocess.run(['yes'])", timeout_s=30.0, options={"max_attempts": 1}
    )
    if job.exitcode != _TOO_BIG:
        raise Through(f"the job ended with {job.exitcode}, not {_TOO_BIG}")
    return f"the job ended with {job.exitcode}"


async def many_invocations(arena: Arena) -> str:
    """Invoke a handler of an hour sixty-six times and hang up."""
    handler = {"lang": "python", "body": "import time; time.sleep(3600)", "timeout_s": 3600}
    calls = [asyncio.create_task(arena.hostile.invoke("sleep", handler=handler)) for _ in range(66)]
    await asyncio.wait(calls, timeout=5)
    refused = sum(isinstance(call.exception(), ClientError) for call in calls if call.done() and not call.cancelled())
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    if refused < len(calls) - 2:
        raise Through(f"{len(calls) - refused} were let in")
    await _until_one_is_let_in(arena)
    return f"{refused} of {len(calls)} were refused, and those that ran ended with their clients"


async def next_of_the_name(arena: Arena) -> str:
    """Leave something in a warm context, for the tenant that gets the name next."""
    body = "import builtins\nseen = getattr(builtins, 'planted', '')\nbuiltins.planted = 'planted'\nreturn seen"
    await arena.run_job("plant", body, eid="shared")
    await arena.remove_hostile()
    await arena.create_hostile()
    job = await arena.run_job("plant", body, eid="shared")
    if "planted" in str(job.result):
        raise Through("the next tenant of the name got the context")
    return "the next tenant of the name got a new context"


async def tiny_new_jobs(arena: Arena) -> str:
    """Make a thousand tiny new jobs in each of a hundred jobs."""
    body = f"for number in range({_MADE}): print('J: made|x')"
    await arena.hostile.put_handler("make", "python", body)
    await arena.hostile.add_jobs("make", ["x"] * _MAKERS)
    ended = await _all_ended(arena, _MAKERS)
    rows = [row for row in (await arena.hostile.scoreboard()).types if row.type == "made"]
    made = sum(row.waiting for row in rows)
    if ended < _MAKERS or made < _MAKERS * _MADE:
        raise Through(f"{ended} of {_MAKERS} jobs ended, and {made} were made: the act was not performed")
    return f"{made} jobs were made"


async def near_secrets(arena: Arena) -> str:
    """Return results, small and large, in which each byte may be the beginning of hundreds of secrets."""
    value = "\n".join("a" * size for size in range(8, 150))
    await arena.hostile.set_secret("NEAR", value)
    for name, size, count in (("small", 20, _SMALL), ("large", 15_000, _LARGE)):
        await arena.hostile.put_handler(name, "python", f"return 'a' * {size}", secrets=["NEAR"])
        await arena.hostile.add_jobs(name, ["x"] * count)
    ended = await _all_ended(arena, _SMALL + _LARGE)
    job = await arena.run_job("small", "return 'a' * 20", secrets=["NEAR"])
    if "aaaaaa" in str(job.result):
        raise Through(f"the value of a secret was shown: {job.result!r:.60}")
    return f"{ended} of {_SMALL + _LARGE} were recorded"


async def short_turns_long(arena: Arena) -> str:
    """Be short for hundreds of jobs, then hold every slot for 20 s, as two tenants together."""
    helper = arena.of(f"{arena.name}_too")
    body = "import time\nif payload == 'long': time.sleep(20)"
    async with helper.hostile_tenant():
        for each in (arena, helper):
            for number in range(_TURNING_TYPES):
                await each.hostile.put_handler(f"turn{number}", "python", body)
                await each.hostile.add_jobs(f"turn{number}", ["short"] * 50)
            await _all_ended(each, _TURNING_TYPES * 50)
        for each in (arena, helper):
            for number in range(_TURNING_TYPES):
                await each.hostile.add_jobs(f"turn{number}", ["long"] * 20)
        await asyncio.sleep(MAX_VICTIM_WAIT_S + 1)
        boards = [await each.hostile.scoreboard() for each in (arena, helper)]
        running = sum(row.running for board in boards for row in board.types)
    if not running:
        raise Through("none of the long jobs ran: the act was not performed")
    return f"{running} jobs ran for long in two tenants"


CONTEXT_ACTS: Final[tuple[Act, ...]] = (
    oversized_line,
    half_frames,
    idle_output,
    forged_refusal,
    big_results,
    busy_leftovers,
    busy_threads,
    hoard_memory,
    endless_output,
    many_invocations,
    next_of_the_name,
    tiny_new_jobs,
    near_secrets,
    short_turns_long,
)


async def _in_many_contexts(arena: Arena, body: str, count: int = _CONTEXTS) -> None:
    """Run it in contexts of its own each, by handlers that differ."""
    for number in range(count):
        await arena.run_job(f"many{number}", f"{body}\n# {number}")
    await asyncio.sleep(1)


async def _all_ended(arena: Arena, count: int) -> int:
    """How many jobs of the tenant have ended, when that are all of them or a minute is over. Asks for no result."""
    ended = 0
    for _ in range(300):
        board = await arena.hostile.scoreboard()
        ended = sum(row.ok + row.failed + row.abandoned for row in board.types)
        if ended >= count:
            break
        await asyncio.sleep(0.2)
    return ended


async def _until_one_is_let_in(arena: Arena) -> None:
    """The daemon notices within a moment that the clients have gone."""
    for _ in range(50):
        try:
            await arena.hostile.invoke("echo", "x", handler={"lang": "python", "body": "return payload"})
        except ClientError:
            await asyncio.sleep(0.1)
        else:
            return
    raise Through("invocations go on although their clients have gone")


def _ids(ids: object) -> list[str]:
    assert isinstance(ids, list)
    return ids
