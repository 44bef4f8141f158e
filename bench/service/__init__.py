"""A whole daemon under load, over HTTP from another process.

- `http.py`: POSTs beside a bare aiohttp server; `http_servers.py`: the servers that it compares.
- `endtoend.py`: from POST to recorded outcome, with processor time by thread.
- `latency.py`: one job at a time; `fairness.py`: a quiet tenant beside a flood.
- `consumers.py`: cost of an index, beside a plain queue and with more and more to do.
- `single.py`: single jobs that are waited for, and a flood beside tenants that have a few; `keys.py`: jobs with keys.
- `calls.py`: how many functions the event loop calls for a single job, by part.
- `types.py`: single jobs of thousands of types; `shared.py`: several daemons on one MongoDB store.
- `across.py`: jobs that are posted to one daemon and run by another.
- `bedrock.py`: GetJob and FinishJob by connections that each do one after the other, beside beanstalkd and a server
  that does nothing (`bare_queue.py`).
- `rates.py`: how much of its rate a rate domain with a burst of one gives.
- `workers.py`: workers that take and report, beside beanstalkd; what it costs to have a thousand that wait.
- `growth.py`: cost of a job beside a large backlog; `soak.py`: half an hour of even load.
- `hostile_soak.py`: hostile tenants all at once, for docs/isolation.md.
- `scaling.py`: processor time of a job in the daemon and in the store, for docs/scaling.md.
- `pages.py`: processor time of each page; `pages_fill.py`, `pages_site.py`: its data and its server.
"""
