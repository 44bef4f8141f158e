"""Jobs: the way of a job through the queue, and reading jobs.

add.py           a job enters: in bulk, or one with a unique name or a parent
claim.py         the next jobs of a type are handed out; bulk_claim.py the usual case in columns
domain_claim.py  jobs with a rate domain are handed out, past domains that may not run
keyed_claim.py   jobs with a key are handed out; turns.py the queue of a key; taking.py what all claims do
straight.py      jobs that started elsewhere first; bulk_straight.py the usual case in columns
rates.py         the token buckets that a claim draws from; token_waits.py keys that wait for a token;
                 next_token.py when to claim again what waits for one
release.py       a delivery is renewed or ends; bulk_archive.py the usual case in columns
discard.py       deliveries end of which nothing is kept
making.py        a delivery ends that made new jobs
endings.py       runs and jobs end, and parents wait or are woken
families.py      what the end of a parent means for its children, in steps
expire.py        lapsed leases and old jobs
window.py        the window of a consumer: numbers, what is held, what is let in
deleted.py       ids of deleted jobs that may come again
job_changes.py   update, cancel, replay and delete single jobs; indexed queues
schedules.py     what a change makes of a job that repeats: its next round, a pause, an extra round
numbers.py       numbers of jobs within their tenant
row_changes.py   the changes of rows that several of these share
listing.py       reads jobs, one by one and in pages; listing_ranges.py what pages are merged from;
                 rows.py makes values of rows
"""
