"""What daemons tell each other: bounded, sealed, gathered, and harmless whoever sends it."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.loops.job_mark import mark_of
from functory.peers import news as limits
from functory.peers.address import numeric, own_address
from functory.peers.announcer import Announcer
from functory.peers.channel import READ_AT_ONCE, Channel, Envelope
from functory.peers.news import ALL, DATAGRAM_BYTES, Look, News
from functory.setting_values import Address, wake_address
from functory.supervision.processes import OwnPorts, own_arguments
from store.base import Job, Unclaim
from vocabulary.names import JOBTYPE, TENANT

# News


def heard(datagrams: list[bytes]) -> News:
    news = News()
    for each in datagrams:
        news.hear(each)
    return news


def content(news: News) -> tuple[object, ...]:
    return news.look, news.changed, news.added, news.cancelled, news.ended, news.freed, news.left


@given(
    st.integers(0, 63),
    st.sets(st.from_regex(TENANT, fullmatch=True), max_size=limits.MOST_TENANTS),
    st.sets(st.from_regex(JOBTYPE, fullmatch=True), max_size=limits.MOST_TYPES),
    st.sets(st.integers(0, 2**32 - 1), max_size=700),
)
def test_what_is_told_is_heard(look: int, tenants: set[str], types: set[str], marks: set[int]) -> None:
    told = News()
    told.look, told.changed, told.added, told.ended = Look(look), tenants, types, marks
    told.freed = {mark ^ 1 for mark in marks}
    told.left = set(zip(tenants, marks, strict=False))
    datagrams = list(told.datagrams())
    assert all(len(each) <= DATAGRAM_BYTES for each in datagrams)
    assert content(heard(datagrams)) == content(told)


@given(st.binary(max_size=2000))
def test_any_bytes_can_be_heard(datagram: bytes) -> None:
    news = heard([datagram, b"\x01" + datagram])
    assert len(news.added) <= limits.MOST_TYPES
    assert len(news.ended) <= limits.MOST_MARKS
    assert len(news.left) <= limits.MOST_WORKERS


def test_too_many_to_name_are_all() -> None:
    news = News()
    news.note_added(f"acme-t{number}" for number in range(limits.MOST_TYPES + 1))
    for number in range(limits.MOST_TENANTS + 1):
        news.note_changed(f"t{number}")
    for _ in range(3):
        news.note_ended(f"j{number}" for number in range(limits.MOST_MARKS))
    assert (news.look, news.added, news.changed) == (Look.JOBS, set(), {ALL})
    assert len(news.ended) <= limits.MOST_MARKS


def test_a_flood_of_marks_is_bounded_where_it_is_heard() -> None:
    told = News()
    told.ended = set(range(3 * limits.MOST_MARKS))
    told.left = {("acme", mark) for mark in range(3 * limits.MOST_WORKERS)}
    news = heard(list(told.datagrams()))
    assert (len(news.ended), len(news.left)) == (limits.MOST_MARKS, limits.MOST_WORKERS)


# Channel


@pytest.fixture
async def channel() -> AsyncIterator[tuple[Channel, list[News], asyncio.Event]]:
    calls: list[News] = []
    called = asyncio.Event()

    def listen(news: News) -> None:
        calls.append(news)
        called.set()

    channel = Channel()
    channel.open(Address("127.0.0.1", 0), listen)
    yield channel, calls, called
    channel.close()
    channel.close()


def send_all(channel: Channel, datagrams: list[bytes]) -> None:
    assert channel.address is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for each in datagrams:
            sender.sendto(each, channel.address)


async def test_many_datagrams_are_heard_together(channel: tuple[Channel, list[News], asyncio.Event]) -> None:
    receiver, calls, called = channel
    envelope = Envelope(receiver.key)
    told = [News() for _ in range(20)]
    for number, news in enumerate(told):
        news.note_added((f"acme-t{number}",))
    send_all(receiver, [envelope.seal(each) for news in told for each in news.datagrams()])
    await called.wait()
    assert [call.added for call in calls] == [{f"acme-t{number}" for number in range(20)}]
    assert receiver.heard == 20


async def test_what_is_not_sealed_for_it_is_refused(channel: tuple[Channel, list[News], asyncio.Event]) -> None:
    receiver, calls, called = channel
    news = News()
    news.look = Look.JOBS
    (text,) = news.datagrams()
    sealed = Envelope(receiver.key).seal(text)
    forged = [text, Envelope(os.urandom(32)).seal(text), sealed[:-1], b"", sealed[:5], sealed + b"x" * 3000]
    forged.append(sealed[:20] + bytes((sealed[20] ^ 1,)) + sealed[21:])
    send_all(receiver, [*forged, sealed])
    await called.wait()
    assert (len(calls), receiver.heard, receiver.refused) == (1, 1, len(forged))


async def test_a_flood_is_read_in_bounded_steps(channel: tuple[Channel, list[News], asyncio.Event]) -> None:
    receiver, calls, _ = channel
    send_all(receiver, [b"x" * 100] * (3 * READ_AT_ONCE))
    receiver._read()
    assert receiver.refused == READ_AT_ONCE
    assert not calls


def test_no_nonce_is_used_twice() -> None:
    envelope = Envelope(os.urandom(32))
    assert len({envelope.seal(b"the same")[:12] for _ in range(100)}) == 100


async def test_nobody_there_is_no_error(channel: tuple[Channel, list[News], asyncio.Event]) -> None:
    receiver, _, _ = channel
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        port = gone.getsockname()[1]
    for to in (Address("127.0.0.1", port), Address("::1", port)):
        for _ in range(3):  # the second learns that the first was refused
            receiver.send(to, b"x")
    receiver._read()
    assert receiver.heard == receiver.refused == 0


# Announcer


class ToldPeers:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.others: dict[str, None] = {"b": None}
        self.told: list[News] = []
        self.sent = asyncio.Event()

    def send(self, news: News) -> None:
        self.told.append(news)
        self.sent.set()

    async def next(self) -> News:
        await self.sent.wait()
        self.sent.clear()
        return self.told[-1]


def announcer(peers: Any, *, is_starting: bool = False, is_clear: Callable[[str], bool] = lambda _: False) -> Announcer:
    return Announcer(peers, lambda: is_starting, is_clear)


async def test_what_happens_together_is_told_together() -> None:
    peers = ToldPeers()
    tells = announcer(peers)
    for number in range(1000):
        tells.added((f"acme-t{number % 3}",))
        tells.cancelled(f"job{number}")
    tells.changed("acme")
    news = await peers.next()
    assert news.added == {"acme-t0", "acme-t1", "acme-t2"}
    assert news.ended == news.cancelled == {mark_of(f"job{number}") for number in range(1000)}
    assert len(peers.told) == 1
    tells.tell(Look.KEYS)
    tells.tell(Look.TENANTS)
    assert (await peers.next()).look == Look.KEYS | Look.TENANTS
    assert len(peers.told) == 2


async def test_with_nobody_to_tell_nothing_is_kept() -> None:
    peers = ToldPeers()
    peers.others.clear()
    tells = announcer(peers)
    tells.added(["acme-x"])
    tells.released([(job(), Unclaim("j", 1), ())])
    tells.cancelled("j")
    tells.changed("acme")
    tells.tell(Look.JOBS)
    assert tells._timer is None
    assert not tells._news
    tells.close()


async def test_what_starts_here_is_not_told() -> None:
    peers = ToldPeers()
    tells = announcer(peers, is_starting=True, is_clear=lambda jobtype: jobtype == "acme-mine")
    tells.added(["acme-mine", "acme-theirs"])
    assert (await peers.next()).added == {"acme-theirs"}


async def test_what_is_given_back_is_told_although_nothing_is_known_to_wait() -> None:
    peers = ToldPeers()
    tells = announcer(peers, is_starting=True, is_clear=lambda _: True)
    tells.released([(job(), Unclaim("j", 1), ())])
    news = await peers.next()
    assert (news.added, news.ended) == ({"acme-x"}, set())


async def test_what_is_left_is_told_at_the_end() -> None:
    peers = ToldPeers()
    tells = announcer(peers, is_starting=True)
    tells.added(["acme-x"])
    tells.close()
    assert [news.added for news in peers.told] == [{"acme-x"}]


def job() -> Job:
    return Job("j", "acme-x", b"", dt_ms=0, lock="", token=1, attempts=1, priority=500, due_ms=0, create_ms=0)


# Addresses


@pytest.mark.parametrize("text", ["", "a.example:80", "10.0.0.7", "10.0.0.7:0", "10.0.0.7:99999", ":5", "[::1]"])
def test_only_numbers_are_an_address_to_send_to(text: str) -> None:
    assert numeric(text) is None


def test_addresses_of_both_kinds() -> None:
    assert numeric("10.0.0.7:8486") == Address("10.0.0.7", 8486)
    assert numeric("[::1]:8486") == Address("::1", 8486)


@pytest.mark.parametrize(
    "url", ["sqlite:///x.db", "mongodb://127.0.0.1:27017/x", "mongodb://user:p%40ss@127.0.0.1,10.1.2.3:5/x?y=z"]
)
async def test_on_one_machine_it_is_loopback(url: str) -> None:
    assert await own_address(Address("", 5), url) == Address("127.0.0.1", 5)


async def test_an_address_that_is_given_is_taken() -> None:
    assert await own_address(Address("127.0.0.7", 5), "mongodb://10.1.2.3/x") == Address("127.0.0.7", 5)


def test_the_setting() -> None:
    assert wake_address("off") is None
    assert wake_address("auto") == Address("", 0)
    assert wake_address(":8486") == wake_address("[]:8486") == Address("", 8486)
    assert wake_address("[fd00::7]:8486") == Address("fd00::7", 8486)
    for wrong in ("on", "8486", "10.0.0.7", "10.0.0.7:x", "0.0.0.0:8486", "[::]:8486", ":99999"):
        with pytest.raises(ValueError, match="other daemons reach"):
            wake_address(wrong)


def test_processes_of_one_machine_do_not_share_the_port() -> None:
    assert own_arguments(2, OwnPorts(wake=8486))[-2:] == ["--wake", "[]:8488"]
    assert "--wake" not in own_arguments(2)
