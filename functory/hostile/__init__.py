"""What one tenant can do to the others, tried out: `functory doctor --hostile`.

act.py               an act: its name, what a tenant does in it, and how it went
arena.py             a private daemon in a temporary folder, a hostile tenant and a victim
watch.py             what the victim and the operator notice meanwhile
context_acts.py      acts from inside a context: processes, memory, output
http_acts.py         acts over HTTP: unread answers, large and half requests, many types
acts.py              the list of all acts

To add an act, write `async def name(arena: Arena) -> str` with a docstring that says what the tenant does, and put it
in a list that `acts.py` joins. It returns what it saw, and raises Through when the service did not hold.
"""
