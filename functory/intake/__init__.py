"""From the caller to the store: what happens to jobs until they can be run.

intake.py            the front: write, flush, and the loops of the two below
job_options.py       what may be said about a job, and its form in the journal
admission.py         what may come in, whichever way it comes: limits of size, quotas
weights.py           how many lines of each tenant there are, and their bytes
backlog.py           writes lines into the journal; the way past a backlog
line.py              the lines that wait for the reader; held_lines.py those on the straight way,
                     for which open_reservation.py waits; passed_lines.py those that are not read again
straight_intake.py   what is asked of that way
accepted_batches.py  answers for jobs that the store does not have yet
journal_reader.py    from the journal to the store; former_tenants.py lines that are nobody's any more
flushes.py           who waits for that
"""
