"""Jobs: the way of a job through the queue, and reading jobs.

add.py           jobs enter in bulk; create.py one with a unique name or a parent; append.py one with a number
claim.py         the next jobs of a type are handed out; taking.py what all claims do
domain_claim.py  jobs with a rate domain are handed out, past domains that may not run
keyed_claim.py   jobs with a key are handed out; turns.py the queue of a key
straight.py      jobs that started elsewhere first
rates.py         the token buckets that a claim draws from; token_waits.py keys that wait for a token;
                 next_token.py when to claim again what waits for one
release.py       a delivery is renewed or ends
endings.py       the update of one job that ends; relatives.py what follows for its parent and children
discard.py       deliveries end of which nothing is kept
making.py        deliveries end that made new jobs; appearing.py shows these
changes.py       conditional updates in one bulk write, and their counting
expire.py        lapsed leases, old jobs, traces of crashes
seqs.py          the numbers of indexed queues
window.py        the window of a consumer: what is held, what is let in
deleted.py       ids of deleted jobs that may come again; old_names.py unique names of jobs that are gone
job_changes.py   update, cancel, replay and delete single jobs; indexed queues
schedules.py     what a change makes of a job that repeats: its next round, a pause, an extra round
numbers.py       numbers of jobs within their tenant
listing.py       reads jobs, one by one and in pages; documents.py makes values of documents and back
"""
