"""The server: the connection, the layout of the database, and how changes are counted without transactions.

driver.py        the one file that names motor; the driver's errors in the store's words
bulk.py          changes of many documents in one command, in one order for all callers
core.py          open, close, and how a verb is run; reach.py what all do while no server can be reached
schema.py        collections, the states of a job document, indexes
blobs.py         payloads and results that are too big for a document
ledger.py        counts every change exactly once; tally.py what a change means for the counters
lane_opening.py  opens the lanes of rate domains that a change has touched; turn_opening.py the turns of keys
deliveries.py    remembers the jobs that this process claimed
maintenance.py   the database as a whole: its version and a check
"""
