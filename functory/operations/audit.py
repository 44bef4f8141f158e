"""The audit log: who did what, when; kept in the store and said in the log. Secrets never come near it."""

import json
import logging
from contextvars import ContextVar
from typing import Final

from functory.operations.service import Service
from store.base import AuditEvent

log = logging.getLogger("functory.audit")


CLIENT: Final = ContextVar("client", default="")
"""The address that the request under way came from; empty when there is no request."""


async def audit(service: Service, actor: str, action: str, tenant: str = "", **detail: object) -> None:
    """Record an event. It is logged first, so that it is seen somewhere even if the store cannot take it."""
    if client := CLIENT.get():
        detail["client"] = client
    log.info(action, extra={"actor": actor, "tenant": tenant, **{f"about_{name}": it for name, it in detail.items()}})
    text = json.dumps(detail, sort_keys=True) if detail else ""
    await service.store.append_audit(AuditEvent(service.now_ms(), actor, action, tenant, text))
