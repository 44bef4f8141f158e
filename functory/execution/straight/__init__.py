"""Jobs that start before the store has them (docs/decisions/0020-the-straight-way.md).

way.py          takes them, starts them, and is told of their ends
waiting_jobs.py those that wait for the scheduler's pick
reader_pause.py when the journal's reader brings no more of them
type_gates.py   whether those of a type may start
followers.py    those that wait to start so until others are taken up
gathering.py    those that come quickly, one by one, start together
jobs.py         how they are shown
showing.py      those that take long
ends.py         those whose end is on its way to the store
arrivals.py     how they enter the store, and which do not
recent_ends.py  those that ended a moment ago
"""
