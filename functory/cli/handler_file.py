"""A handler from a file: the body is the content, and the extension gives the language."""

import asyncio
import base64
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aiofiles

from functory.errors import ClientError, InvalidInput
from handlers.errors import HandlerSyntaxError
from handlers.languages import LANGUAGE_OF_FILE, LANGUAGES
from handlers.model import Handler
from handlers.validation import parse_handler
from vocabulary.names import WORKER

_NO_SETTINGS: Final = frozenset({"lang", "body", "lock", "entry", "tree"})


async def read_handler(file: Path, lang: str | None, **fields: object) -> Handler:
    """A handler whose body is the file. Raises InvalidInput, InvalidHandlerError, OSError."""
    lang, body = await read_body(str(file), lang)
    return parse_handler({"lang": lang, "body": body, **fields})


async def read_body(source: str | None, lang: str | None) -> tuple[str, str]:
    """(language, body) of a file, or of a URL. None: a type that workers serve, of which nothing need be said."""
    if source is None and lang == WORKER:
        return lang, ""
    if source is None:
        raise InvalidInput("No FILE: give the code of the handler, or --lang worker if workers serve the type")
    if lang == "http" or source.startswith(("http://", "https://")):
        return "http", source
    path = Path(source)
    if await asyncio.to_thread(path.is_dir):
        raise InvalidInput(f"{source} is a folder: `functory test` runs it here, `functory deploy` registers it")
    lang = lang or LANGUAGE_OF_FILE.get(path.suffix)
    if lang is None and path.suffix == ".mjs":
        raise InvalidInput(
            f"{source}: A node handler in one file is the body of a function, and no module; for import and export make"
            " a folder with main.mjs (`functory init --lang node`)"
        )
    if lang is None:
        known = ", ".join(LANGUAGE_OF_FILE)
        raise InvalidInput(f"{source}: Unknown extension; use --lang (known: {known})")
    async with aiofiles.open(source, "rb") as opened:
        content = await opened.read()
    is_binary = lang in LANGUAGES and LANGUAGES[lang].is_binary
    return lang, base64.b64encode(content).decode() if is_binary else _text(content, source)


@contextmanager
def named_files(files: Mapping[str, str]) -> Iterator[None]:
    """A mistake in a text names the file that it came from, by the field whose text that is. Raises InvalidInput."""
    try:
        yield
    except (ClientError, HandlerSyntaxError) as error:
        code = error.error_code if isinstance(error, ClientError) else error.code
        field = str(error.detail.get("field")) if isinstance(error, ClientError) else error.field
        if code != HandlerSyntaxError.code or field not in files:
            raise
        raise InvalidInput(f"{files[field]}: {str(error).removeprefix(f'{field}: ')}") from error


async def read_text(file: Path) -> str:
    async with aiofiles.open(file, "rb") as opened:
        return _text(await opened.read(), str(file))


def settings_besides(document: Mapping[str, object], said: Container[str]) -> list[str]:
    """The names of settings of a handler that are not at their defaults, without those that were said."""
    plain = parse_handler({"lang": document["lang"], "body": document["body"]}).to_json()
    return [
        name
        for name, value in document.items()
        if name not in _NO_SETTINGS and name not in said and value != plain.get(name)
    ]


def _text(content: bytes, source: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{source}: not UTF-8 text at byte {error.start}") from None
