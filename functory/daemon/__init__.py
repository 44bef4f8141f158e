"""One daemon. `functory serve` comes here in two hops: `Server.run` (server.py), `Daemon.run` (daemon.py).

server.py             a daemon with its HTTP side
daemon.py             runs the loops of the parts, and stops them in the right order
service.py            what can be asked of it
parts.py              opens the parts and wires them together; part_settings.py what the settings mean for them
joining.py            joins the store: at the start, or later if it is away then
journals.py           opens a journal; left_journals.py empties those that nobody uses any more
isolation.py          which isolation tenants get here
languages.py          which languages run here
packages.py           gets the packages that handlers ask for
package_collector.py  removes packages that no version needs
kept_keys.py          keys that were verified lately, for a start without the store
last_owner.py         takes over what the last process in this folder left claimed
hearing.py            what it does when another daemon tells it something
vitals.py             health, gauges, and what the daemon tells the others about itself
upkeep.py             what has to happen again and again: leases, sysid, purges, alerts
late_jobs.py          ends jobs that waited for longer than their type allows
alert_watch.py        looks at the alert rules of all tenants
retention.py          how long failed jobs are kept
served_time.py        since when jobs wait too long
operator_key.py       the operator's first key, and its file
own_process.py        a daemon in a process of its own, for the commands that need one
descriptors.py        how many files and connections it may have open
garbage_collector.py  settings of Python's cycle collector and of memory
"""
