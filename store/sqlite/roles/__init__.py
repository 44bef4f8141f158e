"""The roles of the protocol on SQLite: each verb hands its work to the writer or a reader. `store.checked`
has checked the arguments. The files are those of store/protocol/:

queue.py         add, claim, renew, release, expire
straight.py      jobs that start before the store has them
consumers.py     consumers of numbered types
jobs.py          single jobs, listings, indexed queues, rate domains
handlers.py      handlers and their versions; contents.py pieces of their files
scoreboard.py    counters and buckets; activity.py sums of them for pages
daemons.py       daemons and their sysids; notes.py small values with an end
secrets.py       sealed values of a tenant
alerts.py        alert rules of a tenant
webhooks.py      addresses of a tenant that others post to
tenants.py       tenants, keys, the audit log, values written once
maintenance.py   the whole store, in a thread of its own; transfer.py its content to another store
"""
