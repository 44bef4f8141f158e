"""What the proxy of contexts costs: a connection and a stream through it, beside the same ones made directly.

python -m bench.parts.proxy [--json] [--rounds N] [--megabytes N]

Client and host are processes of their own; the proxy has this one, as it has the daemon's. Direct and proxied calls
take turns, so that a busy machine is busy for both. The pace that the proxy keeps by default is lifted.
"""

import argparse
import asyncio
import ipaddress
import multiprocessing
import socket
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any, Final

from bench.tools.report import Report, parse_arguments, quantile
from functory.egress.meters import EgressLimits
from functory.egress.proxy import EgressProxy
from handlers.hosts import ANY_HOST, parse_pattern
from runner.resolver import Resolver
from runner.targets import Targets

_HOST: Final = "127.0.0.2"
_PIECE: Final = bytes(256 * 1024)
_WARM_UP: Final = 20


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parts.proxy", description=__doc__)
    parser.add_argument("--rounds", type=int, default=500, help="connections of each kind")
    parser.add_argument("--megabytes", type=int, default=512, help="size of a stream")
    arguments = parse_arguments(parser, None)
    report = Report("proxy", as_json=arguments.json)
    connections, streams = asyncio.run(measure(arguments.rounds, arguments.megabytes))
    report.table("a connection: connect, a byte there and a byte back, close", connections)
    report.table(f"a stream of {arguments.megabytes} MB to the client", streams)
    report.finish()


async def measure(rounds: int, megabytes: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    loop = asyncio.get_running_loop()
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=serve, args=(theirs, megabytes), daemon=True)
    server.start()
    port = await loop.run_in_executor(None, ours.recv)
    free = EgressLimits(connections_per_s=1e9, bytes_per_s=1e12, tenant_bytes_per_s=1e12)
    proxy = EgressProxy(Resolver(Targets((ANY_HOST,), (ipaddress.ip_network(_HOST),))), free)
    listener = socket.create_server(("127.0.0.1", 0))
    proxy_port = listener.getsockname()[1]
    proxy.open(listener, "bench", [parse_pattern(f"{_HOST}:{port}")])
    client = spawn.Process(target=call, args=(theirs, port, proxy_port, rounds), daemon=True)
    client.start()
    try:
        return await loop.run_in_executor(None, ours.recv)
    finally:
        await proxy.close()
        for process in (client, server):
            process.terminate()


def serve(pipe: Connection, megabytes: int) -> None:
    """Answers a byte with a byte, and an S with a stream."""
    listener = socket.create_server((_HOST, 0))
    pipe.send(listener.getsockname()[1])
    while True:
        visitor, _ = listener.accept()
        visitor.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with visitor:
            if visitor.recv(1) == b"S":
                for _ in range(megabytes * 4):
                    visitor.sendall(_PIECE)
            else:
                visitor.sendall(b"x")


def call(pipe: Connection, port: int, proxy_port: int, rounds: int) -> None:
    ways = {"direct": (port, 0), "through the proxy": (proxy_port, port)}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + _WARM_UP):
        for name, (to, target) in ways.items():
            began = time.perf_counter()
            with connected(to, target) as made:
                made.sendall(b"x")
                made.recv(1)
            times[name].append(time.perf_counter() - began)
    kept = {name: sorted(each[_WARM_UP:]) for name, each in times.items()}
    medians = {name: statistics.median(each) * 1000 for name, each in kept.items()}
    connections = [
        {
            "way": name,
            "median ms": round(medians[name], 3),
            "p99 ms": round(quantile(each, 0.99) * 1000, 3),
            "more than direct ms": round(medians[name] - medians["direct"], 3),
        }
        for name, each in kept.items()
    ]
    streams = [{"way": name, "MB/s": round(stream(to, target))} for name, (to, target) in ways.items()]
    pipe.send((connections, streams))


def connected(to: int, target: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1" if target else _HOST, to))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if target:
        made.sendall(f"CONNECT {_HOST}:{target} HTTP/1.1\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += made.recv(1000)
        if not head.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(head.decode())
    return made


def stream(to: int, target: int) -> float:
    """Megabytes a second."""
    buffer = bytearray(1 << 20)
    got = 0
    began = time.perf_counter()
    with connected(to, target) as made:
        made.sendall(b"S")
        while count := made.recv_into(buffer):
            got += count
    return got / 1e6 / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
