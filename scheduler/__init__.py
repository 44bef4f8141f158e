"""Pure choice: which tenant, which jobtype, how many, and when again. No I/O; time and dice are passed in.

policy.py       what a policy is told and asked; table.py the policies by name
deficit.py      the default policy; fair_queue.py its queue; dice.py and oldest.py two simpler policies
board.py        what is waiting and running, and under which caps; costs.py how long jobs have been taking
retry.py        when a failed job is tried again; repeat.py when a repeating job is due next, cron.py by the calendar
claim_pause.py  when to claim again what could not be claimed
index_window.py which indexes of a sequence may be worked on, and how far it is done without a gap
values.py       what goes in and out; errors.py what can go wrong
"""

from scheduler.policy import Policy
from scheduler.table import POLICIES, make_policy
from scheduler.values import Candidate, Hold, Pick, SchedulerOptions, TenantTerms

__all__ = [
    "POLICIES",
    "Candidate",
    "Hold",
    "Pick",
    "Policy",
    "SchedulerOptions",
    "TenantTerms",
    "make_policy",
]
