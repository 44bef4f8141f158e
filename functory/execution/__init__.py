"""From the store to the result: what happens to jobs once they can be run.

executor.py          picks, claims, runs; outlook.py what the last look at the store saw; claims_under_way.py its claims
offers.py            what the scheduler is told of types
slots.py             the batches that run; due_alarm.py when to look for jobs that were to start later
straight/            jobs that start before the store has them
batches.py           one batch: to the runner, and to the outbox; keyed_starts.py when those of types with keys start
handler_cache.py     handlers by version; handlers_in_force.py that of a type; handler_document.py their stored form
leases.py            what this daemon has claimed, and may still start; late.py what came too late for that
tenant_book.py       what each tenant may have
outcomes.py          what becomes of a job that stopped; failure_message.py the line that says why it failed
wishes.py            jobs that a job asked for; families.py what a parent is told of its children
afterwards.py        who gets a job's result, and whether the job is kept
outbox.py            outcomes on their way to the store; endings.py what they are; ending_admission.py quotas
waiters.py           who waits for which job
trial_runs.py        a handler run once, without a job; tenant_places.py where such runs wait, for consumers
"""
