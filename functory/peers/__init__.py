"""The daemons of one store wake each other: what one did is not found by the next poll, but told at once.

news.py      what a daemon has to tell, as bounded sets; to datagrams and back
channel.py   the datagrams: sealed, sent, received at a bounded rate
address.py   where this daemon receives them
peers.py     who else is there, from the register of the store
announcer.py gathers what happened here, and sends it

News is never believed. It only makes a daemon look at the store now and not at its next poll, so a message that is
lost, repeated, late or forged costs at most a look, and never a job.
"""
