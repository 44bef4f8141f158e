"""The store: repository of jobs, handlers, results, sysids and tenants. Imports nothing of ours.

Read in this order:
  base.py       what every back end guarantees; `Store` is all roles of it, and all names that callers need
  protocol/     the roles, verb by verb: queue, jobs, handlers, scoreboard, daemons, tenants, care, transfer
  values/       what crosses the boundary: jobs and outcomes, records, counters, histograms, token buckets
  names.py      the names and sizes that are accepted; checks.py the arguments of the verbs
  errors.py     the tree of errors
  transfers.py  what all back ends share of moving content to another store
  url.py        `open_store(url)`: the only place that names back ends
  sqlite/       the embedded back end
docs/store.md explains the model and the layout.
"""
