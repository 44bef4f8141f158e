"""The packages that a handler asks for, and the lock that they were resolved into.

A python handler asks in a block of comments (PEP 723), anywhere in its text:

    # /// script
    # requires-python = ">=3.11"
    # dependencies = ["requests>=2.31", "pillow"]
    # ///

A folder may ask in `requirements.txt` or in the `project` table of `pyproject.toml` instead. A node handler that is a
folder asks in `package.json` (`handlers.npm`).

Dependencies are names, extras, versions and markers. Addresses, paths and options are refused here: an installer
would go wherever they point. A `Lock` names every package with its exact version and the hashes of its files. Pure and
without I/O; the block is bounded before it is parsed.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from handlers import npm
from handlers.errors import InvalidHandlerError
from handlers.npm import NodeRequirements
from handlers.toml_text import parse_toml

MAX_BLOCK_BYTES: Final = 16 * 1024
MAX_DEPENDENCIES: Final = 100
MAX_PACKAGES: Final = 256
MAX_HASHES: Final = 1024  # of one package: it has a file for each platform and Python
MAX_LOCK_BYTES: Final = 512 * 1024

REQUIREMENTS_FILE: Final = "requirements.txt"
PYPROJECT_FILE: Final = "pyproject.toml"
MAX_FILE_BYTES: Final = 64 * 1024
FILES: Final[Mapping[str, Mapping[str, int]]] = {
    "python": {REQUIREMENTS_FILE: MAX_FILE_BYTES, PYPROJECT_FILE: MAX_FILE_BYTES},
    "node": {npm.PACKAGE_FILE: MAX_FILE_BYTES, npm.LOCK_FILE: npm.MAX_LOCK_FILE_BYTES},
}
"""Of a folder, by language: where it may ask for packages, and the bytes that such a file may have."""

_OPENING: Final = "# /// script"
_OPENING_LINE: Final = re.compile(rf"^{_OPENING}[ \t]*\r?\n", re.MULTILINE)
_CLOSING: Final = "# ///"
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"
_CLAUSE: Final = r"(?:===|==|~=|!=|<=|>=|<|>) ?[A-Za-z0-9][A-Za-z0-9.*+!_-]{0,63}"
_CLAUSES: Final = rf"{_CLAUSE}(?: ?, ?{_CLAUSE}){{0,9}}"
_DEPENDENCY: Final = re.compile(
    rf"{_NAME}(?: ?\[ ?{_NAME}(?: ?, ?{_NAME}){{0,9}} ?\])? ?(?:{_CLAUSES}|\( ?{_CLAUSES} ?\))?"
    r"(?: ?; ?[A-Za-z0-9_.'\"<>=!~ ()]{1,200})?"
)
_PACKAGE: Final = re.compile(_NAME)
_COMMENT: Final = re.compile(r"(?:^|\s)#.*")
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]{0,63}")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_PYTHON: Final = re.compile(r"3\.\d{1,2}")
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")
_WANTED_PYTHON: Final = re.compile(r"(===|==|~=|!=|<=|>=|<|>) ?(\d{1,4}(?:\.\d{1,4}){0,3})(\.\*)?")


class Requirements(NamedTuple):
    """What a handler asks for, as it was written."""

    dependencies: tuple[str, ...]
    requires_python: str = ""

    @property
    def lang(self) -> str:
        return "python"

    @property
    def names(self) -> tuple[str, ...]:
        """For people."""
        return self.dependencies

    @property
    def digest(self) -> str:
        """Tells what a lock was made from."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()[:32]

    def allows(self, python: str) -> bool:
        """Whether a Python of this version (3.11.7) will do."""
        version = tuple(map(int, python.split(".")[:3]))
        return all(_holds(version, *match.groups()) for match in _WANTED_PYTHON.finditer(self.requires_python))


Wanted = Requirements | NodeRequirements


class LockedPackage(NamedTuple):
    name: str
    version: str
    hashes: tuple[str, ...]


