"""Celery, results off. It has no bulk call; keeping one producer saves taking one from the pool for each call."""

from celery import Celery
from counting import PAYLOAD, URL, order, ran, timed

app = Celery("celery_peer", broker=URL)
app.conf.update(
    task_ignore_result=True,
    task_store_errors_even_if_ignored=False,
    worker_prefetch_multiplier=128,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task
def noop(_payload: str) -> None:
    ran()


def main() -> None:
    _, count = order()
    with app.producer_pool.acquire(block=True) as producer, timed():
        for _ in range(count):
            noop.apply_async((PAYLOAD,), producer=producer)
