"""Jobs that programs elsewhere take, work on and report: the types with `lang: worker` (docs/workers.md).

values.py          what a worker asks for, what it says of a job, and what it is told
external_types.py  which types of a tenant workers serve
held_jobs.py       what workers hold, as far as this daemon knows, with its log and progress; log_tail.py the end of one
elsewhere.py       what became of it at other daemons
claims.py          from a type to jobs in a worker's hands, within caps
taker_line.py      the workers of one tenant that wait, and the types that may have something for them; takers.py one of
                   them, and those with the same patterns
handout.py         the lines of all tenants, and one look at the store for all of them
reports.py         renewals, outcomes and jobs given back, each with a verdict
recent_verdicts.py what was recorded last, for a worker that did not hear it
presence.py        which workers were seen, and when; pace.py how much they do; drains.py which take no more
goodbyes.py        which left, for the daemons that they did not tell
asked_types.py     which workers take a type, and when one last asked for it
unasked.py         which types wait for workers, and how long none has asked for them
worker_queue.py    the front of it all
"""
