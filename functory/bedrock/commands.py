"""The table of commands, and what every request passes: its caller, its scope, its command, an answer for any error."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from functory.bedrock import changing, creating, looking, taking
from functory.bedrock.call import Call, Peer, Takers
from functory.bedrock.callers import Callers
from functory.bedrock.messages import Answer, Request
from functory.bedrock.numbers import Numbers
from functory.bedrock.parameters import Parameters
from functory.bedrock.refusals import Refusal, answer_of
from functory.errors import Forbidden, Unauthorized
from functory.operations.audit import CLIENT
from functory.web.http.endpoint import Web
from functory.wire.scopes import Scope

log = logging.getLogger("functory.bedrock")

_FEW_BYTES: Final = 16 * 1024
"""Parameters of a command that may wait for long, or that has no data: they are in memory meanwhile."""


class Command(NamedTuple):
    name: str
    scope: Scope
    run: Callable[[Call], Awaitable[bytes]]
    """Returns the body of the answer. Changes of jobs that no worker holds ask for `manage` themselves."""
    takes_data: bool = False
    """Its parameters may be large."""


COMMANDS: Final = {
    command.name.lower(): command
    for command in (
        Command("CreateJob", "submit", creating.create_job, takes_data=True),
        Command("CreateJobs", "submit", creating.create_many, takes_data=True),
        Command("GetJob", "work", taking.get_job),
        Command("GetJobs", "work", taking.get_jobs),
        Command("QueryJob", "read", looking.query_job),
        Command("UpdateJob", "work", changing.update_job, takes_data=True),
        Command("FinishJob", "work", changing.finish_job, takes_data=True),
        Command("FailJob", "work", changing.fail_job, takes_data=True),
        Command("RetryJob", "work", changing.retry_job, takes_data=True),
        Command("CancelJob", "manage", changing.cancel_job),
        Command("DeleteJob", "manage", changing.delete_job),
        Command("Query", "read", looking.query),
    )
}
WITH_DATA: Final = frozenset(name for name, command in COMMANDS.items() if command.takes_data)


class Commands:
    """What all connections share."""

    def __init__(self, web: Web, tenant: str) -> None:
        self._web = web
        self._tenant = tenant
        self._callers = Callers(web, tenant)
        self._numbers = Numbers(web.service)
        self._takers = Takers()
        self.room = web.bodies
        """For large answers, beside large bodies over HTTP."""

    async def answer(self, request: Request, peer: Peer) -> Answer:
        """Never raises for what a request says."""
        began_s = time.perf_counter()
        request_id = self._web.edge.request_id(None)
        command = COMMANDS.get(request.command.lower())
        try:
            body = await self._run(command, request, peer)
            answer = Answer(body=body)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, the client gets an answer and the log the error)
            answer = self._refused(error, request_id, peer)
        self._web.edge.count("BEDROCK", command.name if command else "unknown", answer.status, began_s)
        return answer

    async def tenant_of(self, authorization: str | None, peer: Peer) -> str | Answer:
        """Whose request is arriving, or why it need not arrive any further. Never raises for what a request says."""
        if authorization is None and self._tenant:
            return self._tenant
        try:
            return (await self._callers.recognise(authorization)).tenant
        except Exception as error:  # noqa: BLE001 (as above)
            return self._refused(error, self._web.edge.request_id(None), peer)

    def _refused(self, error: Exception, request_id: str, peer: Peer) -> Answer:
        if isinstance(error, Unauthorized | Forbidden):
            log.info("request.refused", extra={"client": peer.address, "code": error.code, "request": request_id})
        return answer_of(error, request_id, peer.address)

    async def _run(self, command: Command | None, request: Request, peer: Peer) -> bytes:
        peer.payer = peer.address
        peer.if_unheard = None
        who = await self._callers.admit(request)
        peer.payer = who.tenant
        if command is None:
            names = ", ".join(each.name for each in COMMANDS.values())
            raise Refusal(430, f"Unrecognized command {request.command[:40]!r}: there are {names}")
        if request.is_http and request.method != "POST":
            raise Refusal(405, f"Use POST, not {request.method}")
        who.require(command.scope)
        CLIENT.set(peer.address)
        size_bytes = sum(map(len, request.parameters.values()))
        if size_bytes > _FEW_BYTES and not command.takes_data:
            raise Refusal(402, f"The parameters of {command.name} are longer than {_FEW_BYTES} bytes")
        call = Call(self._web, who, Parameters(request.parameters), peer, self._takers, self._numbers)
        if size_bytes <= self.room.free_bytes:
            return await command.run(call)
        async with self.room.of(who.tenant, size_bytes):
            return await command.run(call)
