"""The store: repository of jobs, handlers, results, sysids and tenants. Imports only the vocabulary.

Read in this order:
  base.py       what every back end guarantees; `Store` is all roles of it, and all names that callers need
  protocol/     the roles, verb by verb: queue, jobs, handlers, scoreboard, daemons, tenants, maintenance, transfer
  values/       what crosses the boundary: jobs and outcomes, records, counters, histograms, token buckets
  checked/      the front of every store: checks the arguments of each verb, then hands them to the back end
  names.py      the names and sizes that are accepted; checks.py the arguments of the verbs
  rate_rules.py which limit holds for a rate domain; handler_rules.py which of several saves of a handler wins
  refusals.py   what all back ends refuse alike
  errors.py     the tree of errors
  transfers.py  what all back ends share of moving content to another store
  url.py        `open_store(url)`: the only place that names back ends
  progress_file.py  the progress of consumers that run outside of the service
  sqlite/       the embedded back end; mongo/ the shared one. Both have the same rooms:
                file/ or server/, queue/, records/
docs/store.md explains the model and the layout.
"""
