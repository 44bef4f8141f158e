"""The peers as data: what to install, how its workers are started at its best on two cores, and what it promises.

Settings were chosen by trying those that the peer's documentation names for throughput, on two cores.
"""

from dataclasses import dataclass, field
from typing import Final

REDIS: Final = "redis"
BEANSTALKD: Final = "beanstalkd"
NOTHING_SYNCED: Final = "nothing (Redis in memory)"


@dataclass(frozen=True)
class Peer:
    """`worker` is a command without its interpreter, started `workers` times; `{url}` is the server's."""

    name: str
    program: str
    worker: tuple[str, ...]
    settings: str
    workers: int = 1
    jobs: int = 20_000
    singles: int = 5_000
    server: str = REDIS
    requires: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    has_bulk: bool = False
    environ: dict[str, str] = field(default_factory=dict)
    syncs: str = NOTHING_SYNCED
    records: str = "no result"
    isolates: str = "nothing"


PEERS: Final = (
    Peer(
        "BullMQ",
        "bullmq_peer.js",
        ("bullmq_peer.js", "work"),
        "addBulk of 1,000; a process of concurrency 100; removeOnComplete",
        jobs=50_000,
        npm=("bullmq@6.7.0", "ioredis@5.11.1"),
        has_bulk=True,
    ),
    Peer(
        "BullMQ x2",
        "bullmq_peer.js",
        ("bullmq_peer.js", "work"),
        "the same with 2 processes: better drained, worse when the producer needs a core, too",
        workers=2,
        jobs=50_000,
        npm=("bullmq@6.7.0", "ioredis@5.11.1"),
        has_bulk=True,
    ),
    Peer(
        "Huey",
        "huey_peer",
        ("-m", "huey.bin.huey_consumer", "huey_peer.huey", "-w", "2", "-k", "process", "-n", "-q"),
        "RedisHuey, blocking pop, 2 worker processes, no periodic tasks",
        jobs=50_000,
        requires=("huey==3.5.4", "redis==8.1.0", "hiredis==3.5.0"),
    ),
    Peer(
        "Dramatiq",
        "dramatiq_peer",
        ("-m", "dramatiq", "dramatiq_peer", "--processes", "2", "--threads", "4"),
        "2 processes of 4 threads, prefetch 1,000",
        requires=("dramatiq[redis]==2.2.1", "hiredis==3.5.0"),
        environ={"dramatiq_queue_prefetch": "1000"},
    ),
    Peer(
        "Taskiq",
        "taskiq_peer",
        ("-m", "taskiq", "worker", "taskiq_peer:broker", "--workers", "2", "--max-async-tasks", "100",
         "--max-prefetch", "100", "--no-parse", "--log-level", "ERROR"),
        "ListQueueBroker (no acknowledgement), 2 processes, uvloop, 50 calls in flight",
        requires=("taskiq==0.13.0", "taskiq-redis==1.2.4", "hiredis==3.5.0", "uvloop==0.23.0"),
    ),
    Peer(
        "arq",
        "arq_peer",
        ("-m", "arq", "arq_peer.WorkerSettings"),
        "2 processes of 100 jobs at once, uvloop, 50 calls in flight",
        workers=2,
        jobs=8_000,
        singles=3_000,
        requires=("arq==0.28.0", "hiredis==3.5.0", "uvloop==0.23.0"),
    ),
    Peer(
        "Celery",
        "celery_peer",
        ("-m", "celery", "-A", "celery_peer", "worker", "-P", "solo", "-l", "ERROR",
         "--without-gossip", "--without-mingle", "--without-heartbeat"),
        "2 workers with the solo pool (prefork costs half as much again), prefetch multiplier 128, no gossip, events",
        workers=2,
        jobs=8_000,
        singles=3_000,
        requires=("celery[redis]==5.7.0",),
    ),
    Peer(
        "RQ",
        "rq_peer",
        ("-m", "rq.cli", "worker", "--url", "{url}", "-w", "rq.SimpleWorker", "--quiet"),
        "enqueue_many of 1,000; 2 SimpleWorkers (no fork for each job)",
        workers=2,
        jobs=5_000,
        singles=2_000,
        requires=("rq==2.12.0", "hiredis==3.5.0"),
        has_bulk=True,
    ),
    Peer(
        "beanstalkd",
        "beanstalkd_peer",
        ("-m", "beanstalkd_peer"),
        "bare protocol: puts 1,000 at a time, then reserve+delete in 2 processes; runs nothing",
        workers=2,
        jobs=50_000,
        singles=10_000,
        server=BEANSTALKD,
        has_bulk=True,
        syncs="nothing (in memory)",
    ),
    Peer(
        "beanstalkd -f0",
        "beanstalkd_peer",
        ("-m", "beanstalkd_peer"),
        "as above, with its log synced at every write",
        workers=2,
        jobs=20_000,
        singles=5_000,
        server=f"{BEANSTALKD} -f0",
        has_bulk=True,
        syncs="every put and delete",
    ),
)  # fmt: skip
