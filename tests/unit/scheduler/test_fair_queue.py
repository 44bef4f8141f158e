"""The queue of rivals: shares by weight, no credit for absence, lanes."""

from collections import Counter

from scheduler.fair_queue import FairQueue, Rival


def serve(queue: FairQueue, rival: Rival, cost_s: float) -> None:
    lane = rival.lane
    assert lane is not None
    queue.serve(rival, cost_s)
    queue.enter(rival, lane)


def serve_first(queue: FairQueue, costs_s: dict[str, float], last_lane: int = 0) -> str:
    rival = queue.first(last_lane)
    assert rival is not None
    serve(queue, rival, costs_s[rival.name])
    return rival.name


def test_equal_rivals_take_turns() -> None:
    queue = FairQueue(1, 0.0)
    for name in "abc":
        queue.enter(queue.rival(name), 0)
    assert [serve_first(queue, dict.fromkeys("abc", 1.0)) for _ in range(6)] == ["a", "b", "c", "a", "b", "c"]


def test_service_is_shared_by_weight_and_not_by_count() -> None:
    queue = FairQueue(1, 0.0)
    queue.enter(queue.rival("light", 1.0), 0)
    queue.enter(queue.rival("heavy", 3.0), 0)
    costs_s = {"light": 0.5, "heavy": 0.1}
    served: Counter[str] = Counter(serve_first(queue, costs_s) for _ in range(1600))
    assert served["heavy"] * 0.1 / (served["light"] * 0.5) == 3.0


def test_who_was_away_gets_the_burst_and_no_more() -> None:
    queue = FairQueue(1, 0.5)
    idle, busy = queue.rival("idle"), queue.rival("busy")
    queue.enter(busy, 0)
    for _ in range(1000):
        serve_first(queue, {"busy": 1.0})
    queue.enter(idle, 0)
    costs_s = {"busy": 0.1, "idle": 0.1}
    first = [serve_first(queue, costs_s) for _ in range(40)]
    assert first.count("idle") - first.count("busy") <= (1.0 + 0.5) / 0.1 + 1, "a job's length and the burst"
    then = [serve_first(queue, costs_s) for _ in range(40)]
    assert abs(then.count("idle") - then.count("busy")) <= 1


def test_use_of_idle_service_is_no_debt() -> None:
    queue = FairQueue(1, 0.0)
    early = queue.rival("early")
    queue.enter(early, 0)
    for _ in range(1000):
        serve_first(queue, {"early": 1.0})
    queue.enter(queue.rival("late"), 0)
    served = [serve_first(queue, {"early": 1.0, "late": 1.0}) for _ in range(10)]
    assert served.count("early") >= 4


def test_leaving_does_not_wipe_a_debt() -> None:
    queue = FairQueue(1, 0.1)
    for name in ("glutton", "other"):
        queue.enter(queue.rival(name), 0)
    serve(queue, queue.rival("glutton"), 60.0)
    queue.leave(queue.rival("glutton"))
    queue.forget_settled(but=())
    queue.enter(queue.rival("glutton"), 0)
    assert [serve_first(queue, {"other": 1.0, "glutton": 1.0}) for _ in range(50)] == ["other"] * 50


def test_settled_rivals_are_forgotten() -> None:
    queue = FairQueue(1, 0.0)
    queue.enter(queue.rival("busy"), 0)
    for n in range(100):
        rival = queue.rival(f"once{n}")
        queue.enter(rival, 0)
        queue.serve(rival, 0.1)
        queue.leave(rival)
    for _ in range(100):
        serve_first(queue, {"busy": 1.0})
    queue.forget_settled(but=["once7"])
    assert len(queue) == 2


def test_a_charge_can_be_corrected_both_ways() -> None:
    queue = FairQueue(1, 0.0)
    for name in "ab":
        queue.enter(queue.rival(name), 0)
    a = queue.rival("a")
    serve(queue, a, 10.0)
    queue.correct(a, -9.5)
    queue.enter(a, 0)
    assert [serve_first(queue, {"a": 1.0, "b": 1.0}) for _ in range(3)] == ["b", "a", "b"]


def test_lanes_limit_who_is_first() -> None:
    queue = FairQueue(3, 0.0)
    queue.enter(queue.rival("slow"), 2)
    assert queue.first(1) is None
    assert queue.lowest_lane() == 2
    queue.enter(queue.rival("quick"), 0)
    assert queue.lowest_lane() == 0
    for _ in range(100):
        assert serve_first(queue, {"quick": 1.0}, last_lane=1) == "quick"
    served = [serve_first(queue, {"quick": 1.0, "slow": 1.0}, last_lane=2) for _ in range(20)]
    assert 9 <= served.count("slow") <= 11, "passed over for long, and no credit banked by it"


def test_leftovers_do_not_pile_up() -> None:
    queue = FairQueue(1, 0.0)
    for name in "abc":
        queue.enter(queue.rival(name), 0)
    for n in range(10_000):
        rival = queue.rival("abc"[n % 3])
        queue.correct(rival, 1.0)
        queue.enter(rival, 0)
    assert len(queue._lanes[0]) < 100


def test_longer_absence_is_no_better_place() -> None:
    queue = FairQueue(1, 0.0)
    queue.rival("long away")
    queue.enter(queue.rival("busy"), 0)
    for _ in range(10):
        serve_first(queue, {"busy": 1.0})
    for name in ("new", "long away"):
        queue.enter(queue.rival(name), 0)
    assert [serve_first(queue, {"new": 1.0, "long away": 1.0}) for _ in range(2)] == ["new", "long away"]


def test_being_passed_over_is_no_better_place_than_a_newcomers() -> None:
    queue = FairQueue(2, 0.0)
    queue.enter(queue.rival("passed over"), 1)
    queue.enter(queue.rival("busy"), 0)
    for _ in range(10):
        serve_first(queue, {"busy": 1.0}, last_lane=0)
    queue.enter(queue.rival("new"), 0)
    first = queue.first(1)
    assert first is not None
    assert first.name == "new", "the lower lane at equal turns"


def test_those_passed_over_keep_their_place() -> None:
    queue = FairQueue(1, burst_s=0.0)
    for name in "abc":
        queue.enter(queue.rival(name), 0)
    first = queue.first(0)
    assert first is not None
    assert [queue.first(0, but={first.name}) is not first for _ in range(2)] == [True, True]
    assert queue.first(0) is first
    assert queue.first(0, but={"a", "b", "c"}) is None
    assert queue.first(0) is first
