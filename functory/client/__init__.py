"""A small asynchronous client with the verbs of the HTTP interface.

    async with Client("http://127.0.0.1:8484", key, "acme") as acme:
        await acme.put_handler("double", "python", "return {'twice': int(payload) * 2}")
        added = await acme.add_jobs("double", ["21", "4"])
        job = await acme.get_job(added.ids[0], wait_s=10)

Answers are the same types that the server renders (`functory.wire`). What the server refuses is raised as ClientError
with its code, message and status; a connection that fails is ServerUnreachable.

transport.py   one request and its answer; events.py the steps while it is under way
jobs.py        jobs: their life, results and figures
workers.py     what a worker asks for
handlers.py    handlers: texts, versions, folders
consumers.py   consumers
alerts.py      alert rules
webhooks.py    webhooks
operator.py    tenants, keys, daemons
"""

from functory.client.alerts import AlertCalls
from functory.client.consumers import ConsumerCalls
from functory.client.handlers import HandlerCalls
from functory.client.jobs import JobCalls
from functory.client.operator import OperatorCalls
from functory.client.webhooks import WebhookCalls
from functory.client.workers import WorkerCalls
from functory.errors import ClientError, ServerUnreachable

__all__ = ["Client", "ClientError", "ServerUnreachable"]


class Client(JobCalls, WorkerCalls, HandlerCalls, ConsumerCalls, AlertCalls, WebhookCalls, OperatorCalls):
    """One connection pool for one key. `tenant` may be left out for the operator's calls."""
