"""Strict reading of a handler that a tenant sends: every field is known, of the right kind and within bounds,
or it is refused.

Pure and without I/O. Whether the text of a body parses is another question, answered inside a sandbox by
`runner.Runner.check`: nothing of a tenant's is parsed in the daemon but JSON and URLs.
"""

import base64
import binascii
import math
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from handlers.errors import InvalidHandlerError
from handlers.hosts import parse_pattern
from handlers.languages import LANGUAGES, Language
from handlers.model import (
    DEFAULT_MEMORY_MB,
    DEFAULT_TIMEOUT_S,
    JSON_NAMES,
    KEEP_ALL,
    KEEP_FAILED,
    KEEP_NONE,
    STATUS,
    VALUE,
    Handler,
)
from handlers.packages import Lock, parse_lock
from vocabulary.job_limits import RANGES
from vocabulary.names import MAX_LABEL_CHARS, is_label, is_type

MIN_TIMEOUT_S: Final = 0.05
MAX_TIMEOUT_S: Final = 3600.0
MAX_WORKER_TIMEOUT_S: Final = 30 * 86_400.0
MAX_MEMORY_MB: Final = 4096
MAX_ENV_ENTRIES: Final = 64
MAX_ENV_BYTES: Final = 32 * 1024
MAX_SECRETS: Final = 16
MAX_SIGNING: Final = 4
"""Of an http handler, which signs with them."""
MAX_HOSTS: Final = 32
MAX_HOOK_BYTES: Final = 256 * 1024

# What a handler may set under `options`: name -> smallest and biggest value.
OPTIONS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "max_batch": (1, 1000),
        "keep_processes": (0, 1),
        "max_attempts": RANGES["max_attempts"],
        "retry_base_ms": RANGES["retry_base_ms"],
        "retry_max_ms": RANGES["retry_max_ms"],
        "retry_window_s": RANGES["retry_window_s"],
        "lease_s": (1, 86_400),
        "max_per_key": (1, 10_000),
        "max_wait_s": RANGES["max_wait_s"],
        "printed_jobs": (0, 1),
    }
)
_ONLY_FOR_WORKERS: Final = frozenset({"lease_s"})
_NOT_FOR_WORKERS: Final = frozenset({"keep_processes", "printed_jobs"})

_EID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# The loader and the programs that set up a sandbox read these before the tenant's code is confined.
_ENV_REFUSED: Final = re.compile(r"LD_.*|GLIBC_TUNABLES|FUNCTORY_.*")
_TREE: Final = re.compile(r"[0-9a-f]{64}")
_HOOKS: Final = ("before", "beforeEach", "afterEach")


def check_field_names(names: Iterable[object]) -> None:
    """Raises InvalidHandlerError naming the first that is not a field of a handler."""
    for name in names:
        if name not in JSON_NAMES.values():
            raise InvalidHandlerError(
                str(name)[:64], f"is not a field of a handler; fields are {', '.join(JSON_NAMES.values())}"
            )


def parse_handler(data: object) -> Handler:
    """The handler that `data` (decoded JSON) describes.

    Raises InvalidHandlerError naming the first field that is wrong.
    """
    if not isinstance(data, Mapping):
        raise InvalidHandlerError("handler", "must be a JSON object with at least lang and body")
    check_field_names(data)
    language = _language(data.get("lang"))
    hooks = {name: _hook(data, name, language) for name in _HOOKS}
    return Handler(
        lang=language.name,
        body=_body(data.get("body"), language),
        before=hooks["before"],
        before_each=hooks["beforeEach"],
        after_each=hooks["afterEach"],
        eid=_eid(data.get("eid", ""), language),
        env=_env(data.get("env", {}), language),
        secrets=_secrets(data.get("secrets", ()), data.get("env", {}), language),
        timeout_s=_timeout_s(data.get("timeout_s", 0.0 if language.is_external else DEFAULT_TIMEOUT_S), language),
        memory_mb=_memory_mb(data.get("memory_mb", max(DEFAULT_MEMORY_MB, language.min_memory_mb)), language),
        network=_network(data.get("network", False), language),
        hosts=_hosts(data.get("hosts", ()), language, network=data.get("network") is True),
        returns=_returns(data.get("returns", VALUE), language),
        then=_type("then", data.get("then", "")),
        on_failure=_type("on_failure", data.get("on_failure", "")),
        keep=_keep(data.get("keep", KEEP_ALL)),
        domain=_domain(data.get("domain", "")),
        options=_options(data.get("options", {}), language),
        lock=_lock(data.get("lock"), language),
        **_folder(data.get("entry", ""), data.get("tree", ""), language),
    )


