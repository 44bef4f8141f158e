"""Copies of a python handler's process, as pools of processes make them: they print, and they can be ended."""

import pytest

from handlers.model import Handler
from runner.runner import Runner
from tests.support.engines import jobs, run
from vocabulary.new_job import NewJob

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRINTS = """import multiprocessing, time
def work(n):
    print('child', n)
    print('J: mail|of', n)
    print('open', end='')
def handler(payload, ctx):
    print('before')
    print('J: mail|of the parent')
    if payload == 'slow': time.sleep(0.05)
    for n in range(2):
        process = multiprocessing.get_context('fork').Process(target=work, args=(n,))
        process.start()
        process.join()
    print('after')"""


@pytest.mark.parametrize("payload", ["quick", "slow"])
async def test_what_a_copy_prints_is_in_the_log_once_and_makes_new_jobs(runner: Runner, payload: str) -> None:
    (stopped,) = (await run(runner, Handler("python", PRINTS), jobs(payload))).stopped
    assert stopped.exitcode == 200
    assert sorted(stopped.log.replace(b"open", b"open\n").split()) == sorted(
        b"before child 0 open child 1 open after".split()
    )
    told = [NewJob("mail", text) for text in (b"of the parent", b"of 0", b"of 1")]
    assert sorted(stopped.new_jobs) == sorted(told)


async def test_a_copy_that_runs_on_to_the_end_of_the_handler_says_all_it_has_to_say(runner: Runner) -> None:
    body = """import os
pid = os.fork()
if pid: os.waitpid(pid, 0)
print('parent' if pid else 'copy', end='')"""
    (stopped,) = (await run(runner, Handler("python", body), jobs("x"))).stopped
    assert stopped.exitcode == 200
    assert stopped.log in (b"parentcopy", b"copyparent")


ENDS_AT_ONCE = """import os, signal
def ended():
    pid = os.fork()
    if not pid:
        signal.sigtimedwait([], 20)
        os._exit(0)
    os.kill(pid, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def handler(payload, ctx): return sorted({ended() for _ in range(300)})"""


async def test_a_copy_ends_at_sigterm_however_young_it_is(runner: Runner) -> None:
    seen = await run(runner, Handler("python", ENDS_AT_ONCE, timeout_s=30), jobs("x"))
    assert seen.results == [b"[-15]"]


async def test_a_copy_has_the_signal_handler_and_the_mask_that_the_tenant_has_set(runner: Runner) -> None:
    body = """import os, signal
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
pid = os.fork()
if not pid:
    os.kill(os.getpid(), signal.SIGTERM)
    os.write(1, b'blocked')
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"""
    (stopped,) = (await run(runner, Handler("python", body), jobs("x"))).stopped
    assert (stopped.result, stopped.log) == (b"7", b"blocked")
