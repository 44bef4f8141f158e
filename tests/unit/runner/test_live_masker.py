"""What is searched for secrets while a job runs goes to its tenant's account. Whoever has used up its share is searched
at next to nothing, and sees nothing that was not searched."""

from collections.abc import Callable

import pytest

from runner.limits import ContextLimits
from runner.live_masker import LiveMasker
from runner.masking import MASK, Masker
from runner.raw_log import RawLog
from runner.search_accounts import SearchAccounts
from tests.support.clocks import FakeClock

NEAR = Masker(["a" * size for size in range(8, 300)])
"""Each place of a row of `a` may be the beginning of any of its forms."""
DEAR = (b"a" * 99 + b"\n") * 250
NEXT_TO_NOTHING = 300


class Noted(SearchAccounts):
    """Notes what each search took."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock.monotonic_s)
        self.taken: list[int] = []

    def take(self, tenant: str, steps: int) -> None:
        self.taken.append(steps)
        super().take(tenant, steps)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def accounts(clock: FakeClock) -> Noted:
    return Noted(clock)


def log_of(accounts: SearchAccounts, tenant: str = "loud", masker: Masker = NEAR) -> RawLog:
    log = RawLog(ContextLimits())
    log.masker = LiveMasker(masker, accounts, tenant)
    return log


def take(log: RawLog) -> object:
    return log.take()


def look(log: RawLog) -> object:
    return log.since(0)


def error(log: RawLog) -> object:
    return log.hide_cut(DEAR[-10_000:])


@pytest.mark.parametrize("act", [take, look, error], ids=lambda act: act.__name__)
def test_each_search_of_a_job_that_runs_goes_to_the_account(accounts: Noted, act: Callable[[RawLog], object]) -> None:
    log = log_of(accounts)
    log._kept += DEAR
    act(log)
    assert sum(accounts.taken) > 1000


def test_whoever_has_used_up_its_share_takes_next_to_nothing_and_sees_a_mask(accounts: Noted, clock: FakeClock) -> None:
    log = log_of(accounts)
    while not accounts.wait_s("loud"):
        log.feed(DEAR)
    log.take()
    accounts.taken.clear()
    for _ in range(5):
        log.feed(DEAR)
        assert log.since(0)[0].strip(MASK + b"\n") == b""
        assert log.take().log.strip(MASK + b"\n") == b""
        assert log.hide_cut(DEAR) == MASK + b"\n"
    assert max(accounts.taken) <= NEXT_TO_NOTHING
    log.feed(b"a plain word\n")
    assert log.take().log == b"a plain word\n", "what costs nothing is shown as ever"
    quiet = log_of(accounts, "quiet")
    quiet.feed(DEAR[:30] + b"\nplain\n")
    assert quiet.take().log.endswith(b"***\nplain\n"), "that is nobody else's"
    clock.advance(20.0)
    log.feed(DEAR[:30] + b"\nplain\n")
    assert log.take().log.endswith(b"***\nplain\n"), "it was paid off"


def test_the_rest_of_a_long_form_is_not_looked_for_without_end(accounts: Noted) -> None:
    """Such looks are dear, although they are no finds."""
    log = log_of(accounts, masker=Masker(["b" * 60_000]))
    accounts.take("loud", 1_000_000)
    accounts.taken.clear()
    assert log.hide_cut(b"c" * 10_000) == MASK
    assert max(accounts.taken) <= NEXT_TO_NOTHING


def test_new_jobs_are_found_in_a_text_of_which_only_the_mask_is_left(accounts: Noted) -> None:
    log = log_of(accounts)
    accounts.take("loud", 1_000_000)
    log.feed(DEAR[:5000] + b"J: mail|to Ada\n" + DEAR[:5000])
    printed = log.take()
    assert printed.log == MASK + b"\n"
    assert [(new.type, new.payload) for new in printed.new_jobs] == [("mail", b"to Ada")]
