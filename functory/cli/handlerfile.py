"""A handler out of a file: its body is the content, its language told by the suffix."""

import base64
from pathlib import Path
from typing import Final

from functory.errors import InvalidInput
from handlers.model import Handler
from handlers.validation import parse_handler

LANGUAGE_OF_SUFFIX: Final = {
    ".py": "python",
    ".js": "node",
    ".mjs": "node",
    ".sh": "sh",
    ".php": "php",
    ".wasm": "wasm",
}


def read_handler(file: Path, lang: str | None, **fields: object) -> Handler:
    """A handler whose body is the file."""
    lang = lang or LANGUAGE_OF_SUFFIX.get(file.suffix)
    if lang is None:
        known = ", ".join(LANGUAGE_OF_SUFFIX)
        raise InvalidInput(f"{file}: the suffix does not tell the language (known: {known}); say --lang")
    content = file.read_bytes()
    body = base64.b64encode(content).decode() if lang == "wasm" else content.decode()
    return parse_handler({"lang": lang, "body": body, **fields})
