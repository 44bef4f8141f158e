"""Pause and resume: of a type, a tenant, a daemon. What runs goes on; nothing more is started."""

from functory.operations.audit import audit
from functory.operations.service import Service
from store.names import check_owner


async def pause_type(service: Service, actor: str, tenant: str, type_name: str, *, paused: bool) -> None:
    await service.store.set_type_paused(tenant, f"{tenant}-{type_name}", paused=paused)
    await audit(service, actor, "type.pause" if paused else "type.resume", tenant, type=type_name)
    service.control.wake()


async def pause_daemon(service: Service, actor: str, sysid: str, *, paused: bool) -> None:
    """Any daemon of the store: this one at once, another at its next renewal. Raises NotFound."""
    check_owner(sysid)
    if sysid == service.control.sysid:
        if paused:
            service.control.pause()
        else:
            service.control.resume()
    await service.store.set_daemon_paused(sysid, paused=paused)
    await audit(service, actor, "daemon.pause" if paused else "daemon.resume", sysid=sysid)


async def quit_daemon(service: Service, actor: str) -> None:
    """End this daemon as SIGTERM does."""
    await audit(service, actor, "daemon.quit", sysid=service.control.sysid)
    service.control.quit()
