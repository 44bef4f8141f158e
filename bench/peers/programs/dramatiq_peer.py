"""Dramatiq on Redis. It has no bulk call. The middleware that only watches (Prometheus) is off by default."""

import dramatiq
from counting import PAYLOAD, URL, order, ran, timed
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(url=URL)
dramatiq.set_broker(broker)


@dramatiq.actor
def noop(_payload: str) -> None:
    ran()


def main() -> None:
    _, count = order()
    with timed():
        for _ in range(count):
            noop.send(PAYLOAD)
