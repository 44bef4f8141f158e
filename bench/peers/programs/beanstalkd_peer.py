"""beanstalkd through plain sockets: nothing but the server's own protocol. As a program of its own it is a worker.

In bulk, a thousand puts are written before the answers are read, which the protocol allows.
"""

import socket
from typing import BinaryIO

from counting import PAYLOAD, URL, chunks, order, ran, timed

PUT = f"put 0 0 60 {len(PAYLOAD)}\r\n{PAYLOAD}\r\n".encode()


def connect() -> tuple[socket.socket, BinaryIO]:
    host, _, port = URL.rpartition("/")[2].partition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection, connection.makefile("rb")


def work() -> None:
    connection, answers = connect()
    while True:
        connection.sendall(b"reserve\r\n")
        _, job, size = answers.readline().split()
        answers.read(int(size) + 2)
        ran()
        connection.sendall(b"delete " + job + b"\r\n")
        if not answers.readline().startswith(b"DELETED"):
            raise RuntimeError("not deleted")


def main() -> None:
    kind, count = order()
    connection, answers = connect()
    with timed():
        for size in chunks(count) if kind == "bulk" else (1 for _ in range(count)):
            connection.sendall(PUT * size)
            for _ in range(size):
                if not answers.readline().startswith(b"INSERTED"):
                    raise RuntimeError("not inserted")


if __name__ == "__main__":
    work()