def _folder(entry: object, tree: object, language: Language) -> dict[str, str]:
    """The two fields of a handler that is a folder; whether there is such a folder is the application's to know."""
    if tree in ("", None):
        if entry not in ("", None):
            raise InvalidHandlerError("entry", "is for handlers that are folders; leave it out")
        return {}
    if not isinstance(tree, str) or not _TREE.fullmatch(tree):
        raise InvalidHandlerError("tree", "must be the digest of a folder that was sent before: 64 hex digits")
    if not language.folder_suffixes:
        raise InvalidHandlerError("tree", f"has no meaning for {language.name}, whose handlers are one text")
    if not isinstance(entry, str) or not entry:
        raise InvalidHandlerError("entry", "must be the name of a file in the folder, such as main.py")
    return {"entry": entry, "tree": tree}


def _language(value: object) -> Language:
    if not isinstance(value, str) or value not in LANGUAGES:
        raise InvalidHandlerError("lang", f"must be one of {', '.join(LANGUAGES)}")
    return LANGUAGES[value]


def _text(name: str, value: object, max_bytes: int) -> str:
    if not isinstance(value, str):
        raise InvalidHandlerError(name, "must be a string")
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError as err:
        raise InvalidHandlerError(
            name, f"is not valid Unicode at character {err.start + 1}; remove the lone surrogate"
        ) from err
    if size_bytes > max_bytes:
        raise InvalidHandlerError(name, f"has {size_bytes} bytes, at most {max_bytes} are taken; make it shorter")
    if "\0" in value:
        raise InvalidHandlerError(name, f"has a NUL at character {value.index(chr(0)) + 1}; remove it")
    return value


def _body(value: object, language: Language) -> str:
    if language.is_external:  # it describes the payload for people, who may do without
        return _text("body", "" if value is None else value, language.body_max_bytes)
    if value is None:
        raise InvalidHandlerError("body", "is missing; send the code of the handler (a URL when lang is http)")
    body = _text("body", value, language.body_max_bytes)
    if not body.strip():
        raise InvalidHandlerError("body", "is empty; send the code of the handler (a URL when lang is http)")
    if language.name == "http":
        return _url(body.strip())
    if language.is_binary:
        return _module(body)
    return body


def _url(text: str) -> str:
    """A plain http(s) URL.

    Where it may point is checked at each connection, because names change their addresses.
    """
    try:
        url = urlsplit(text)
        port_ok = url.port is None or url.port > 0
    except ValueError as err:
        raise InvalidHandlerError("body", f"is not a URL: {err}") from err
    if url.scheme not in {"http", "https"} or not url.hostname or not port_ok:
        raise InvalidHandlerError("body", "must be an absolute URL that starts with http:// or https://")
    if url.username is not None or url.password is not None:
        raise InvalidHandlerError(
            "body", "must not carry user:password@ before the host; use a token in the path or query"
        )
    if any(ord(char) <= 32 or ord(char) == 127 for char in text):
        raise InvalidHandlerError("body", "must be one URL without blanks or control characters")
    return text


def _module(text: str) -> str:
    try:
        module = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as err:
        raise InvalidHandlerError("body", f"must be a WebAssembly module in base64: {err}") from err
    if not module.startswith(b"\0asm"):
        raise InvalidHandlerError("body", "is base64, but not of a WebAssembly module: it does not start with \\0asm")
    return text


