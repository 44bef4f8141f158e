"""The types of the HTTP interface, declared once. They validate requests, encode answers and make `/openapi.json`, and
the clients return them. Values only.

Times are whole milliseconds UTC and named `..._ms`; durations are seconds and named `..._s`. Bytes that are text are
sent as text, others in base64; the field beside them says which (`Encoding`).

base.py            bounds, texts with their encoding, the error
jobs.py            submitting jobs, looking at them, replaying them
job_limits.py      retries and expiry of a single job
schedules.py       rounds, pauses and next times of jobs that repeat
payloads.py        payloads and results of a Python program
add_options.py     what such a program says of new jobs
server_url.py      the address of a server and the key for it; requests.py what clients send, refusals.py what they
                   make of an error
progress_text.py   what a job says of its progress, as one line
nesting.py         how deeply a value may be nested
untyped_json.py    values of any kind, decoded at a price that their size bounds
workers.py         taking jobs, renewing, reporting
handlers.py        handlers and trial runs
secrets.py         names and versions of secrets; values go in only
scoreboard.py      figures and failures
alerts.py          alert rules
webhooks.py        webhooks, and the answer to a delivery
consumers.py       consumers, their progress and windows
admin.py           the operator's: tenants, keys, daemons, audit
scopes.py          what a key may do; the names of limits
"""
