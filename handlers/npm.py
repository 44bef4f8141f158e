"""What a node handler asks for in `package.json`, and the lock that npm makes of it.

Pure and without I/O. Both files come from anybody: they are bounded before they are parsed, and of what they hold only
the fields stay that decide which packages are installed. Dependencies are names with versions or tags, at every depth:
addresses, paths and git are refused by the name of whoever asks for them, because npm would go wherever they point.

A lock is a `package-lock.json` of version 3 without the addresses of files, which are the operator's registry to know.
Every package in it has a hash, or came in the file of one that has (`inBundle`).
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from handlers.errors import InvalidHandlerError

PACKAGE_FILE: Final = "package.json"
LOCK_FILE: Final = "package-lock.json"
MAX_LOCK_FILE_BYTES: Final = 1 << 20  # with what only developers need
MAX_DEPENDENCIES: Final = 100
MAX_PACKAGES: Final = 500
MAX_LOCK_BYTES: Final = 256 * 1024

_NAME: Final = r"(?:@[A-Za-z0-9~-][A-Za-z0-9._~-]{0,99}/)?[A-Za-z0-9~-][A-Za-z0-9._~-]{0,99}"
_RANGE: Final = r"(?:[A-Za-z0-9^~<>=*|][A-Za-z0-9^~<>=*|. +_-]{0,199})?"
_PLACE: Final = re.compile(rf"(?:node_modules/{_NAME}/){{0,15}}node_modules/({_NAME})")
_PACKAGE: Final = re.compile(_NAME)
_WANTED: Final = re.compile(rf"{_RANGE}|npm:{_NAME}(?:@{_RANGE})?")
_FILE: Final = re.compile(r"\.(tgz|tar\.gz|tar)$", re.IGNORECASE)  # npm takes such a version for a file
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,127}")
_HASH: Final = re.compile(r"sha(?:256|384|512)-[A-Za-z0-9+/]{43,86}={0,2}")
_PLATFORM: Final = re.compile(r"!?[A-Za-z0-9_-]{1,32}")
_MOST_PLATFORMS: Final = 64

_EDGES: Final = ("dependencies", "optionalDependencies", "peerDependencies")
_FLAGS: Final = ("optional", "peer", "hasInstallScript", "inBundle")
_PLATFORMS: Final = ("os", "cpu", "libc")
_REFUSED: Final = {
    "overrides": "ask for the versions that you need in dependencies, or put a package-lock.json beside it",
    "workspaces": "a handler is one package",
    "bundleDependencies": "a handler is not packed",
    "bundledDependencies": "a handler is not packed",
}


class NotLockableError(ValueError):
    """What the tenant reads, with the name of the package that is not as it must be."""


class NodeRequirements(NamedTuple):
    """What a handler asks for: names with versions, and the lock that it brings along, or ""."""

    dependencies: tuple[tuple[str, str], ...]
    optional: tuple[tuple[str, str], ...] = ()
    lock: str = ""

    @property
    def lang(self) -> str:
        return "node"

    @property
    def digest(self) -> str:
        """Tells what a lock was made from."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()[:32]

    @property
    def names(self) -> tuple[str, ...]:
        """For people."""
        return tuple(f"{name}@{wanted}" for name, wanted in (*self.dependencies, *self.optional))

    def as_package(self) -> dict[str, dict[str, str]]:
        """The `package.json` that npm gets."""
        return {"dependencies": dict(self.dependencies), "optionalDependencies": dict(self.optional)}


