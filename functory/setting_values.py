"""How the values of settings are written: durations and sizes with a unit, addresses, names. Each function reads one
kind, and raises ValueError with what was expected."""

import ipaddress
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from handlers.hosts import host_name

_DURATIONS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_SIZES: Final = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_LONGEST: Final = 36_500 * 86_400
_LARGEST: Final = (1 << 63) - 1
"""What clocks, files and databases can count."""
_HIGHEST_PORT: Final = 65_535
_YES: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def duration(text: str) -> float:
    """`30s`, `5m`, `7d` as seconds."""
    return _quantity(text, _DURATIONS, _LONGEST, "a duration such as 500ms, 30s, 5m, 12h or 7d, up to 100 years")


def retention(text: str) -> float:
    """A duration, or `forever`."""
    return math.inf if text == "forever" else duration(text)


def size(text: str) -> int:
    """`64MiB`, `1GB`, `512B` as bytes."""
    return int(_quantity(text, _SIZES, _LARGEST, "a size such as 512B, 64KiB, 64MiB or 1GB, up to 8 EiB"))


def count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


_Number = TypeVar("_Number", int, float)


def at_least(lowest: str, parse: Callable[[str], _Number]) -> Callable[[str], _Number]:
    """With less than `lowest`, written as a user would, nothing would work."""

    def parse_more(text: str) -> _Number:
        value = parse(text)
        if value < parse(lowest):
            raise ValueError(f"{text} is too little: the least is {lowest}")
        return value

    return parse_more


def port_number(text: str) -> int:
    if count(text) > _HIGHEST_PORT:
        raise ValueError(f"{text} is not a port: the highest is {_HIGHEST_PORT}")
    return int(text)


def switch(text: str) -> bool:
    if text.lower() not in _YES:
        raise ValueError(f"{text!r} is neither true nor false")
    return _YES[text.lower()]


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(text: str) -> tuple[Network, ...]:
    """`10.0.0.7, 192.168.0.0/16, ::1`"""
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise ValueError(f"{error}: expected addresses or networks such as 127.0.0.1, 10.0.0.0/8") from None


class Address(NamedTuple):
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of the same machine reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def address(text: str) -> Address | None:
    """`127.0.0.1:8888`, `[::1]:8888`, or nothing."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _HIGHEST_PORT:
        raise ValueError(f"{text!r} is not an address such as 127.0.0.1:8888 or [::1]:8888")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def wake_address(text: str) -> Address | None:
    """`auto`, `off`, `:8486` or `10.0.0.7:8486`. Without a host it is chosen, and so is the port without one."""
    if text == "off":
        return None
    if text == "auto":
        return Address("", 0)
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if ":" not in text or not port.isdecimal() or int(port) > _HIGHEST_PORT or host in {"0.0.0.0", "::"}:  # noqa: S104 (refused)
        raise ValueError(
            f"{text!r} is not auto, off, a port such as :8486, or an address that other daemons reach: 10.0.0.7:8486"
        )
    return Address(host, int(port))


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def web_address(text: str) -> str:
    """`https://jobs.example.com`, or nothing."""
    if text and not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:-]+", text.rstrip("/")):
        raise ValueError(f"{text!r} is not an address such as https://jobs.example.com, without a path")
    return text.rstrip("/")


def package_index(text: str) -> str:
    """`https://pypi.example.com/simple`, `none`, or nothing."""
    if text in ("", "none"):
        return text
    try:
        url = urlsplit(text)
        host_name(url.hostname or "")
        is_address = bool(re.fullmatch(r"https?://[^\s/]+(/\S*)?", text)) and url.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ValueError(f"{text!r} is not an address such as https://pypi.example.com/simple, nor none")
    return text


def folder(text: str) -> Path | None:
    """`/srv/packages`, or nothing."""
    return Path(text).absolute() if text else None


_NAME: Final = re.compile(r"(?!\.)[\w.-]+", re.ASCII)
"""What a backup can name (functory/transfer/manifest.py)."""


def folder_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a plain name: letters, digits, '_', '-' and '.', not at the start. To have the folder on"
            " another disk, mount that there, or make the name a symbolic link"
        )
    return text


def folder_names(text: str) -> tuple[str, ...]:
    """`journal-0,journal-1`, or nothing."""
    return tuple(folder_name(part.strip()) for part in text.split(",") if part.strip())


def _quantity(text: str, units: Mapping[str, float], most: float, expected: str) -> float:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in units or (value := float(match[1]) * units[match[2]]) > most:
        raise ValueError(f"{text!r:.80} is not {expected}")
    return value
