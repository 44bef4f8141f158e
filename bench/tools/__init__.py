"""What the benches share.

- `daemon.py`: a real `functory serve` process; `connection.py`: a cheap HTTP client; `load.py`: loads on a daemon.
- `cpu.py`, `vitals.py`: processor time, memory and open files from /proc; `profiler.py`: py-spy on a daemon;
  `counted_daemon.py`: a daemon whose event loop counts its calls;
  `named_threads/`: gives a daemon's threads the names that `cpu.py` reads.
- `report.py`: tables, `--json` and the latest results; `budgets.py`: the bars; `markdown.py`: results as Markdown.
"""