def node_requirements(files: Mapping[str, bytes]) -> NodeRequirements | None:
    """What the files of a folder ask for; None if they ask for nothing. Raises InvalidHandlerError."""
    if PACKAGE_FILE not in files:
        return None
    package = _parse(PACKAGE_FILE, files[PACKAGE_FILE])
    for name, reason in _REFUSED.items():
        if package.get(name):
            raise InvalidHandlerError(PACKAGE_FILE, f"{name} is not taken: {reason}")
    try:
        plain, optional = (_edges("it", name, package.get(name)) for name in _EDGES[:2])
    except NotLockableError as error:
        raise InvalidHandlerError(PACKAGE_FILE, str(error)) from None
    if len(plain) + len(optional) > MAX_DEPENDENCIES:
        raise InvalidHandlerError(PACKAGE_FILE, f"has more than {MAX_DEPENDENCIES} dependencies, which is the limit")
    if not plain and not optional:
        return None
    wanted = NodeRequirements(tuple(sorted(plain.items())), tuple(sorted(optional.items())))
    return wanted._replace(lock=_own_lock(files[LOCK_FILE])) if LOCK_FILE in files else wanted


def _own_lock(data: bytes) -> str:
    document = _parse(LOCK_FILE, data)
    if document.get("lockfileVersion") not in (2, 3):
        raise InvalidHandlerError(LOCK_FILE, "must be of version 2 or 3, as npm 7 and later write it")
    try:
        return as_text(clean_lock(document))
    except NotLockableError as error:
        raise InvalidHandlerError(LOCK_FILE, str(error)) from None


