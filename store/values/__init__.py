"""The values that cross the store's boundary: plain data, no behaviour that needs a database.

jobs.py         jobs, outcomes, releases, listings, and the reports of the verbs on them;
                job_changes.py what is to be changed of one; schedules.py what is kept of one that repeats;
                claims.py what a claim asks for and takes
positions.py    how far journals were read, and which ids of deleted jobs must stay
making.py       runs that end with the jobs that they made
again.py        what is said a second time: a request under its key, a job under its unique name
repeating.py    the place of a job among those that repeat
records.py      handlers, tenants, keys, daemons, rate domains, audit events
alerts.py       alert rules
webhooks.py     webhooks
consumers.py    consumers: the record of one, who leads it, its window
scoreboard.py   counters, time buckets, groups of failures, usage; histogram.py the histograms in them
transfer.py     the records of an export; version.py the version of a store
"""
