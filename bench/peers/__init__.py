"""The peers: other queues on the same work, on the same machine, in the same run."""
