"""The side of the sandbox that runs beside and around tenant code: standard library only, imports nothing
else of ours.

A `spawner` process loads these modules once, before any tenant is known, and forks every context from that
state.
"""
