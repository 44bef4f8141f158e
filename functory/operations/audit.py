"""The audit log: who did what, and when. Kept in the store and written to the log. It never holds a secret.

What changes settings, code, keys, many jobs at once or the payload of a job, and what removes jobs, is an event. To
cancel or retry a single job is none: it can come at a high rate, and the job itself shows it.
"""

import json
import logging
from contextvars import ContextVar
from typing import Final

from functory.operations.service import Service
from store.base import AuditEvent, AuditPage

log = logging.getLogger("functory.audit")


CLIENT: Final = ContextVar("client", default="")
"""The address that the current request came from; empty outside a request."""


async def audit(service: Service, actor: str, action: str, tenant: str = "", **detail: object) -> None:
    """Record an event. It is logged first, so that it is on record even if the store cannot take it."""
    if client := CLIENT.get():
        detail["client"] = client
    log.info(action, extra={"actor": actor, "tenant": tenant, **{f"about_{name}": it for name, it in detail.items()}})
    text = json.dumps(detail, sort_keys=True) if detail else ""
    await service.store.append_audit(AuditEvent(service.now_ms(), actor, action, tenant, text))


async def list_audit(service: Service, *, tenant: str | None, cursor: str | None, limit: int) -> AuditPage:
    """Events, newest first."""
    return await service.store.list_audit(tenant=tenant, cursor=cursor, limit=limit)
