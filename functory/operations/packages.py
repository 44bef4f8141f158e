"""Packages of handlers: locked when a handler is registered or tried, and installed before it is in force.

The same requirements keep their lock from version to version, until somebody asks for newer packages. So what was tried
is what is saved, and a change of the code changes no package.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace

from functory.execution.handler_document import decode_handler
from functory.folders.contents import get_manifest, read_file
from functory.operations.service import Service
from handlers.errors import HandlerError
from handlers.languages import LANGUAGES
from handlers.model import Handler
from handlers.packages import FILES, Lock, Wanted, check_size, requirements_of
from runner.packages.source import Progress, Tell, nobody
from store.base import Handler as StoredHandler
from vocabulary.names import tenant_of


async def with_packages(
    service: Service,
    jobtype: str,
    handler: Handler,
    before: StoredHandler | None,
    *,
    upgrade: bool = False,
    tell: Tell = nobody,
) -> Handler:
    """The handler with the lock of what it asks for, installed if this daemon runs its language. `tell` hears the
    steps.

    Raises InvalidHandlerError, PackagesRefusedError, PackagesMissingError, PackagesBusyError.
    """
    requirements = await _requirements(service, tenant_of(jobtype), handler)
    if requirements is None:
        return replace(handler, lock=None)
    lock = None if upgrade else _known_lock(requirements, handler, before)
    if lock is None:
        lock = await service.packages.lock(tenant_of(jobtype), requirements, anew=upgrade, tell=tell)
    handler = replace(handler, lock=lock)
    await require_packages(service, jobtype, handler, tell)
    return handler


async def require_packages(service: Service, jobtype: str, handler: Handler, tell: Tell = nobody) -> None:
    """Have its packages installed, if this daemon runs it. Raises what `with_packages` raises."""
    if handler.lock is not None and handler.lang in service.control.languages():
        await service.packages.have(jobtype, handler.lock, tell)


async def packages_of(service: Service, tenant: str, stored: StoredHandler) -> Progress | None:
    """How far the packages of a version are on this daemon; None if it has none."""
    try:
        lock = decode_handler(stored.data).lock
    except HandlerError:
        return None
    return None if lock is None else await service.packages.known(tenant, lock)


async def _requirements(service: Service, tenant: str, handler: Handler) -> Wanted | None:
    if not LANGUAGES[handler.lang].packages_from:
        return None
    files: dict[str, bytes] = {}
    if handler.tree:
        manifest = await get_manifest(service.store, tenant, handler.tree)
        if handler.lang == "node" and any(name.startswith("node_modules/") for name in manifest.by_name):
            return None  # it brings its packages along
        for name in FILES[handler.lang]:
            entry = manifest.by_name.get(name)
            if entry is not None:
                check_size(handler.lang, name, entry.size_bytes)
                files[name] = await read_file(service.store, tenant, entry)
    return await asyncio.to_thread(requirements_of, handler.lang, handler.body, files)


def _known_lock(requirements: Wanted, handler: Handler, before: StoredHandler | None) -> Lock | None:
    """The lock that came with the handler, or that of the version in force, if it is of these requirements."""
    locks = [handler.lock]
    if before is not None:
        with suppress(HandlerError):  # of a newer version of this program
            locks.append(decode_handler(before.data).lock)
    return next((lock for lock in locks if lock is not None and lock.requirements == requirements.digest), None)
