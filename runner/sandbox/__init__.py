"""Isolation of tenants' code: every context in its own namespaces, cgroup and uid, under Landlock and
seccomp.

`launcher` starts contexts, `layers` finds out what the machine can do, `probe` attacks the result and says
which level was really reached. This file imports nothing: the spawner loads `inner` through it, in every
context.
"""
