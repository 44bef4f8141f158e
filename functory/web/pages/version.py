"""A version of a handler, and what it changed against another."""

import json
from typing import Final, NamedTuple

from functory.errors import Missing
from functory.execution.handler_document import decode_handler
from functory.operations import handlers
from functory.web.pages import inert_text
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Page, Pages
from functory.web.pages.folder_files import changed_texts, file_rows
from functory.web.pages.line_diff import unified
from store.base import Handler as StoredHandler

pages = Pages()

_MAX_DIFF_LINES: Final = 2000
_MAX_TEXT_LINES: Final = 5000
"""Of each version that are compared line by line; the rest counts as one line."""
_KINDS: Final = {"+": "added", "-": "removed", "@": "place", " ": "same"}


class DiffLine(NamedTuple):
    kind: str
    text: str


@pages.get("/ui/t/{tenant}/type/{type}/version/{version}", scope="read")
async def show_version(call: PageCall) -> Page:
    """A version, and its changes against the one before it or any other."""
    number = _version(call.params["version"])
    stored = await handlers.get_handler(call.service, call.tenant, call.type_name, number)
    versions = await handlers.list_versions(call.service, call.tenant, call.type_name)
    older = [it.version for it in versions if it.version < number]
    against = _version(call.query("against", "0") or "0") or (older[0] if older else 0)
    before = await handlers.get_handler(call.service, call.tenant, call.type_name, against) if against else None
    entry = decode_handler(stored.data).entry
    old, new = await changed_texts(call.service, before, stored, entry)
    lines, is_cut = diff(_text(before) + old, _text(stored) + new)
    values = {
        "type": call.type_name,
        "version": stored,
        "is_current": any(it.version == number and it.current for it in versions),
        "versions": [it.version for it in versions if it.version != number],
        "against": before.version if before else 0,
        "lines": lines,
        "is_cut": is_cut,
        "size_bytes": len(stored.data),
        "body": inert_text.show(decode_handler(stored.data).body.encode()),
        "has_turning": inert_text.has_turning(_text(stored) + new),
        "files": await file_rows(call.service, stored, entry),
    }
    return Page("version.html", values)


def _version(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Missing("there is no such version")
    return int(text)


def _text(stored: StoredHandler | None) -> str:
    """A version as text for comparison: the short fields first, then each text under its name."""
    if stored is None:
        return ""
    handler = decode_handler(stored.data)
    fields = handler.to_json()
    if handler.lock is not None:
        fields["lock"] = [f"{package.name} {package.version}" for package in handler.lock.packages]
    texts = ("body", "before", "beforeEach", "afterEach")
    head = [f"{name}: {json.dumps(fields[name], ensure_ascii=False)}" for name in fields if name not in texts]
    parts = [f"\n{name}:\n{fields[name]}" for name in texts if fields[name]]
    return "\n".join([*head, *parts])


def diff(before: str, after: str) -> tuple[list[DiffLine], bool]:
    """Lines of a unified diff as inert text; bounded in work and in length."""
    old, new = before.split("\n", _MAX_TEXT_LINES), after.split("\n", _MAX_TEXT_LINES)
    lines: list[DiffLine] = []
    for line in unified(old, new):
        if len(lines) >= _MAX_DIFF_LINES:
            return lines, True
        lines.append(DiffLine(_KINDS[line[0]], inert_text.line_kept(line)))
    return lines, False
