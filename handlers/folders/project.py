"""The fields of a handler that is a folder: what `functory.toml` says, and the entry file."""

from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Any, Final

from handlers.errors import InvalidHandlerError
from handlers.folders.names import FIELD, clean_name, refuse
from handlers.languages import LANGUAGE_OF_ENTRY, LANGUAGES
from handlers.toml_text import parse_toml

PROJECT_FILE: Final = "functory.toml"
MAX_PROJECT_BYTES: Final = 64 * 1024
_ELSEWHERE: Final = {"body": "the entry file is the body", "tree": "the files of the folder make it"}


def read_project(text: bytes) -> dict[str, Any]:
    """The fields in `functory.toml`. Whether they are a handler's is checked with all others."""
    try:
        fields = parse_toml(text.decode())
    except ValueError as error:  # not UTF-8, or not TOML
        raise InvalidHandlerError(PROJECT_FILE, f"is not TOML: {error}") from None
    for name, why in _ELSEWHERE.items():
        if name in fields:
            raise InvalidHandlerError(PROJECT_FILE, f"has {name}: leave it out, {why}")
    return fields


def complete_project(fields: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The fields with `lang` and `entry`, which are found by the files if they are not there."""
    lang, entry = fields.get("lang"), fields.get("entry")
    if entry is None:
        entry = _find_entry(lang, names)
    elif not isinstance(entry, str) or not entry or clean_name(entry) != entry:
        raise InvalidHandlerError("entry", "must be the name of a file in the folder, such as main.py")
    elif entry not in names:
        raise refuse(entry, f"is named as entry in {PROJECT_FILE}, and is not in the folder")
    if lang is None:
        lang = LANGUAGE_OF_ENTRY.get(PurePosixPath(entry).suffix)
        if lang is None:
            raise InvalidHandlerError("lang", f"is not known by the suffix of {entry}: say it in {PROJECT_FILE}")
    return {**fields, "lang": lang, "entry": entry}


def _find_entry(lang: object, names: Collection[str]) -> str:
    candidates = [f"main{suffix}" for suffix, its in LANGUAGE_OF_ENTRY.items() if lang in (None, its)]
    found = [name for name in candidates if name in names]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidHandlerError(
            "entry", f"may be one of {', '.join(found)}: say which in {PROJECT_FILE}, with entry = {found[0]!r}"
        )
    if isinstance(lang, str) and lang in LANGUAGES and not LANGUAGES[lang].folder_suffixes:
        raise InvalidHandlerError("lang", f"{lang} handlers are one text and no folder")
    raise InvalidHandlerError(
        FIELD, f"have no entry file: none of {', '.join(candidates)} is at the top, and {PROJECT_FILE} names none"
    )
