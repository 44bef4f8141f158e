"""Hosts by name, as handlers list them and operators allow them: `api.example.org:8443`, `*.example.org`, `*`. Pure.

A pattern without a port means ports 80 and 443. `*.example.org` is every name below `example.org`, and not that name
itself. `*` is every host. Names are compared in one spelling: lower case, without the last dot, in ASCII (IDNA).
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

DEFAULT_PORTS: Final = (80, 443)
ANY_PORT: Final = "*"

MAX_NAME: Final = 253
_MAX_PATTERN: Final = 280
_MAX_PORT: Final = 65_535
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NO_NAME: Final = "what stands for the host is neither a name nor an address"
_EXPECTED: Final = "a host such as api.example.org, api.example.org:8443 or *.example.org"


@dataclass(frozen=True, slots=True)
class HostPattern:
    """`name` is a host in its one spelling, `*.` and such a name, or `*`. `ports` empty: every port."""

    name: str
    ports: tuple[int, ...] = DEFAULT_PORTS

    def matches(self, host: str, port: int) -> bool:
        """`host` is in the spelling of `host_name`."""
        return self._has_port(port) and self.has_name(host)

    def _has_port(self, port: int) -> bool:
        return not self.ports or port in self.ports

    def has_name(self, name: str) -> bool:
        """Whether it is one that this pattern means, or a pattern of nothing but such names."""
        if self.name == "*":
            return True
        if self.name.startswith("*."):
            return name.endswith(self.name[1:]) and name != self.name[1:]
        return name == self.name

    def covers(self, other: "HostPattern", port: int) -> bool:
        """Whether all that `other` means at this port is meant by this one too."""
        return self._has_port(port) and self.has_name(other.name)

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        if self.ports == DEFAULT_PORTS:
            return name
        return f"{name}:{self.ports[0] if self.ports else ANY_PORT}"


ANY_HOST: Final = HostPattern("*")


def parse_pattern(text: str, *, any_port: bool = False) -> HostPattern:
    """Raises ValueError with the reason. With `any_port` the port may be `*`: for operators."""
    if len(text) > _MAX_PATTERN:
        raise ValueError(f"{text[:40]!r}... is not {_EXPECTED}")
    if "/" in text:
        raise ValueError(f"{text!r} is not a host: leave out http:// and the path, as in api.example.org")
    try:
        name, ports = _split(text.strip(), any_port=any_port)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    if name == "*":
        return HostPattern(name, ports)
    wild, plain = ("*.", name[2:]) if name.startswith("*.") else ("", name)
    try:
        host = host_name(plain)
    except ValueError:
        raise ValueError(f"{text!r} is not {_EXPECTED}") from None
    if wild and is_address(host):
        raise ValueError(f"{text!r}: an address has no names below it")
    return HostPattern(wild + host, ports)


def parse_patterns(text: str) -> tuple[HostPattern, ...]:
    """An operator's list, with commas."""
    return tuple(parse_pattern(part, any_port=True) for part in text.split(",") if part.strip())


def _split(text: str, *, any_port: bool) -> tuple[str, tuple[int, ...]]:
    """Name and ports. An IPv6 address with a port is in brackets."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", text)
    if bracketed:
        name, port = bracketed[1], bracketed[2]
    elif text.count(":") == 1:
        name, port = text.split(":")
    else:
        name, port = text, None
    if port is None:
        return name, DEFAULT_PORTS
    if port == ANY_PORT and any_port:
        return name, ()
    return name, (parse_port(port),)


def parse_port(text: str) -> int:
    """Raises ValueError unless it is a number from 1 to 65535. The message repeats nothing, as that of `host_name`."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= _MAX_PORT):
        raise ValueError(f"the port is not a number from 1 to {_MAX_PORT}")
    return int(text)


def host_name(text: str) -> str:
    """A name or an address in the one spelling in which they are compared. Raises ValueError.

    Numbers that only some programs take for addresses (`127.1`, `0x7f000001`) are neither. The message repeats nothing
    of the text: it may have a secret, and a part of one would not be recognised.
    """
    if not 0 < len(text) <= MAX_NAME:
        raise ValueError(f"a host has 1 to {MAX_NAME} characters")
    if "%" in text:
        raise ValueError("an address with a zone is of this machine only")
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        name = text
    try:
        name = name.lower() if name.isascii() else name.encode("idna").decode().lower()
    except UnicodeError:
        raise ValueError(_NO_NAME) from None
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > MAX_NAME or not all(map(_LABEL.fullmatch, labels)) or _NUMBER.fullmatch(labels[-1]):
        raise ValueError(_NO_NAME)
    return name


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def matches_any(patterns: Iterable[HostPattern], host: str, port: int) -> bool:
    return any(pattern.matches(host, port) for pattern in patterns)


def is_covered(wanted: HostPattern, allowed: Sequence[HostPattern]) -> bool:
    """Whether `allowed` together have every port of `wanted`, each for all its names."""
    if not wanted.ports:
        return any(not pattern.ports and pattern.covers(wanted, 0) for pattern in allowed)
    return all(any(pattern.covers(wanted, port) for pattern in allowed) for port in wanted.ports)