def _parse(name: str, data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidHandlerError(name, f"is not JSON: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise InvalidHandlerError(name, "must be a JSON object")
    return found


# The lock


def read_npm_lock(text: str, is_ours: Callable[[str], bool]) -> str:
    """The lock in what npm wrote. `is_ours` says whether an address is of the registry. Raises ValueError, as a
    rule NotLockableError with words for the tenant."""
    try:
        document = json.loads(text)
    except RecursionError:  # npm takes over what packages say of themselves: who pays for them, say
        raise NotLockableError("a package describes itself in something that is nested too deeply") from None
    return as_text(clean_lock(document, is_ours))


def as_text(lock: Mapping[str, Any]) -> str:
    return json.dumps(lock, sort_keys=True, separators=(",", ":"))


def clean_lock(document: object, is_ours: Callable[[str], bool] = lambda _: True) -> dict[str, Any]:
    """Of a `package-lock.json` what decides about packages. Cleaning it again changes nothing. Raises
    NotLockableError with the name of the package that is not as it must be."""
    found = document.get("packages") if isinstance(document, dict) else None
    if not isinstance(found, dict):
        raise NotLockableError("has no packages")
    packages: dict[str, dict[str, Any]] = {}
    for place, entry in found.items():
        if place and not _is_left_out(place, entry):
            packages[place] = _entry(place, entry, is_ours)
    if not 0 < len(packages) <= MAX_PACKAGES:
        raise NotLockableError(f"has {len(packages)} packages; it must have at least 1, and at most {MAX_PACKAGES}")
    for place, entry in packages.items():
        if entry.get("inBundle") and not packages.get(place.rpartition("/node_modules/")[0]):
            raise NotLockableError(f"{place[:200]} is in no package that brings it along")
    packages[""] = _root(found.get(""))
    lock = {"lockfileVersion": 3, "packages": packages, "requires": True}
    if len(as_text(lock)) > MAX_LOCK_BYTES:
        raise NotLockableError(f"names more than {MAX_LOCK_BYTES >> 10} KB of packages, which is the limit")
    return lock


def packages_in(lock: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Name, version and hash of each package in a clean lock, once."""
    known = {
        (entry.get("name", place.rpartition("node_modules/")[2]), entry["version"], entry.get("integrity", ""))
        for place, entry in lock["packages"].items()
        if place
    }
    yield from sorted(known)


def _is_left_out(place: object, entry: object) -> bool:
    """Only developers need it. (Not if something optional does, too.)"""
    if not isinstance(entry, dict):
        raise NotLockableError(f"{str(place)[:200]!r} must be an object")
    return entry.get("dev") is True or entry.get("extraneous") is True


def _root(entry: object) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise NotLockableError('has no entry "", which says what is asked for')
    return {name: edges for name in _EDGES[:2] if (edges := _edges("it", name, entry.get(name)))}


def _entry(place: str, entry: dict[str, Any], is_ours: Callable[[str], bool]) -> dict[str, Any]:
    match = _PLACE.fullmatch(place)
    if match is None or entry.get("link"):
        raise NotLockableError(f"{place[:200]!r} is not a package of the registry: links and paths are not taken")
    name = entry.get("name", match[1])
    if not isinstance(name, str) or not _PACKAGE.fullmatch(name):
        raise NotLockableError(f"{place[:200]}: its name is not that of a package")
    version = entry.get("version")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise NotLockableError(f"{name} has no version of the registry: addresses, paths and git are not taken")
    address = entry.get("resolved", "")
    if address and not (isinstance(address, str) and address.startswith(("http://", "https://")) and is_ours(address)):
        raise NotLockableError(f"{name} {version} is not from the registry, but from {str(address)[:200]!r}")
    kept: dict[str, Any] = {"version": version}
    if name != match[1]:
        kept["name"] = name
    kept |= {flag: True for flag in _FLAGS if entry.get(flag) is True}
    if entry.get("devOptional") is True:
        kept["optional"] = True
    if "inBundle" not in kept:
        kept["integrity"] = _integrity(name, version, entry.get("integrity"))
    kept |= {kind: edges for kind in _EDGES if (edges := _edges(name, kind, entry.get(kind)))}
    if brought := _names(name, entry.get("bundleDependencies")):
        kept["bundleDependencies"] = brought
    if optional := _optional_peers(entry.get("peerDependenciesMeta")):
        kept["peerDependenciesMeta"] = optional
    return kept | {kind: words for kind in _PLATFORMS if (words := _platforms(name, kind, entry.get(kind)))}


def _integrity(name: str, version: str, value: object) -> str:
    hashes = value.split() if isinstance(value, str) else []
    strong = [each for each in hashes if _HASH.fullmatch(each)]
    if not strong or len(strong) > 4:
        raise NotLockableError(f"{name} {version} has no hash (integrity) of sha256 or longer, and so cannot be locked")
    return " ".join(strong)


def _edges(owner: str, kind: str, value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAX_PACKAGES:
        raise NotLockableError(f'{kind} of {owner} must be an object, such as {{"lodash": "^4.17.0"}}')
    for name, wanted in value.items():
        if not _PACKAGE.fullmatch(name) or not isinstance(wanted, str) or not _is_plain(wanted):
            raise NotLockableError(
                f"{owner} asks for {name[:100]!r} as {str(wanted)[:200]!r}, which must be versions or a tag, such as"
                " ^4.17.0; addresses, paths and git are not taken"
            )
    return {name: wanted.strip() for name, wanted in sorted(value.items())}


def _is_plain(wanted: str) -> bool:
    return bool(_WANTED.fullmatch(wanted.strip())) and not _FILE.search(wanted.strip())


def _names(owner: str, value: object) -> list[str]:
    """Of packages that another brings along."""
    if not value:
        return []
    if not isinstance(value, list) or len(value) > MAX_PACKAGES:
        raise NotLockableError(f"bundleDependencies of {owner} must be a list of names")
    if not all(isinstance(name, str) and _PACKAGE.fullmatch(name) for name in value):
        raise NotLockableError(f"bundleDependencies of {owner} must be a list of names")
    return value


def _optional_peers(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    optional = [name for name, about in value.items() if isinstance(about, dict) and about.get("optional") is True]
    return {name: {"optional": True} for name in sorted(optional) if _PACKAGE.fullmatch(name)}


def _platforms(name: str, kind: str, value: object) -> list[str]:
    words = [value] if isinstance(value, str) else value
    if words is None:
        return []
    if not isinstance(words, list) or len(words) > _MOST_PLATFORMS:
        raise NotLockableError(f"{kind} of {name} must be a list of names")
    if not all(isinstance(word, str) and _PLATFORM.fullmatch(word) for word in words):
        raise NotLockableError(f"{kind} of {name} must be a list of names")
    return words
