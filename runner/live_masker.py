"""Hides secrets in what is read, kept and shown while a job runs: its prints, its progress, the errors of its hooks.

All that happens on the event loop, and how often is up to the tenant: its jobs print as they end, and it looks at them.
So each search goes to its account (search_accounts.py). Ensures: a tenant that has used up its share goes on at next to
nothing a search. Of a text that would take more only the mask is left, so nothing is shown that was not searched.
"""

from typing import Final

from runner.form_tree import Budget
from runner.masking import Hider, Masker
from runner.search_accounts import SearchAccounts

_FEW_STEPS: Final = 256
"""Less than a tenth of a millisecond."""


class LiveMasker(Hider):
    def __init__(self, masker: Masker, searches: SearchAccounts, tenant: str) -> None:
        self.longest = masker.longest
        self._masker = masker
        self._searches = searches
        self._tenant = tenant

    def _search(self, data: bytes, *, cut_begin: bool, cut_end: bool) -> bytes:
        budget = Budget(len(data), _FEW_STEPS if self._searches.wait_s(self._tenant) else None)
        try:
            return self._masker.hide_within(budget, data, cut_begin=cut_begin, cut_end=cut_end)
        finally:
            self._searches.take(self._tenant, budget.taken())
