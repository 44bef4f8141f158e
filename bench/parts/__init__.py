"""One component at a time, each beside its limit in the same run.

- `journal.py`: durable lines, written and read.
- `store.py`: the SQLite store; `store_limit.py`: the same SQL without our layer.
- `store_mongo.py`: the MongoDB store beside motor alone.
- `domains.py`: what a claim costs by the number of rate domains.
- `scheduler.py`: the cost of a pick, and fairness in simulated time; `simulation.py`: that time, also for tests.
- `runner.py`: batches through warm contexts, cold starts, memory.
- `packages.py`: locking and installing packages, and cold starts with them.
- `sandbox.py`: what each isolation level costs at launch.
- `proxy.py`: a connection and a stream through the proxy of contexts, beside direct ones.
"""
