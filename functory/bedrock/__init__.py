"""The wire protocol of Bedrock::Jobs: workers and creators of jobs that speak it, over a listener of its own.

A request is a command and its parameters, in the protocol's own form or as an HTTP POST; docs/jobs.md has a session.
Behind it are the same operations as behind HTTP: the same scopes, limits, quotas, caps and audit.

settings.py     limits of the listener
messages.py     requests and answers as values, and the bytes of an answer
parser.py       from bytes to requests
parameters.py   the parameters of a command, checked
refusals.py     what is wrong, as a number and a text of the protocol
callers.py      who asks
numbers.py      jobs by number
records.py      jobs as the protocol shows them: states, times, data
call.py         one command with what it needs
creating.py     CreateJob, CreateJobs
taking.py       GetJob, GetJobs; relatives.py what they tell of parents and children
changing.py     UpdateJob, FinishJob, FailJob, RetryJob, CancelJob, DeleteJob
looking.py      QueryJob, Query; select.py the statements that Query knows
commands.py     the table of commands, and what every request passes
connection.py   one connection; input_room.py how many bytes all of them hold
listener.py     listens
"""
