"""Isolation of tenants' code: every context in its own namespaces, cgroup and uid, under Landlock and
seccomp.

layers.py       which layers this machine can give, and the level that they make
launcher.py     starts contexts: chooses the layers, keeps spawners and a stock of blank contexts
kinds.py        contexts that can stand in for each other; stock.py blank ones that wait
spawner.py      the daemon's hold on the process that contexts are forked from; inner/ that process itself
interpreter.py  the python of a spawner; runtime.py the read-only root that it sees
installed.py    what the machine has beside its languages; handover.py the files that a context is handed
room.py         what a context occupies: a cgroup (cgroups.py), a uid (uids.py), a scratch directory
rlimits.py      limits of each process; processes.py the sums of a tree, where there are no cgroups
seccomp.py      the filter of system calls; syscalls.py their numbers
child.py        a context as the daemon holds it
folder_lock.py  one at a time in a folder that several daemons write to
leftovers.py    what a killed daemon left on the machine
probe.py        attacks the result and says which level was really reached
attacks/        the attacks; victims.py what they go for

This file imports nothing: the spawner loads `inner` through it, in every context.
"""
