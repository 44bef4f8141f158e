"""The side of the sandbox that runs beside and around tenant code: standard library only, imports nothing
else of ours.

A `spawner` process loads these modules once, before any tenant is known, and forks every context from that
state.

spawner.py   that process: takes orders and forks
order.py     an order to start one context, as the daemon sends it
confine.py   the layers, each a step that the forked process takes on itself
landlock.py  one of them; kernel.py the system calls that the standard library lacks
init.py      the first process of a context: reaps, passes on signals, reports how the program ended
programs.py  programs that contexts run in the interpreter of their spawner
"""
