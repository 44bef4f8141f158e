"""Jobs from synchronous code: a web application, a script, a cron job.

    jobs = Jobs("http://127.0.0.1:8484", key=key, tenant="acme")     # or by FUNCTORY_URL, FUNCTORY_KEY, FUNCTORY_TENANT
    job_id = jobs.add("resize", {"url": "cat.png"})
    thumbnail = jobs.run("resize", {"url": "dog.png"}, timeout_s=10).check().value()

It needs no event loop, and of other people's packages only msgspec: `functory.client` needs aiohttp to be imported.
Threads may share one `Jobs`, and processes may be forked after it was made. Proxies that the environment names are not
used.

jobs.py          what can be asked; job.py how a job ended
server.py        one call: sent again where that is safe, until its time is up
connections.py   one try: connections that are kept between calls
"""

from functory.errors import (
    ClientError,
    Conflict,
    FunctoryError,
    InvalidInput,
    JobFailed,
    NotEndedYet,
    NotFound,
    OverLimit,
    ServerUnreachable,
)
from functory.sync.job import Invoked, Job
from functory.sync.jobs import Jobs

__all__ = [
    "ClientError",
    "Conflict",
    "FunctoryError",
    "InvalidInput",
    "Invoked",
    "Job",
    "JobFailed",
    "Jobs",
    "NotEndedYet",
    "NotFound",
    "OverLimit",
    "ServerUnreachable",
]
