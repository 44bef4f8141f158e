"""The words that all parts share. The ground floor: it imports nothing of ours, and everyone may import it.

names.py       tenants, types and jobtypes, sysids and job ids: the one grammar of each
glob.py        patterns of names
new_job.py     a job that a job makes
origin.py      which job another one follows
job_limits.py  what a job says of its own retries and expiry
unavailable.py what may do better later
states.py      why a job stopped, and the states that it can be in
clock.py       the wall clock and a monotonic one; tests bring their own
time_text.py   times as text, and back
zones.py       time zones
sizes.py       units of sizes
signed_messages.py   messages that are signed as Standard Webhooks says
terminal_codes.py   what programs colour their output with, taken out of a text
token_bucket.py   the arithmetic of a rate with a burst
rate_text.py   rates as people say them
columns.py     named tuples by the batch
"""
