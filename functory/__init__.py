"""Functory: the application on top of the journal, store, handlers, scheduler and runner packages.

The rooms, in the order in which a job meets them:

cli/           the command line; client/ the HTTP client
sync/          jobs for programs without an event loop; apart from client/, which cannot be imported without aiohttp
queue/         jobs for Python programs, in this process or from a server
daemon/        one daemon, and the server that puts HTTP in front of it
bedrock/       the wire protocol of Bedrock::Jobs
web/           HTTP: the interface and the pages; wire/ the types of the interface
peers/         what the daemons of a store tell each other
operations/    everything that can be asked, without HTTP
intake/        from a caller into the journal, and from the journal into the store
alerts/        what tenants want to be told of: rules, and whether they hold
webhooks/      addresses that others post to: how they sign, and what becomes of what they send
consumers/     work through jobs by index; usable without the rest of the service
workers/       jobs in the hands of programs elsewhere
execution/     look, claim, run, outcomes, waiters
folders/       handlers that are folders: their files in the store, and unpacked for contexts
vault/         tenants' secrets: sealed in the store, opened for contexts
egress/        the proxy through which contexts call the hosts of their handlers
loops/         what the loops of a daemon share
supervision/   processes, the service manager, the watchdog
transfer/      backup, restore, migrate
hostile/       what one tenant can do to the others, tried on a private daemon

config.py has the settings, setting_values.py how their values are written, tenant_limits.py the limits of a tenant,
errors.py the errors, statuses.py their status and exit codes, logs.py logging.
"""

__version__ = "0.1.0"
