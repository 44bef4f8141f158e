"""The resolver: names that hang hold up neither other tenants nor the end, and no answer tells what is inside."""

import asyncio
import ipaddress
import re
import socket
import threading

import pytest

from handlers.hosts import parse_patterns
from runner.errors import TargetRefusedError
from runner.resolver import Resolver
from runner.targets import Targets

PUBLIC = "93.184.216.34"


async def test_a_tenant_whose_names_hang_waits_for_itself() -> None:
    go, started = threading.Event(), threading.Semaphore(0)

    def look_up(host: str, _port: int) -> list[str]:
        if host.startswith("slow"):
            started.release()
            go.wait(60)
        return [PUBLIC]

    resolver = Resolver(Targets(), look_up, threads=3, per_tenant=2)
    slow = [asyncio.create_task(resolver.resolve("a", f"slow{n}.example", 443)) for n in range(5)]
    for _ in range(2):
        assert await asyncio.to_thread(started.acquire, True, 20)
    assert await resolver.resolve("b", "quick.example", 443) == [PUBLIC]
    assert not started.acquire(blocking=False)  # two at a time, however many are wanted
    go.set()
    assert await asyncio.gather(*slow) == [[PUBLIC]] * 5


async def test_a_name_that_takes_too_long_is_given_up_and_its_thread_still_counts() -> None:
    go = threading.Event()

    def look_up(_host: str, _port: int) -> list[str]:
        go.wait(60)
        return [PUBLIC]

    resolver = Resolver(Targets(), look_up, threads=1, per_tenant=1, within_s=0.02)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await resolver.resolve("a", "slow.example", 443)
    go.set()
    patient = Resolver(Targets(), look_up, threads=1, per_tenant=1)
    assert await patient.resolve("a", "slow.example", 443) == [PUBLIC]


async def test_a_machine_without_threads_is_an_error_and_costs_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = Resolver(Targets(), lambda _host, _port: [PUBLIC], threads=1, per_tenant=1)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(2):
            with pytest.raises(OSError, match="thread"):
                await resolver.resolve("a", "x.example", 443)
    assert await resolver.resolve("a", "x.example", 443) == [PUBLIC]


async def test_a_cancelled_question_gives_its_place_back() -> None:
    go = threading.Event()

    def look_up(_host: str, _port: int) -> list[str]:
        go.wait(60)
        return [PUBLIC]

    resolver = Resolver(Targets(), look_up, threads=1, per_tenant=1)
    tasks = [asyncio.create_task(resolver.resolve("a", "x.example", 443)) for _ in range(3)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    go.set()
    assert await resolver.resolve("a", "x.example", 443) == [PUBLIC]


@pytest.mark.parametrize(
    ("hosts", "networks", "host", "addresses", "passes"),
    [
        ("*", "", "a.example", [PUBLIC], True),
        ("*", "", "a.example", [PUBLIC, "10.0.0.1"], False),
        ("*", "", "a.example", ["::ffff:10.0.0.1"], False),
        ("*", "10.0.0.0/8", "a.example", ["10.0.0.1"], True),
        ("b.example", "", "a.example", [PUBLIC], False),
        ("b.example", "10.0.0.0/8", "a.example", [PUBLIC], False),
        ("b.example", "10.0.0.0/8", "a.example", ["10.0.0.1"], True),
        ("", "10.0.0.0/8", "a.example", ["10.0.0.1", "192.168.0.1"], False),
    ],
)
async def test_every_address_must_be_allowed(
    hosts: str, networks: str, host: str, addresses: list[str], passes: bool
) -> None:
    targets = Targets(parse_patterns(hosts), tuple(map(ipaddress.ip_network, networks.split())))
    resolver = Resolver(targets, lambda _host, _port: addresses)
    if passes:
        assert await resolver.resolve("a", host, 443) == addresses
    else:
        with pytest.raises(TargetRefusedError):
            await resolver.resolve("a", host, 443)


@pytest.mark.parametrize("hosts", ["*", "b.example"])
async def test_a_name_that_is_unknown_and_one_that_is_inside_read_the_same(hosts: str) -> None:
    def look_up(host: str, _port: int) -> list[str]:
        if host == "unknown.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ["10.20.30.40"]

    targets = Targets(parse_patterns(hosts), (ipaddress.ip_network("192.168.0.0/16"),))
    said = []
    for name in ("unknown.example", "inside.example"):
        with pytest.raises(TargetRefusedError) as caught:
            await Resolver(targets, look_up).resolve("a", name, 443)
        said.append(str(caught.value).replace(name, "it"))
    assert said[0] == said[1]
    assert "10.20.30.40" not in said[0]


@pytest.mark.parametrize(
    ("hosts", "host", "port", "words"),
    [
        ("*", "a.example", 9000, "does not allow port 9000 of a.example (`hosts_allowed`; without a port in it: 80"),
        (
            "b.example",
            "a.example",
            443,
            "not among the hosts that the operator of this service allows (`hosts_allowed`)",
        ),
        ("*", "127.0.0.1", 9000, "127.0.0.1:9000 is loopback, private, link-local or reserved"),
        ("*", "127.0.0.1", 9000, "(`http_allowed`)"),
        ("*:*", "127.0.0.1", 9000, "(`http_allowed`)"),
        ("*:*", "inside.example", 9000, "(`http_allowed`)"),
    ],
)
@pytest.mark.parametrize("networks", ["", "192.168.0.0/16"])
async def test_a_refusal_names_what_is_in_the_way(hosts: str, host: str, port: int, words: str, networks: str) -> None:
    targets = Targets(parse_patterns(hosts), tuple(map(ipaddress.ip_network, networks.split())))
    with pytest.raises(TargetRefusedError, match=re.escape(words)):
        await Resolver(targets, lambda host, _port: [host if host == "127.0.0.1" else "10.0.0.1"]).resolve(
            "a", host, port
        )
