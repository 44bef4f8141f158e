"""Huey on Redis, a plain list with a blocking pop, results off. It has no bulk call."""

from counting import PAYLOAD, URL, order, ran, timed
from huey import RedisHuey

huey = RedisHuey("bench", url=URL, results=False)


@huey.task(name="noop")
def noop(_payload: str) -> None:
    ran()


def main() -> None:
    _, count = order()
    with timed():
        for _ in range(count):
            noop(PAYLOAD)
