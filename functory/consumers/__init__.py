"""Consumers: they work through jobs by index, none skipped, and know how far everything is done without a gap.

roles.py            what a consumer works with: Jobs, Worker, ConsumerProgress
consumer.py         the consumer itself, usable in any asyncio program; scheduler/index_window.py is its arithmetic
led_consumer.py     a consumer of the service: its jobs are a numbered type of the store
blocked_indexes.py  its indexes that did not end well, and when each is tried again
look_pace.py        how often those of a tenant look at their windows
leaders.py          the consumers that this daemon leads, one leader for each among all daemons
pull.py             a source that is asked for its head and for the job at an index
terms.py            settings and notes of a consumer, as the store keeps them

docs/consumers.md explains the model, with examples.
"""

from functory.consumers.consumer import Consumer
from functory.consumers.roles import ConsumerProgress, Job, Jobs, Notified, Worker
from scheduler.index_window import IndexWindow, Span, WindowLimits

__all__ = [
    "Consumer",
    "ConsumerProgress",
    "IndexWindow",
    "Job",
    "Jobs",
    "Notified",
    "Span",
    "WindowLimits",
    "Worker",
]
