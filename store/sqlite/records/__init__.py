"""Everything that is not a job, and the content as a whole.

handlers.py      handlers by type and version
contents.py      pieces of the files of handlers that are folders
secrets.py       sealed values of a tenant
alerts.py        alert rules of a tenant
webhooks.py      addresses of a tenant that others post to
tenants.py       tenants, keys, audit events
once.py          values written once, and jobs that are added with one
consumers.py     consumers, their leaders, moves of their windows
daemons.py       daemons and their sysids
scoreboard.py    counters and buckets; activity.py sums of them for pages
exporting.py     the content to another store; importing.py from another store; import_note.py how far that has come
"""
