"""The peers: other queues on the same work, on the same machine, in the same run.

- `peer.py`: the peers as data: what to install, how workers are started, what each promises.
- `install.py`: installs them on demand; `servers.py`: Redis and beanstalkd for one of them.
- `programs/`: the program of each peer.
- `harness.py`: a peer through the phases; `ours.py`: Functory through the same.
- `__main__.py`: all of them in turn (`make bench-peers`).
"""