@dataclass(frozen=True)
class Lock:
    """Packages with exact versions and hashes, in order of name. `requirements` is the digest of what was asked for,
    `python` the version for which it was resolved. For node, `npm` is the lock itself as text, and `packages` the list
    of what it names."""

    requirements: str
    python: str
    packages: tuple[LockedPackage, ...]
    npm: str = ""

    @property
    def lang(self) -> str:
        return "node" if self.npm else "python"

    def to_json(self) -> dict[str, Any]:
        packages = [
            {"name": name, "version": version, "hashes": list(hashes)} for name, version, hashes in self.packages
        ]
        if self.npm:
            return {"requirements": self.requirements, "packages": packages, "npm": json.loads(self.npm)}
        return {"requirements": self.requirements, "python": self.python, "packages": packages}

    @cached_property
    def digest(self) -> str:
        """The same for all locks that install the same."""
        made_of = self.npm or json.dumps(self.packages)
        return hashlib.sha256(made_of.encode()).hexdigest()[:32]

    @cached_property
    def unrun(self) -> tuple[str, ...]:
        """The packages that would run a script when they are installed, which nobody lets them."""
        found = json.loads(self.npm)["packages"].items() if self.npm else ()
        return tuple(
            sorted({place.rpartition("node_modules/")[2] for place, entry in found if entry.get("hasInstallScript")})
        )

    def as_text(self) -> str:
        """As an installer reads it, with hashes."""
        return self.npm or "".join(
            f"{name}=={version} {' '.join(f'--hash={each}' for each in hashes)}\n"
            for name, version, hashes in self.packages
        )


def npm_lock(requirements: str, text: str) -> Lock:
    """Of the digest of what was asked for, and a clean lock of `handlers.npm`."""
    named = npm.packages_in(json.loads(text))
    packages = (LockedPackage(name, version, tuple(hashes.split())) for name, version, hashes in named)
    return Lock(requirements, "", tuple(packages), text)


def requirements_in(text: str) -> Requirements | None:
    """What the text of a python handler asks for; None if it asks for nothing. Raises InvalidHandlerError."""
    block = _block(text)
    if block is None:
        return None
    try:
        metadata = parse_toml(block)
    except ValueError as error:
        raise InvalidHandlerError("body", f"the block {_OPENING} is not TOML: {error}") from None
    requirements = make_requirements("body", metadata.get("dependencies", []), metadata.get("requires-python", ""))
    return requirements if requirements.dependencies else None


def requirements_of(lang: str, body: str, files: Mapping[str, bytes]) -> Wanted | None:
    """What a handler asks for, in its text or in some of its FILES. Raises InvalidHandlerError."""
    for name, data in files.items():
        check_size(lang, name, len(data))
    match lang:
        case "python":
            return _python_requirements(body, files)
        case "node":
            return npm.node_requirements(files)
        case _:
            return None


def check_size(lang: str, name: str, size_bytes: int) -> None:
    """Raises InvalidHandlerError for one of FILES that is too big."""
    most = FILES[lang][name]
    if size_bytes > most:
        raise InvalidHandlerError(name, f"has {size_bytes} bytes, at most {most} are taken")


def _python_requirements(body: str, files: Mapping[str, bytes]) -> Requirements | None:
    found = {"body": requirements_in(body)}
    for name, data in files.items():
        found[name] = _READERS[name](_text_of(name, data))
    asking = {name: requirements for name, requirements in found.items() if requirements is not None}
    if len(asking) > 1:
        places = " and in ".join("the text" if name == "body" else name for name in asking)
        raise InvalidHandlerError(next(reversed(asking)), f"packages are asked for in {places}: keep one of them")
    return next(iter(asking.values()), None)


