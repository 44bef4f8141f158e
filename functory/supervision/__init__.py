"""Keeping daemons alive, and telling the service manager.

progress.py       what the loops are doing now, and since when
watchdog.py       vouches for the daemon while its loops make progress
notifier.py       tells the service manager, in systemd's protocol
processes.py      several daemons on one machine
child_reports.py  what the parent hears from each of them
stop_signals.py   what asks a service to stop
"""
