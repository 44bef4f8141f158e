"""Work on jobs from any Python program: the same code in one process and across a network (docs/workers.md).

    async with open_queue("http://127.0.0.1:8484", key=key, tenant="acme") as queue:   # or "sqlite:///tmp/jobs.db"
        async for job in queue.take("resize*", limit=8):
            async with job:
                job.result = resize(job.json())

queue.py       take, next, add; the jobs in hand are kept alive in the background (keepalive.py)
unserved.py    says why no jobs come
outage.py      how often a server that is away is asked again, and what is logged of it
job.py         one job in hand: done, fail, retry, progress; reporter.py sends what several say together, and
               raised.py tells the log of one that raised
refusals.py    what the other side refuses, as the same few errors from either
link.py        what a queue asks of the other side: remote.py over HTTP, in_process.py with a daemon of its own
opening.py     from a URL to a queue
worker.py      functions as tasks, run side by side until they are told to stop; task_calls.py calls one,
               a plain function in one of task_threads.py, with the job as in thread_job.py
"""

from functory.errors import Conflict, InvalidInput, LeaseLost, NotFound, OverLimit, WorkerDrained
from functory.queue.job import Fail, Job, Retry
from functory.queue.opening import open_queue
from functory.queue.queue import Queue
from functory.queue.thread_job import ThreadJob
from functory.queue.worker import Worker

__all__ = [
    "Conflict",
    "Fail",
    "InvalidInput",
    "Job",
    "LeaseLost",
    "NotFound",
    "OverLimit",
    "Queue",
    "Retry",
    "ThreadJob",
    "Worker",
    "WorkerDrained",
    "open_queue",
]
