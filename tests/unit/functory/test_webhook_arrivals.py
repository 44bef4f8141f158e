"""What is kept of what came to webhooks: little of each, and of all, whatever strangers send."""

from functory.webhooks.arrivals import LAST, OUTCOMES, Arrival, Arrivals, Place

T0 = 1_800_000_000_000
HERE = Place("acme", 1, "github")
GITHUB = "140.82.115.1"
STRANGER = "203.0.113.9"


def arrival(number: int = 0, *, sender: str = GITHUB, delivery: str = "") -> Arrival:
    return Arrival(T0 + number, sender, delivery or f"d{number}", 10)


def test_nothing_came_since_the_daemon_began() -> None:
    assert Arrivals(T0).seen(HERE) == (T0, {}, [], [])


def test_the_last_few_are_there_newest_first_and_all_are_counted() -> None:
    came = Arrivals(T0)
    for number in range(LAST + 5):
        came.take(HERE, arrival(number), "accepted", f"job{number}", is_proved=True)
    came.take(HERE, arrival(99), "repeated", "job3", is_proved=True)
    seen = came.seen(HERE)
    assert seen.counts == {"accepted": LAST + 5, "repeated": 1}
    assert [it.job_id for it in seen.deliveries[:3]] == ["job3", f"job{LAST + 4}", f"job{LAST + 3}"]
    assert len(seen.deliveries) == LAST
    assert came.totals == dict.fromkeys(OUTCOMES, 0) | seen.counts


def test_a_stranger_drives_out_neither_deliveries_nor_the_refusals_of_others() -> None:
    came = Arrivals(T0)
    came.take(HERE, arrival(1), "accepted", "job1", is_proved=True)
    came.refuse(HERE, arrival(2), "signature_wrong")
    for number in range(3, 1000):
        came.refuse(HERE, arrival(number, sender=STRANGER), "signature_wrong")
        came.refuse(HERE, arrival(number, sender=STRANGER), "too_large")
    seen = came.seen(HERE)
    assert [it.job_id for it in seen.deliveries] == ["job1"]
    assert [(it.arrival.sender, it.arrival.delivery, it.reason, it.times) for it in seen.refusals] == [
        (STRANGER, "d999", "too_large", 997),
        (STRANGER, "d999", "signature_wrong", 997),
        (GITHUB, "d2", "signature_wrong", 1),
    ]


def test_strangers_from_everywhere_take_no_more_than_a_few_places() -> None:
    came = Arrivals(T0)
    for number in range(1000):
        came.refuse(HERE, arrival(number, sender=f"s{number}"), "too_slow")
    refusals = came.seen(HERE).refusals
    assert [it.arrival.sender for it in refusals] == [f"s{number}" for number in range(999, 999 - LAST, -1)]
    assert came.seen(HERE).counts == {"too_slow": 1000}


def test_only_so_many_webhooks_are_known_and_what_is_gone_is_not_said_to_be_nothing() -> None:
    came = Arrivals(T0)
    for number in range(1500):
        came.refuse(HERE._replace(name=f"w{number}"), arrival(number), "busy")
        came.take(HERE, arrival(number), "accepted", "job", is_proved=True)
    assert len(came._logs) == 1000
    assert came.seen(HERE).counts == {"accepted": 1500}, "the one that is used stays"
    since_ms, counts, *_ = came.seen(HERE._replace(name="w0"))
    assert (since_ms > T0, counts) == (True, {})
    assert came.seen(HERE).since_ms == T0


def test_a_text_is_kept_in_part_and_can_be_written() -> None:
    came = Arrivals(T0)
    came.refuse(HERE, arrival(delivery="\udcff" + "x" * 10_000), "too_slow")
    (refusal,) = came.seen(HERE).refusals
    assert len(refusal.arrival.delivery.encode()) <= 110


def test_a_line_of_the_log_tells_of_all_refusals_of_a_minute() -> None:
    came = Arrivals(T0)
    assert [came.refuse(HERE, arrival(number), "busy") for number in (0, 1, 59_999, 60_000, 60_001)] == [1, 0, 0, 3, 0]
    assert came.refuse(HERE._replace(name="other"), arrival(60_001), "busy") == 1


def test_who_has_proved_who_it_is_is_known_for_a_while() -> None:
    came = Arrivals(T0)
    came.take(HERE, arrival(), "accepted", "job", is_proved=True)
    came.take(HERE, arrival(sender=STRANGER), "accepted", "job", is_proved=False)
    came.take(HERE, arrival(sender=""), "accepted", "job", is_proved=True)
    came.refuse(HERE, arrival(sender="s"), "too_slow")
    assert [came.has_proved(HERE, it) for it in (GITHUB, STRANGER, "", "s")] == [True, False, False, False]
    assert not came.has_proved(HERE._replace(name="other"), GITHUB)
    for number in range(100):
        came.take(HERE, arrival(sender=f"s{number}"), "accepted", "job", is_proved=True)
    assert [came.has_proved(HERE, it) for it in (GITHUB, "s99")] == [False, True]


def test_an_earlier_tenant_of_the_name_is_another_and_what_was_deleted_is_forgotten() -> None:
    came = Arrivals(T0)
    came.take(HERE, arrival(), "accepted", "job", is_proved=True)
    assert came.seen(HERE._replace(since_ms=2)).counts == {}
    came.forget(HERE)
    came.forget(HERE)
    assert came.seen(HERE) == (T0, {}, [], [])
