"""RQ: `enqueue_many` in bulk, results not kept."""

from counting import PAYLOAD, URL, chunks, order, ran, timed
from redis import Redis
from rq import Queue


def noop(_payload: str) -> None:
    ran()


def main() -> None:
    kind, count = order()
    connection = Redis.from_url(URL)
    connection.ping()
    queue = Queue(connection=connection)
    with timed():
        if kind == "bulk":
            for size in chunks(count):
                queue.enqueue_many([Queue.prepare_data(noop, (PAYLOAD,), result_ttl=0) for _ in range(size)])
        else:
            for _ in range(count):
                queue.enqueue(noop, PAYLOAD, result_ttl=0)
