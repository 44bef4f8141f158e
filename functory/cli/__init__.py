"""The command line: parse, call one operation, print.

main.py         the parser, and from errors to messages and exit codes (failures.py)
command_parser.py    lets options stand anywhere among the words of a command
serve.py        `serve`; settings.py its flags, and `config`
jobs.py, handlers.py, tenants.py, scoreboard.py, limits.py, queues.py, rates.py, consumers.py, operator.py, health.py
                talk to a server
remote.py       what these have in common; many_jobs.py what `cancel`, `delete` and `replay` of many jobs have
folders.py      `deploy`: a folder as a handler; dev.py `init`, `test` and `dev` on this machine
alerts.py       `alert`: what a tenant wants to be told of
webhooks.py     `webhook`: addresses that other services post to
secrets.py      `secret`: a tenant's, and the keys that seal them
work.py         `work`, the same for scripts that work on jobs; worker.py `worker`, for Python functions
job_adding.py, job_listing.py, job_waiting.py, job_views.py    what `job` does and shows
arguments.py    reads values of flags; confirmation.py asks before what cannot be undone
standard_input.py    bytes and lines of it, for as long as nobody interrupts
invoke.py       `invoke`; handler_file.py reads a handler from a file; handler_view.py shows its settings
workbench.py    runs handlers here, without a service, for invoke.py and dev.py
doctor.py, demo.py, completion.py                  on this machine
journal.py, store.py, backup.py, migrate.py        on files and stores, without a daemon
answers.py, table.py, progress.py                  how results look in a terminal

Each group of commands is a module with `add_commands` (commands.py has the type of its argument).
"""

from functory.cli.main import main

__all__ = ["main"]
