"""Benchmarks: ours, the limit, and the peers, in one run."""
