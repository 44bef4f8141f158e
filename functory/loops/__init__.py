"""What the loops of a daemon share.

shared.py     the value that every loop works with
tenant_turns.py turns at something of which there is little, fair by tenant
tenant_looks.py looks of a tenant at much, one at a time and shared
courtesy.py   short steps while somebody with little to do is here; turns.py one of them at a time
token_alarm.py when types that lack a token may be claimed again
one_look.py   a question of many, asked once; who knows an older answer does not wait for long
deadlines.py  futures that get an answer when their time is up, on one timer
slices.py     long work, in slices that count it
job_mark.py   a job in four bytes
job_log.py    a line for each job that enters, starts and stops
late_writes.py writes these lines, from a thread
"""