def _hook(data: Mapping[str, Any], name: str, language: Language) -> str:
    value = data.get(name, "")
    if value in ("", None):
        return ""
    if not language.hooks:
        raise InvalidHandlerError(name, f"is not available for {language.name}; leave it out")
    return _text(name, value, MAX_HOOK_BYTES)


def _eid(value: object, language: Language) -> str:
    if value in ("", None):
        return ""
    if not isinstance(value, str) or not _EID.fullmatch(value):
        raise InvalidHandlerError("eid", "must be 1 to 64 letters, digits or _ . : - and start with a letter or digit")
    if not language.in_context:
        raise InvalidHandlerError(
            "eid", f"has no meaning for {language.name}, which has no context to share; leave it out"
        )
    return value


def _env(value: object, language: Language) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidHandlerError("env", "must be an object of strings")
    if value and not language.in_context:
        raise InvalidHandlerError("env", f"has no meaning for {language.name}; leave it out")
    if len(value) > MAX_ENV_ENTRIES:
        raise InvalidHandlerError("env", f"has {len(value)} entries, at most {MAX_ENV_ENTRIES} are taken")
    env: dict[str, str] = {}
    for name, text in value.items():
        if not isinstance(name, str) or not _ENV_NAME.fullmatch(name):
            raise InvalidHandlerError("env", "has a name that is not letters, digits and _ (not starting with a digit)")
        if _ENV_REFUSED.fullmatch(name):
            raise InvalidHandlerError(f"env.{name}", "may not be set by a handler; leave it out")
        env[name] = _text(f"env.{name}", text, MAX_ENV_BYTES)
    if sum(len(name) + len(text.encode()) for name, text in env.items()) > MAX_ENV_BYTES:
        raise InvalidHandlerError("env", f"is bigger than {MAX_ENV_BYTES} bytes altogether; make it smaller")
    return MappingProxyType(env)


def check_secret_name(name: object) -> str:
    """Raises InvalidHandlerError unless a secret may have the name: it becomes an environment variable."""
    if not isinstance(name, str):
        raise InvalidHandlerError("secrets", "has a name that is not text")
    if trouble := secret_name_trouble(name):
        raise InvalidHandlerError("secrets", f"{name!r:.80} {trouble}")
    return name


def secret_name_trouble(name: str) -> str:
    """What is wrong with the name, to be read after it; empty if nothing is."""
    if not _ENV_NAME.fullmatch(name):
        return "is not a name of letters, digits and _ that does not start with a digit"
    return "may not be set by a tenant; choose another name" if _ENV_REFUSED.fullmatch(name) else ""


def _secrets(value: object, env: Mapping[str, Any], language: Language) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidHandlerError("secrets", 'must be a list of names, such as ["API_KEY"]')
    if value and language.is_external:
        raise InvalidHandlerError("secrets", "are not sent to workers: give them theirs yourself")
    most = MAX_SECRETS if language.in_context else MAX_SIGNING
    if len(value) > most:
        raise InvalidHandlerError("secrets", f"has {len(value)} names, at most {most} are taken")
    names = tuple(dict.fromkeys(map(check_secret_name, value)))
    if both := next((name for name in names if name in env), None):
        raise InvalidHandlerError("secrets", f"{both} is in env too; leave it out of one of them")
    return names


def _timeout_s(value: object, language: Language) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidHandlerError("timeout_s", "must be a number of seconds")
    if isinstance(value, float) and not math.isfinite(value):  # a large whole number has no float
        raise InvalidHandlerError("timeout_s", "must be a number of seconds")
    if language.is_external:
        if value != 0 and not MIN_TIMEOUT_S <= value <= MAX_WORKER_TIMEOUT_S:
            bounds = f"between {MIN_TIMEOUT_S:g} and {MAX_WORKER_TIMEOUT_S:.0f} seconds"
            raise InvalidHandlerError("timeout_s", f"must be 0 (no limit) or {bounds}")
    elif not MIN_TIMEOUT_S <= value <= MAX_TIMEOUT_S:
        raise InvalidHandlerError("timeout_s", f"must be between {MIN_TIMEOUT_S:g} and {MAX_TIMEOUT_S:g} seconds")
    return float(value)


