"""The editor of a handler: change the body, try it on a payload without storing it, save it.

Ensures: who saves over a version that they have not seen is told first.

A trial runs in the sandbox exactly as a job would, and leaves nothing behind. The form comes back with the answer, so
nothing that was typed is lost.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from functory.errors import FunctoryError, InvalidInput, Missing
from functory.execution.handler_document import decode_handler
from functory.operations import folders, handlers, jobs
from functory.operations.jobs import Queued
from functory.web.api.handler_fields import decode_handler_fields
from functory.web.http.endpoint import check_type_name
from functory.web.http.presence import while_present
from functory.web.pages import inert_text
from functory.web.pages.call import PageCall, whole_number
from functory.web.pages.declaration import Go, Page, Pages
from functory.web.pages.error_line import error_line
from functory.web.pages.folder_files import file_rows
from functory.web.pages.typed_text import as_stored, is_typable
from handlers.errors import HandlerError, HandlerSyntaxError
from handlers.folders.project import PROJECT_FILE
from handlers.languages import LANGUAGES
from handlers.model import DEFAULT_MEMORY_MB, DEFAULT_TIMEOUT_S, KEEP_ALL, VALUE, Handler
from handlers.validation import parse_handler
from journal.errors import LimitExceeded
from runner.errors import RunnerError
from runner.outcome import Stopped
from store.base import Handler as StoredHandler
from store.base import JobFilter, JobRecord, JobState

pages = Pages()

_DEFAULTS: Final = (("returns", VALUE), ("keep", KEEP_ALL))
_OWN_FIELDS: Final = ("lang", "body", "timeout_s", "memory_mb", "network", "secrets", "entry", "tree")
"""Fields with their own input. The others are edited together, as JSON."""
_FIRST_BODY: Final = 'return {"hello": payload}\n'
_MAX_PAYLOAD: Final = 64 * 1024


class Draft(NamedTuple):
    """The content of the form."""

    type: str
    lang: str
    body: str
    payload: str
    timeout_s: str = ""
    memory_mb: str = ""
    network: bool = False
    more: str = "{}"
    payload_of: str = ""
    """The job whose payload is used because it is not text; otherwise empty."""
    secrets: str = ""
    entry: str = ""
    tree: str = ""
    file: str = ""
    """Of a folder: the file that `body` is the text of; empty for the entry."""
    is_text: bool = True
    """Whether a form can hold what is stored."""
    version: int | None = 0
    """The one that was opened, 0 if there was none; None if the form does not say."""


@pages.get("/ui/t/{tenant}/new", scope="handlers")
async def new_handler(call: PageCall) -> Page:
    return await _page(call, Draft(type="", lang="python", body=_FIRST_BODY, payload="Ada"), None)


@pages.post("/ui/t/{tenant}/new", scope="handlers", progress=True)
async def make_handler(call: PageCall) -> Page | Go:
    return await _take(call, call.form.get("type", "").strip())


@pages.get("/ui/t/{tenant}/type/{type}/edit", scope="read")
async def edit_handler(call: PageCall) -> Page:
    stored = await handlers.find_handler(call.service, call.tenant, call.type_name)
    payload, payload_of = await _payload(call)
    if stored is None:
        draft = Draft(type=call.type_name, lang="python", body=_FIRST_BODY, payload=payload, payload_of=payload_of)
    else:
        draft = _draft(call.type_name, decode_handler(stored.data), payload, payload_of)
        if draft.tree and call.query("file") not in ("", draft.entry):
            draft = draft._replace(file=call.query("file"))
        try:
            text = await _text_of(call, draft, stored)
        except HandlerError as error:
            raise Missing(str(error)) from None
        is_text = text is not None and is_typable(text)
        draft = draft._replace(body=text or "", is_text=is_text, version=stored.version)
    return await _page(call, draft, stored)


async def _text_of(call: PageCall, draft: Draft, stored: StoredHandler) -> str | None:
    """What is stored of what is in the form: the file of the folder, or the body. None for a file that is no text."""
    if not draft.tree or draft.file in ("", draft.entry):
        return decode_handler(stored.data).body
    return await folders.read_text(call.service, stored, draft.file)


@pages.post("/ui/t/{tenant}/type/{type}/edit", scope="handlers", progress=True)
async def save_or_try(call: PageCall) -> Page | Go:
    return await _take(call, call.type_name)


async def _take(call: PageCall, type_name: str) -> Page | Go:
    """Try or save the content of the form. Errors are shown above the form."""
    form = call.form
    draft = Draft(
        type=type_name[:200],
        lang=form.get("lang", ""),
        body=form.get("body", ""),
        timeout_s=form.get("timeout_s", ""),
        memory_mb=form.get("memory_mb", ""),
        network=form.get("network") == "yes",
        more=form.get("more", "{}"),
        payload=form.get("payload", ""),
        payload_of=form.get("payload_of", ""),
        secrets=form.get("secrets", ""),
        entry=form.get("entry", ""),
        tree=form.get("tree", ""),
        file=form.get("file", ""),
        version=whole_number(form.get("version", "")),
    )
    if draft.version and form.get("version_of", draft.type) != draft.type:
        draft = draft._replace(version=0)  # of this one, none was seen
    stored = await _stored(call, type_name)
    tried: Stopped | None = None
    problem, line, column = "", 0, 0
    try:
        check_type_name(type_name)
        draft, late = await _on_active(call, draft, stored)
        fields = _fields(draft)
        if not late and form.get("do") == "save" and stored is not None:
            late = _unseen(draft, fields, stored)
            draft = draft._replace(version=stored.version) if late else draft
        if late:
            return (await _page(call, draft, stored, problem=late))._replace(status=409)
        fields = await _with_text(call, draft, stored, fields)
        if form.get("do") == "save":
            return await _save(call, type_name, fields)
        payload = await _payload_bytes(call, draft)
        invocation = handlers.invoke(call.service, call.who, type_name, payload, fields, tell=call.tell)
        tried = await while_present(call.request, invocation)
    except HandlerSyntaxError as error:
        problem = str(error)
        if error.field == "body":  # the line of another field would be marked in the wrong text
            problem, line, column = problem.removeprefix("body: "), error.line, error.column
    except (FunctoryError, HandlerError, LimitExceeded, RunnerError) as error:
        problem = str(error)
    return await _page(call, draft, stored, tried=tried, problem=problem, line=line, column=column)


async def _on_active(call: PageCall, draft: Draft, stored: StoredHandler | None) -> tuple[Draft, str]:
    """The draft on the folder that is active now: what others saved in its other files since the page was opened
    stays. And what to say if they saved the open file, or a handler that is another folder; then nothing is done."""
    now = decode_handler(stored.data) if stored is not None and draft.tree else None
    if stored is None or now is None or now.tree == draft.tree:
        return draft, ""
    if now.entry != draft.entry:
        return (
            draft,
            f"version {stored.version} was saved since you opened this one, and has other files: open it again",
        )
    name = draft.file or draft.entry
    is_late = await folders.has_changed(call.service, stored, draft.tree, name)
    draft = draft._replace(tree=now.tree)
    text = await _text_of(call, draft, stored) if is_late else None
    if not is_late or (text is not None and as_stored(draft.body, text) == text):
        return draft, ""
    return (
        draft,
        f"{name} was saved since you opened it: open it again to see that text, or go on to replace it with yours",
    )


def _unseen(draft: Draft, fields: Mapping[str, Any], stored: StoredHandler) -> str:
    """What to say if this would replace a version that was saved since the page was opened. The files of a folder have
    been looked at; then these are the settings."""
    if draft.version is None or draft.version == stored.version:
        return ""
    now = decode_handler(stored.data)
    is_same_text = bool(draft.tree) or (not now.tree and as_stored(draft.body, now.body) == now.body)
    mine = {**fields, "body": now.body or "-"}  # one that the language can have
    if is_same_text and draft.lang == now.lang and _settings(parse_handler(mine)) == _settings(now):
        return ""
    if not draft.version:
        return (
            f"the type {draft.type} has a handler already, version {stored.version}: look at it first, or save again"
            " to replace it with yours"
        )
    return (
        f"version {stored.version} was saved since you opened version {draft.version}: open it again to see what"
        " changed, or save again to replace it with yours"
    )


def _settings(handler: Handler) -> dict[str, Any]:
    return {name: value for name, value in handler.to_json().items() if name not in ("body", "tree", "lock")}


async def _save(call: PageCall, type_name: str, fields: Mapping[str, Any]) -> Go:
    before = await handlers.find_handler(call.service, call.tenant, type_name)
    stored = await handlers.put_handler(call.service, call.who, type_name, fields, tell=call.tell)
    is_same = before is not None and before.version == stored.version
    return Go(f"{call.home}/type/{type_name}", "unchanged" if is_same else "saved")


async def _stored(call: PageCall, type_name: str) -> StoredHandler | None:
    try:
        check_type_name(type_name)
    except InvalidInput:
        return None
    return await handlers.find_handler(call.service, call.tenant, type_name)


async def _page(
    call: PageCall,
    draft: Draft,
    stored: StoredHandler | None,
    *,
    tried: Stopped | None = None,
    problem: str = "",
    line: int = 0,
    column: int = 0,
) -> Page:
    values = {
        "draft": draft,
        "is_new": "type" not in call.params,
        "version": stored.version if stored else 0,
        "languages": list(LANGUAGES),
        "files": await file_rows(call.service, stored, draft.file or draft.entry) if draft.tree else [],
        "is_fixed": draft.file == PROJECT_FILE or not draft.is_text,
        "defaults": {"timeout_s": f"{DEFAULT_TIMEOUT_S:g}", "memory_mb": str(DEFAULT_MEMORY_MB)},
        "has_turning": inert_text.has_turning(draft.body),
        "problem": inert_text.spell(problem),
        "line": line,
        "column": column,
        "tried": tried,
        **(_outcome(draft, tried) if tried else {}),
    }
    return Page("editor.html", values, 422 if problem else 200)


def _outcome(draft: Draft, tried: Stopped) -> dict[str, Any]:
    """What a run has left, and what it would have left as a job."""
    return {
        "tried_line": error_line(draft.lang, tried, draft.tree and (draft.file or draft.entry), draft.entry),
        "tried_result": inert_text.show(tried.result),
        "tried_log": inert_text.show(tried.noted_log, is_log=True) if tried.noted_log else None,
        "tried_jobs": [
            (
                f"{job.type}?{job.options}" if job.options else job.type,
                inert_text.line(job.payload.decode("utf-8", "replace")),
            )
            for job in tried.new_jobs
        ],
        "tried_carried": None if tried.carried is None else inert_text.show(tried.carried),
    }


def _draft(type_name: str, handler: Handler, payload: str, payload_of: str) -> Draft:
    fields = handler.to_json()
    more = {
        name: value
        for name, value in fields.items()
        if name not in (*_OWN_FIELDS, "lock")  # the same text keeps its lock
        and value
        and (name, value) not in _DEFAULTS
    }
    return Draft(
        type=type_name,
        lang=handler.lang,
        body=handler.body,
        timeout_s=repr(handler.timeout_s).removesuffix(".0"),
        memory_mb=str(handler.memory_mb),
        network=handler.network,
        more=json.dumps(more, indent=2, ensure_ascii=False),
        payload=payload,
        payload_of=payload_of,
        secrets=" ".join(handler.secrets),
        entry=handler.entry,
        tree=handler.tree,
    )


def _fields(draft: Draft) -> dict[str, Any]:
    """The form as the handler's JSON. Values are checked later, with the handler. Raises BadRequest, InvalidInput,
    InvalidHandlerError, RequestTooLarge."""
    more = decode_handler_fields(draft.more.encode() or b"{}", "the text under More settings")
    if any(name in more for name in _OWN_FIELDS):
        raise InvalidInput(f"the settings under More settings are a JSON object without {', '.join(_OWN_FIELDS)}")
    fields: dict[str, Any] = {**more, "lang": draft.lang, "body": draft.body}
    try:
        if draft.timeout_s.strip():
            fields["timeout_s"] = float(draft.timeout_s)
        if draft.memory_mb.strip():
            fields["memory_mb"] = int(draft.memory_mb)
    except ValueError:
        raise InvalidInput("timeout and memory are numbers") from None
    if draft.network:
        fields["network"] = True
    if draft.secrets.strip():
        fields["secrets"] = draft.secrets.replace(",", " ").split()
    if draft.tree:
        fields |= {"entry": draft.entry, "tree": draft.tree}
    return fields


async def _with_text(
    call: PageCall, draft: Draft, stored: StoredHandler | None, fields: dict[str, Any]
) -> dict[str, Any]:
    """With the line ends that are stored. Of a folder whose other file is in the form: with that file changed, and the
    body of the entry."""
    before = await _text_of(call, draft, stored) if stored is not None else ""
    text = as_stored(draft.body, before or "")
    if not draft.tree or draft.file in ("", draft.entry):
        return {**fields, "body": text}
    handler = parse_handler({**fields, "body": "-"})
    if before is None and not text and stored is not None:  # not shown, so not changed either
        return {**fields, "body": decode_handler(stored.data).body}
    return {**fields, **await folders.edit_file(call.service, call.who, handler, draft.file, text)}


async def _payload(call: PageCall) -> tuple[str, str]:
    """A payload to try the handler on: of the job that the reader came from, or of the last that ended."""
    record = await _example(call)
    if record is None:
        return "", ""
    data = record.job.data
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "", record.job.id
    is_plain = len(data) <= _MAX_PAYLOAD and "\r" not in text and "\0" not in text
    return (text, "") if is_plain else ("", record.job.id)


async def _example(call: PageCall) -> JobRecord | None:
    job_id = call.query("job")
    if not job_id:
        ended = JobFilter(JobState.ARCHIVED, call.jobtype)
        page = await jobs.list_jobs(call.service, call.tenant, ended, cursor=None, limit=1)
        if not page.records:
            return None
        job_id = page.records[0].job.id
    found = await jobs.get_job(call.service, call.tenant, job_id, max_bytes=_MAX_PAYLOAD + 1)
    return None if isinstance(found, Queued) else found


async def _payload_bytes(call: PageCall, draft: Draft) -> bytes:
    if not draft.payload_of or draft.payload:
        return draft.payload.encode("utf-8", "surrogatepass")
    found = await jobs.get_job(call.service, call.tenant, draft.payload_of)
    if isinstance(found, Queued):
        raise Missing("that job's payload is not in the store yet")
    return await jobs.get_payload(call.service, call.tenant, found)
