"""The store's protocol in its roles. `store.base.Store` is all of them; see there for what holds for all verbs.

queue.py        add, claim, renew, release, expire: what daemons do all day, in batches
straight.py     jobs that start before the store has them
consumers.py    consumers of numbered types: records, leaders, windows
jobs.py         single jobs of a tenant, indexed queues, rate domains
handlers.py     handlers and their versions
contents.py     pieces of the files of handlers that are folders
scoreboard.py   counters and buckets; activity.py sums of them for pages
daemons.py      daemons and their sysids; notes.py small values with an end
secrets.py      sealed values of a tenant
alerts.py       alert rules of a tenant
webhooks.py     addresses of a tenant that others post to
tenants.py      tenants, keys, the audit log, values written once
maintenance.py  version, copy and check of the whole store; transfer.py its content to another store
"""
