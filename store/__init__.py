"""The store: repository of jobs, handlers, results, sysids and tenants. Imports only the vocabulary.

Read in this order:
  base.py       what every back end guarantees; `Store` is all roles of it, and all names that callers need
  protocol/     the roles, verb by verb: queue, straight, jobs, consumers, handlers, contents, scoreboard, activity,
                daemons, tenants, secrets, notes, maintenance, transfer
  values/       what crosses the boundary: jobs and outcomes, records, counters, histograms
  checked/      the front of every store: checks the arguments of each verb, then hands them to the back end
  names.py      the names and sizes that are accepted; checks.py the arguments of the verbs
  rate_rules.py which limit holds for a rate domain; handler_rules.py which of several saves of a handler wins;
                claim_rules.py what all back ends agree on when jobs are claimed and end
  refusals.py   what all back ends refuse alike
  errors.py     the tree of errors
  transfers.py  what all back ends share of moving content to another store
  url.py        `open_store(url)`: the only place that names back ends
  progress_file.py  the progress of consumers that run outside of the service
  sqlite/       the embedded back end; mongo/ the shared one. Both have the same rooms:
                file/ or server/, queue/, records/; in sqlite/ also roles/, the verbs of the protocol
docs/store.md explains the model and the layout.
"""
