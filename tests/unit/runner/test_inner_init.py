"""The first process of a context, where it sees the processes of the whole machine and is root among them (L1)."""

import os
import subprocess
import sys

from tests.support.needs import missing

# In a process of its own: it changes uids. Somebody else's process has got the number of one that has just ended.
TIDY = """
import subprocess, sys
from runner.sandbox.inner import init

stranger = subprocess.Popen(["sleep", "60"])
own = subprocess.Popen(["sleep", "60"], user=int(sys.argv[1]), group=int(sys.argv[1]))
looks = iter([{stranger.pid: init.os.getpid(), own.pid: init.os.getpid()}])
init._living = lambda: next(looks, {})
init._tidy(0, int(sys.argv[1]), keep_children=False)
print(own.wait(), stranger.poll(), init.os.getresuid())
stranger.kill()
"""


def test_what_has_taken_the_number_of_a_process_that_ended_lives_on() -> None:
    if os.geteuid() != 0:
        missing("root", "only root can give a context a uid of its own")
    done = subprocess.run(
        [sys.executable, "-c", TIDY, str(0x7000_0FFF)], capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout.strip() == "-9 None (0, 0, 0)"
