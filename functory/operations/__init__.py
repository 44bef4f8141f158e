"""What can be asked of Functory, one file per area: typed values in and out, over store, journal and the daemon.

No HTTP in here and no rendering: the web layer, the command line and tests call the same functions, and the web reaches
the store in no other way. Every function that acts for a tenant takes the `Principal` (or the tenant's name) that
authentication found; no tenant's name is ever taken from a request's content.

    service.py         what operations work with; protocols.py what they ask of the daemon
    keyring.py         from the text of a key to who asks (principal.py); verified_keys.py its cache
    sessions.py        from a cookie to who asks
    job_settings.py    what a caller says of a job, in the words of the queue
    submit.py          jobs in, ids out; create.py jobs of several types, all or none;
                       idempotency.py requests that are repeated under a key
    jobs.py            look at jobs, cancel; job_changes.py update, retry, delete; why.py why one is not running
    schedules.py       list, pause and resume jobs that repeat; the next times of a pattern
    numbered.py        jobs by number; unseen.py those that the store does not have;
                       run_message.py what is told of the last run in a line
    job_log.py         the log of a job, also while it runs, and its progress
    bulk.py            cancel and delete many jobs by a filter; type_patterns.py types by pattern;
                       finding.py jobs by unique name, key and failure; searching.py by what is in them
    workers.py         programs elsewhere that take jobs, renew them, report them and give them back;
                       worker_families.py the children of what they take; unasked.py types for which none asks
    replay.py          ended jobs again; replay_runs.py such runs that can be watched; ages.py how long ago jobs ended
    handlers.py        register, list, roll back, delete, invoke; folders.py those that are folders;
                       packages.py, hosts.py what they need
    consumers.py       consumers: create, look at, start, stop, check, delete;
                       recent_consumers.py all of them, as they were a moment ago
    secrets.py         set, list by name, delete
    alerts.py          alert rules: set, list, delete, mute, test; alert_looks.py whether they hold, and who is told;
                       alert_figures.py the figures for that
    webhooks.py        webhooks: set, list, delete, and what is posted to them; known_webhooks.py those seen lately
    type_controls.py   pauses of types, rate domains, how far an indexed queue has come
    scoreboard.py      a tenant's board; figures.py what pages and metrics show;
                       tenant_metrics.py what a tenant's own Prometheus reads; recent_waiting.py what waits, shared
    allowance.py       what a tenant has of what it may have
    tenants.py, keys.py, daemons.py, audit.py    the operator's
"""
