"""The file: how it is opened, written and read, and the counts that every write keeps.

schema.py        tables, indexes and migrations; claim_tables.py those that only claims read
connection.py    how a connection is made; SQLite's errors in the store's words
opened_file.py   whether the path still names the file that was opened
core.py          open, close, and how a verb reaches the writer or a reader
writer.py        the thread that writes, with group commit; writer_queue.py the operations that wait for it
readers.py       the threads that read
checkpoints.py   moves the WAL into the file, beside the writer
catalog.py       the numbers of jobtypes and lanes that the writer remembers
tally.py         the counts that one transaction changes
buckets.py       the same by minute, hour and day; totals.py the same by tenant
bulk.py          many rows in one statement
maintenance.py   the file as a whole: its version, a copy, a check
"""
