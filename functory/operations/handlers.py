"""Handlers: register, look at, list, roll back, delete, and run once without a job."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

from functory.errors import Forbidden, InvalidInput, LanguageUnavailable, Missing, QuotaExceeded
from functory.execution.handler_document import decode_handler, encode_handler
from functory.operations.audit import audit
from functory.operations.folders import settle_folder
from functory.operations.hosts import require_hosts
from functory.operations.keyring import require_same_tenant
from functory.operations.packages import require_packages, with_packages
from functory.operations.principal import Principal
from functory.operations.secrets import require_secrets
from functory.operations.service import Service
from functory.operations.why import can_run
from handlers.errors import HandlerError
from handlers.model import Handler
from handlers.validation import parse_handler
from runner.outcome import Stopped
from runner.packages.source import Tell, nobody
from store.base import Handler as StoredHandler
from store.base import HandlerSummary, NewHandler
from store.errors import Conflict
from vocabulary.names import WORKER, jobtype_of

_MERGES: Final = 10
"""Workers that start together may change a type at the same time, each at its turn."""
_OF_THE_TEXT: Final = frozenset({"entry", "tree"})


async def put_handler(
    service: Service,
    who: Principal,
    type_name: str,
    data: object,
    *,
    made_from: int | None = None,
    upgrade: bool = False,
    tell: Tell = nobody,
) -> StoredHandler:
    """Check a handler and put it in force. It is checked in the sandbox too, if this daemon runs its language.

    Its packages are locked and installed first, and `tell` hears the steps; with `upgrade` they are resolved anew. With
    `tree` it is a folder whose files were sent before. The same handler again makes no new version. Of saves at the
    same time the one that was asked for last wins, however long each takes. made_from: the version (0: none) that it
    changes; it replaces no other. Raises InvalidHandlerError, HandlerSyntaxError, Forbidden, QuotaExceeded, Conflict,
    and what `operations.packages` raises.
    """
    asked_ms, jobtype = service.now_ms(), jobtype_of(who.tenant, type_name)
    handler = parse_handler(data)
    before = await service.store.get_handler(who.tenant, jobtype)
    if handler.network and not who.limits.network:
        raise Forbidden("the tenant's handlers may not use the network: ask the operator", detail={"field": "network"})
    await require_secrets(service, who.tenant, handler)
    await require_hosts(service, who.limits, handler)
    handler = await settle_folder(service, who, handler)
    await _check_text(service, jobtype, handler)
    if before is None:
        await _check_quota(service, who)
    handler = await with_packages(service, jobtype, handler, before, upgrade=upgrade, tell=tell)
    document = encode_handler(handler)
    decode_handler(document)  # what no daemon could read must not be in force
    if before is None or before.data != document:
        await service.admission.take_bytes(who.tenant, who.limits, len(document))
    async with _room_for(service, who, jobtype):
        stored = await service.store.set_handler(
            who.tenant,
            NewHandler(jobtype, handler.lang, document, asked_ms, who.key_id, handler.tree),
            after=made_from if made_from is not None else before.version if before is not None else 0,
            exactly=made_from is not None,
        )
    if before is None or stored.version != before.version:
        await audit(service, who.key_id, "handler.put", who.tenant, type=type_name, version=stored.version)
        await _replaced(service, who.tenant, before)
    return stored


async def merge_handler(
    service: Service,
    who: Principal,
    type_name: str,
    fields: Mapping[str, object],
    *,
    upgrade: bool = False,
    tell: Tell = nobody,
) -> StoredHandler:
    """As `put_handler`; fields, options and variables that are not given stay as they are, if the language does. Raises
    also Conflict if workers are to serve a type that has a handler in another language."""
    asked_ms, tries = service.now_ms(), _MERGES
    stored = await find_handler(service, who.tenant, type_name)
    while True:
        data = _merged(type_name, _settings_of(stored, fields), fields)
        made_from = 0 if stored is None else stored.version
        try:
            return await put_handler(service, who, type_name, data, made_from=made_from, upgrade=upgrade, tell=tell)
        except Conflict:  # another was quicker: then with its fields, too
            tries -= 1
            stored = await find_handler(service, who.tenant, type_name)
            if not tries or stored is None or _is_newer(stored, fields, asked_ms):
                raise


def _settings_of(stored: StoredHandler | None, fields: Mapping[str, object]) -> Mapping[str, object]:
    """What may stay. Nothing of a handler that cannot be read, if there is a new one in its place."""
    if stored is None:
        return {}
    try:
        return _decode(stored).to_json()
    except HandlerError:
        if "body" not in fields:
            raise
        return {}


def _is_newer(stored: StoredHandler, fields: Mapping[str, object], asked_ms: int) -> bool:
    """Whether it is the text of somebody who asked later, and must not be replaced by this one."""
    return stored.lang != WORKER and "body" in fields and stored.created_ms >= asked_ms


def _merged(type_name: str, before: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
    lang = before.get("lang")
    if before and fields.get("lang", lang) != lang:
        if fields.get("lang") == WORKER:
            raise Conflict(
                f"type {type_name} has a handler in {lang}, which is not replaced by workers: delete it first, or"
                " choose another type"
            )
        return dict(fields) | _still_printing_no_jobs(before, fields)
    gone = {"lock"}  # packages that stay the same keep their versions
    if "body" in fields:
        gone |= _OF_THE_TEXT
    elif not _OF_THE_TEXT.isdisjoint(fields):
        gone |= {"body"}  # that of the old entry
    data = {name: value for name, value in before.items() if name not in gone} | dict(fields)
    for name in ("options", "env"):
        old, new = before.get(name), fields.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            data[name] = {key: value for key, value in {**old, **new}.items() if value is not None}
    return data


def _still_printing_no_jobs(before: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
    """The one option that outlives a change of language: what strangers send shall not begin to make jobs by that."""
    old, new = before.get("options"), fields.get("options", {})
    if isinstance(old, Mapping) and isinstance(new, Mapping) and old.get("printed_jobs") == 0:
        return {"options": {name: value for name, value in {"printed_jobs": 0, **new}.items() if value is not None}}
    return {}


async def find_handler(
    service: Service, tenant: str, type_name: str, version: int | None = None
) -> StoredHandler | None:
    """The handler in force, or that version of it."""
    return await service.store.get_handler(tenant, jobtype_of(tenant, type_name), version)


async def get_handler(service: Service, tenant: str, type_name: str, version: int | None = None) -> StoredHandler:
    """Raises Missing."""
    stored = await find_handler(service, tenant, type_name, version)
    if stored is None:
        which = "" if version is None else f" with version {version}"
        raise Missing(f"type {type_name} has no handler{which}")
    return stored


async def list_handlers(service: Service, tenant: str) -> list[HandlerSummary]:
    return await service.store.list_handlers(tenant)


async def find_versions(service: Service, tenant: str, type_name: str) -> list[HandlerSummary]:
    """Empty for a type that has never had a handler."""
    return await service.store.list_handler_versions(tenant, jobtype_of(tenant, type_name))


async def list_versions(service: Service, tenant: str, type_name: str) -> list[HandlerSummary]:
    """Raises Missing for a type that has never had a handler."""
    versions = await find_versions(service, tenant, type_name)
    if not versions:
        raise Missing(f"type {type_name} has never had a handler")
    return versions


async def roll_back(service: Service, who: Principal, type_name: str, version: int) -> StoredHandler:
    """Put a copy of an older version in force. Raises NotFound."""
    jobtype = jobtype_of(who.tenant, type_name)
    before = await service.store.get_handler(who.tenant, jobtype)
    old = await service.store.get_handler(who.tenant, jobtype, version)
    if old is not None:
        await require_secrets(service, who.tenant, _decode(old))
        await require_packages(service, jobtype, _decode(old))
        await require_hosts(service, who.limits, _decode(old))
    if old is not None and (before is None or before.data != old.data):
        await service.admission.take_bytes(who.tenant, who.limits, len(old.data))
    async with _room_for(service, who, jobtype):
        stored = await service.store.roll_back_handler(
            who.tenant, jobtype, version, now_ms=service.now_ms(), author=who.key_id
        )
    await audit(service, who.key_id, "handler.rollback", who.tenant, type=type_name, to=version, version=stored.version)
    await _replaced(service, who.tenant, before)
    return stored


async def delete_handler(service: Service, who: Principal, type_name: str) -> None:
    """Delete the handler. Jobs of the type wait from then on; old versions stay and can be rolled back to."""
    jobtype = jobtype_of(who.tenant, type_name)
    before = await service.store.get_handler(who.tenant, jobtype)
    if not await service.store.delete_handler(who.tenant, jobtype):
        raise Missing(f"type {type_name} has no handler")
    await audit(service, who.key_id, "handler.delete", who.tenant, type=type_name)
    await _replaced(service, who.tenant, before)


async def invoke(
    service: Service,
    who: Principal,
    type_name: str,
    payload: bytes,
    data: object | None = None,
    *,
    tell: Tell = nobody,
) -> Stopped:
    """Run the handler in force, or the one in `data` without storing it, once and now. `tell` hears the steps. Raises
    LimitExceeded for a payload that no job may have."""
    service.admission.check(jobtype_of(who.tenant, type_name), [payload])
    handler = await _in_force(service, who.tenant, type_name) if data is None else parse_handler(data)
    await require_hosts(service, who.limits, handler)
    if handler.lang == WORKER:
        raise InvalidInput(
            "the jobs of this type are taken by workers, so there is no code to try: add a job",
            detail={"lang": WORKER},
        )
    await _require_a_runner(service, handler.lang)
    if handler.lang not in service.control.languages():
        raise InvalidInput(f"this daemon does not run {handler.lang}: ask one that does", detail={"lang": handler.lang})
    handler = await settle_folder(service, who, handler)
    is_new = data is not None  # what could not be saved is not tried either
    if is_new:
        before = await find_handler(service, who.tenant, type_name)
        handler = await with_packages(service, jobtype_of(who.tenant, type_name), handler, before, tell=tell)
    else:
        await require_packages(service, jobtype_of(who.tenant, type_name), handler, tell)
    tell("running")
    if is_new or handler.lock is not None:  # that may have taken long, and it would have the secrets of another
        await require_same_tenant(service, who)
    return await service.trial_runs.invoke(jobtype_of(who.tenant, type_name), handler, payload, check=is_new)


async def _in_force(service: Service, tenant: str, type_name: str) -> Handler:
    handler = await service.handlers.get(jobtype_of(tenant, type_name))
    if handler is None:
        raise Missing(f"type {type_name} has no handler")
    return handler


async def _check_text(service: Service, jobtype: str, handler: Handler) -> None:
    if handler.lang in service.control.languages():
        await service.trial_runs.check(jobtype, handler)
    else:
        await _require_a_runner(service, handler.lang)


async def _require_a_runner(service: Service, lang: str) -> None:
    """Raises LanguageUnavailable if the language is installed but does not start here, and no other daemon runs it."""
    reason = service.control.language_trouble(lang)
    if not reason:
        return
    daemons = await service.store.list_daemons(now_ms=service.now_ms())
    if not any(can_run(service, it, lang) for it in daemons):
        raise LanguageUnavailable(f"no {lang} context starts on this machine: {reason}", detail={"lang": lang})


async def _replaced(service: Service, tenant: str, before: StoredHandler | None) -> None:
    service.control.types_changed(tenant)
    if before is not None:
        with suppress(HandlerError):  # of a newer version of this program: nothing of it runs here
            await service.trial_runs.retire(before.jobtype, _decode(before))


@asynccontextmanager
async def _room_for(service: Service, who: Principal, jobtype: str) -> AsyncIterator[None]:
    """Around the write that gives a type a handler. What came before it took long: the tenant may be gone, and others
    may have registered theirs meanwhile. Raises Unauthorized, QuotaExceeded."""
    await require_same_tenant(service, who)
    if who.limits.max_handlers is None:
        yield
        return
    async with service.count_turns.of(who.tenant):
        if await service.store.get_handler(who.tenant, jobtype) is None:
            await _check_quota(service, who)
        yield


async def _check_quota(service: Service, who: Principal) -> None:
    limit = who.limits.max_handlers
    if limit is None:
        return
    usage = await service.store.get_usage(who.tenant)
    if usage.handlers >= limit:
        raise QuotaExceeded(
            f"the tenant has {usage.handlers} handlers, and may have {limit}: delete one, or ask the operator for more",
            detail={"quota": "max_handlers", "limit": limit},
        )


def _decode(stored: StoredHandler) -> Handler:
    return decode_handler(stored.data)