def _memory_mb(value: object, language: Language) -> int:
    if language.is_external and value != DEFAULT_MEMORY_MB:
        raise InvalidHandlerError("memory_mb", f"has no meaning for {language.name}; leave it out")
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidHandlerError("memory_mb", "must be a whole number of megabytes")
    if not language.min_memory_mb <= value <= MAX_MEMORY_MB:
        bounds = f"between {language.min_memory_mb} and {MAX_MEMORY_MB}"
        raise InvalidHandlerError("memory_mb", f"must be {bounds} for {language.name}")
    return value


def _network(value: object, language: Language) -> bool:
    if not isinstance(value, bool):
        raise InvalidHandlerError("network", "must be true or false")
    if value and language.is_external:
        raise InvalidHandlerError("network", f"has no meaning for {language.name}; leave it out")
    return value


def _hosts(value: object, language: Language, *, network: bool) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise InvalidHandlerError("hosts", 'must be a list of hosts, such as ["api.example.org", "*.example.org:8443"]')
    if not value:
        return ()
    if not language.in_context or not language.connects:
        raise InvalidHandlerError("hosts", f"has no meaning for {language.name}; leave it out")
    if network:
        raise InvalidHandlerError("hosts", "is for handlers without network: leave network or hosts out")
    if len(value) > MAX_HOSTS:
        raise InvalidHandlerError("hosts", f"has {len(value)} entries, at most {MAX_HOSTS} are taken")
    try:
        return tuple(dict.fromkeys(str(parse_pattern(each)) for each in value))
    except ValueError as error:
        raise InvalidHandlerError("hosts", str(error)) from None


def _returns(value: object, language: Language) -> str:
    if value not in (VALUE, STATUS):
        raise InvalidHandlerError("returns", f"must be {VALUE} or {STATUS}: what a returned whole number is")
    if value == STATUS and not language.returns_values:
        raise InvalidHandlerError("returns", f"has no meaning for {language.name}; leave it out")
    return str(value)


def _type(name: str, value: object) -> str:
    if not isinstance(value, str) or (value and not is_type(value)):
        raise InvalidHandlerError(name, "must be a type of the tenant: letters, digits and _ . : -, or empty")
    return value


def _keep(value: object) -> str:
    if value not in (KEEP_ALL, KEEP_FAILED, KEEP_NONE):
        raise InvalidHandlerError(
            "keep", f"must be {KEEP_ALL}, {KEEP_FAILED} or {KEEP_NONE}: which ended jobs are kept"
        )
    return str(value)


def _domain(value: object) -> str:
    if not isinstance(value, str) or (value and not is_label(value)):
        raise InvalidHandlerError(
            "domain", f"must be a rate domain: up to {MAX_LABEL_CHARS} characters without control characters, or empty"
        )
    return value


def _lock(value: object, language: Language) -> Lock | None:
    lock = parse_lock(value)
    if lock is not None and not language.packages_from:
        raise InvalidHandlerError("lock", f"has no meaning for {language.name}; leave it out")
    if lock is not None and lock.lang != language.name:
        raise InvalidHandlerError("lock", f"is of {lock.lang} packages, and the handler is in {language.name}")
    return lock


def _options(value: object, language: Language) -> Mapping[str, int]:
    if not isinstance(value, Mapping):
        raise InvalidHandlerError("options", "must be an object")
    for name, number in value.items():
        if name not in OPTIONS:
            raise InvalidHandlerError(
                f"options.{str(name)[:64]}", f"is not an option; options are {', '.join(OPTIONS)}"
            )
        if name in (_NOT_FOR_WORKERS if language.is_external else _ONLY_FOR_WORKERS):
            raise InvalidHandlerError(f"options.{name}", f"has no meaning for {language.name}; leave it out")
        low, high = OPTIONS[name]
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise InvalidHandlerError(f"options.{name}", f"must be a whole number between {low} and {high}")
    return MappingProxyType(dict(value))