def _text_of(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidHandlerError(name, f"is not text in UTF-8: {error.reason} at byte {error.start}") from None


def _from_requirements(text: str) -> Requirements | None:
    lines = [_COMMENT.sub("", line).strip() for line in text.splitlines()]
    requirements = make_requirements(REQUIREMENTS_FILE, [line for line in lines if line], "")
    return requirements if requirements.dependencies else None


def _from_pyproject(text: str) -> Requirements | None:
    try:
        project = parse_toml(text).get("project", {})
    except ValueError as error:
        raise InvalidHandlerError(PYPROJECT_FILE, f"is not TOML: {error}") from None
    if not isinstance(project, dict):
        raise InvalidHandlerError(PYPROJECT_FILE, "project must be a table")
    requirements = make_requirements(
        PYPROJECT_FILE, project.get("dependencies", []), project.get("requires-python", "")
    )
    return requirements if requirements.dependencies else None


_READERS: Final[Mapping[str, Callable[[str], Requirements | None]]] = {
    REQUIREMENTS_FILE: _from_requirements,
    PYPROJECT_FILE: _from_pyproject,
}


def make_requirements(field: str, dependencies: object, requires_python: object) -> Requirements:
    """Raises InvalidHandlerError at the first that is not plain."""
    if not isinstance(dependencies, list) or not all(isinstance(each, str) for each in dependencies):
        raise InvalidHandlerError(field, 'dependencies must be a list of strings, such as ["requests>=2.31"]')
    if len(dependencies) > MAX_DEPENDENCIES:
        raise InvalidHandlerError(field, f"has {len(dependencies)} dependencies, at most {MAX_DEPENDENCIES} are taken")
    plain = tuple(" ".join(each.split()) for each in dependencies)
    for each in plain:
        if not _DEPENDENCY.fullmatch(each):
            raise InvalidHandlerError(
                field,
                f"the dependency {each[:100]!r} must be a name with versions, such as requests>=2.31; addresses, paths"
                " and options are not taken",
            )
    if not isinstance(requires_python, str) or not _is_specifier(requires_python):
        raise InvalidHandlerError(field, "requires-python must be versions, such as >=3.11")
    return Requirements(plain, requires_python)


def parse_lock(value: object) -> Lock | None:
    """The lock in a handler's JSON; None for none. Raises InvalidHandlerError: it may come from anybody."""
    if value is None or value == {}:
        return None
    try:
        return _npm_lock(value) if isinstance(value, dict) and "npm" in value else _lock(value)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise InvalidHandlerError(
            "lock", "must be a lock as `GET handler` shows it: requirements, python, and packages with their hashes"
        ) from None


def why_too_big(lock: Lock) -> str:
    """Why a lock of python packages is not taken; "" if it is."""
    if len(lock.packages) > MAX_PACKAGES:
        return f"these are {len(lock.packages)} packages with all that they need, and {MAX_PACKAGES} is the limit"
    if len(lock.as_text()) > MAX_LOCK_BYTES:
        return f"the packages have so many files that their lock is over {MAX_LOCK_BYTES >> 10} KB, which is the limit"
    return ""


def read_locked(text: str) -> tuple[LockedPackage, ...]:
    """The packages in a resolver's output: lines `name==version`, each followed by its hashes. Raises ValueError."""
    packages = []
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pinned, *words = line.split(";")[0].split() + line.partition(";")[2].split()
        name, _, version = pinned.partition("==")
        hashes = sorted(word.removeprefix("--hash=") for word in words if word.startswith("--hash="))
        packages.append(_locked_package(name, version, hashes))
    return tuple(sorted(packages))


def _lock(value: Any) -> Lock:
    packages = tuple(_locked_package(each["name"], each["version"], each["hashes"]) for each in value["packages"])
    lock = Lock(value["requirements"], value["python"], packages)
    names = [each.name for each in packages]
    if (
        set(value) != {"requirements", "python", "packages"}
        or not _DIGEST.fullmatch(lock.requirements)
        or not _PYTHON.fullmatch(lock.python)
        or not packages
        or names != sorted(set(names))
        or why_too_big(lock)
    ):
        raise ValueError(names)
    return lock


def _npm_lock(value: dict[str, Any]) -> Lock:
    text = npm.as_text(npm.clean_lock(value["npm"]))
    lock = npm_lock(value["requirements"], text)
    if not _DIGEST.fullmatch(lock.requirements) or value != lock.to_json():  # nothing beside what a lock has
        raise ValueError(lock.requirements)
    return lock


def _locked_package(name: str, version: str, hashes: Sequence[str]) -> LockedPackage:
    if not _PACKAGE.fullmatch(name) or not _VERSION.fullmatch(version):
        raise ValueError(name)
    if not isinstance(hashes, list) or not 0 < len(hashes) <= MAX_HASHES or not all(map(_HASH.fullmatch, hashes)):
        raise ValueError(name)
    return LockedPackage(name, version, tuple(hashes))


def _block(text: str) -> str | None:
    """The content of the first block, without its comment signs."""
    opened = _OPENING_LINE.search(text)
    if opened is None:
        return None
    lines: list[str] = []
    for line in text[opened.end() : opened.start() + MAX_BLOCK_BYTES].replace("\r\n", "\n").split("\n"):
        if line.rstrip() == _CLOSING:
            return "\n".join(lines)
        if not line.startswith("#"):
            break
        lines.append(line[2:] if line.startswith("# ") else line[1:])
    raise InvalidHandlerError(
        "body", f"the block {_OPENING} does not end: close it with a line {_CLOSING} within {MAX_BLOCK_BYTES} bytes"
    )


def _is_specifier(text: str) -> bool:
    return not text or all(_WANTED_PYTHON.fullmatch(part.strip()) for part in text.split(","))


def _holds(version: tuple[int, ...], sign: str, text: str, wildcard: str | None) -> bool:
    given = tuple(map(int, text.split(".")))
    wanted = given + (0,) * (3 - len(given))
    is_same = version[: len(given)] == given if wildcard else version == wanted
    return {
        "==": is_same,
        "===": is_same,
        "!=": not is_same,
        "~=": version >= wanted and version[: len(given) - 1] == given[:-1],
        "<": version < wanted,
        "<=": version <= wanted,
        ">": version > wanted,
        ">=": version >= wanted,
    }[sign]
