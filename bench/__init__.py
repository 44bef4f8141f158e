"""Benchmarks: `make bench`, `make bench-peers`, `make soak`. docs/performance.md has the figures.

- `parts/`: one component at a time, in this process: journal, stores, scheduler, runner, sandbox.
- `service/`: a real `functory serve` under load, over HTTP.
- `peers/`: other queues on the same work.
- `tools/`: what the benches share: starting a daemon, loads, processor time, tables, budgets.
- `__main__.py`: all benches in turn (`python -m bench`); each one also runs alone (`python -m bench.service.http`).
"""
