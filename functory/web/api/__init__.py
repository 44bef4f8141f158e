"""The routes of the JSON interface, one file per area, in the order in which they are matched.

add.py        add jobs; submission.py from a body to jobs, idempotency_key.py once
jobs.py       look at jobs and act on one; rendering.py from jobs to answers, large_job.py in pieces
waiting.py    wait for many jobs at once
secrets.py    set secrets, list their names, delete
alerts.py     alert rules: set, list, delete, mute, test
webhooks.py   webhooks: set, list, delete; deliveries.py what others post to them, incoming.py what is noted of it
workers.py    take jobs, renew, report, give back
logs.py       the log of a job, as it is or followed
legacy.py     paths of the systems that came before
handlers.py   register and try handlers; handler_fields.py a handler as JSON
results.py    lists, scoreboard, failures, limits
schedules.py  list, pause and resume jobs that repeat; the next times of a pattern
control.py    pauses and rates of a tenant's own types
consumers.py  work through the jobs of a type by number
admin.py      the operator's
meta.py       health, metrics, openapi.py and docs_page.py
"""
