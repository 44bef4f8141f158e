"""The settings of a daemon: one table of all settings, read once from four places.

They are, in rising order of priority: `functory.toml`; credentials of the service manager (the file `functory.store` in
`$CREDENTIALS_DIRECTORY`); the environment (`FUNCTORY_LEASE=30s`, or `FUNCTORY_STORE_FILE=/run/secrets/store` for a
value in a file); flags (`--lease 30s`). Every duration and size has a unit. An error is reported at once, with the
place that it came from. Nothing is read again later.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from functory.errors import InvalidConfig
from functory.logs import Style
from functory.setting_values import (
    Address,
    Network,
    address,
    at_least,
    count,
    duration,
    folder,
    folder_name,
    folder_names,
    networks,
    one_of,
    package_index,
    port_number,
    retention,
    size,
    switch,
    wake_address,
    web_address,
)
from handlers.hosts import HostPattern, parse_patterns
from handlers.model import JSON_NAMES
from vocabulary.names import is_tenant

ENVIRONMENT_PREFIX: Final = "FUNCTORY_"
FILE_SUFFIX: Final = "_FILE"
CREDENTIALS_VARIABLE: Final = "CREDENTIALS_DIRECTORY"
CREDENTIAL_PREFIX: Final = "functory."
_SEALING_KEYS: Final = f"{CREDENTIAL_PREFIX}secrets_key"
DEFAULT_FILE: Final = Path("functory.toml")

StraightMode = Literal["on", "off", "mixed"]
"""How lines are treated that need not wait for the store. mixed is for tests: every other write takes the long way."""


def _setting(default: str, parse: Callable[[str], Any], help_text: str) -> Any:
    """A field of Settings. The default is written as a user would write it."""
    return field(
        default_factory=lambda: parse(default), metadata={"parse": parse, "default": default, "help": help_text}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Effective values, in base units. Users know a setting by its field's name without the unit."""

    data_dir: Path = _setting("functory-data", Path, "where the journal, the embedded store and the keys live")
    store: str = _setting("", str, "sqlite:///path or mongodb://...; empty: SQLite in the data directory")
    host: str = _setting("127.0.0.1", str, "address to listen on")
    port: int = _setting("8484", port_number, "port to listen on; 0 takes a free one")
    public_url: str = _setting("", web_address, "where browsers reach it by name, such as https://jobs.example.com")
    role: str = _setting("all", one_of("all", "api", "run"), "all, api (take jobs in) or run (execute them)")
    processes: int = _setting("1", at_least("1", count), "daemons to start on this machine, sharing the port")
    share_port: bool = _setting("false", switch, "let other daemons listen on the same port")
    trusted_proxies: tuple[Network, ...] = _setting(
        "", networks, "addresses or networks whose X-Forwarded headers are believed"
    )
    connections: int = _setting(
        "2000", at_least("1", count), "HTTP connections at once; half of them may come from one address"
    )
    status_port: int = _setting("0", port_number, "port for health and metrics alone, without a key; 0: none")
    status_host: str = _setting("127.0.0.1", str, "address to listen on for health and metrics")
    bedrock: Address | None = _setting("", address, "HOST:PORT to serve the protocol of Bedrock::Jobs on; empty: none")
    bedrock_tenant: str = _setting("", str, "the tenant of requests to it without a key; only on a loopback address")

    wake: Address | None = _setting(
        "auto",
        wake_address,
        "where other daemons of the store tell this one what they did: auto, off, :PORT or HOST:PORT",
    )

    slots: int = _setting("0", count, "batches that run at once; 0: two more than there are cores")
    policy: str = _setting("deficit", one_of("deficit", "oldest", "random"), "how the scheduler chooses")
    straight: StraightMode = _setting(
        "on", one_of("on", "off", "mixed"), "start jobs before the store has them; mixed, for tests: every other one"
    )
    lease_s: float = _setting(
        "30s", at_least("1ms", duration), "how long a claimed job is this daemon's without renewal"
    )
    grace_s: float = _setting("20s", duration, "how long a stopping daemon lets running batches finish")
    poll_s: float = _setting("1s", at_least("1ms", duration), "how often to look for what other daemons did")
    stuck_s: float = _setting(
        "60s", at_least("1ms", duration), "runnable work without a claim for so long raises an alarm"
    )

    retry_base_s: float = _setting("1s", at_least("1ms", duration), "first retry delay, before jitter")
    retry_max_s: float = _setting("10m", at_least("1ms", duration), "longest retry delay")
    max_attempts: int = _setting("20", at_least("1", count), "attempts before a job is abandoned")
    retry_window_s: float = _setting(
        "24h", at_least("1ms", duration), "how long a failing job is retried, from when it was first due"
    )
    keep_done_s: float = _setting("7d", duration, "how long ended jobs and their results are kept")
    keep_failed_s: float = _setting(
        "forever", retention, "the same for jobs that ended failed or abandoned; forever: up to their tenant's quota"
    )
    keep_waiting_s: float = _setting(
        "7d", duration, "a job that waited longer without running is abandoned; schedules wait on"
    )

    secrets_key_file: str = _setting(
        "", str, "the keys that seal tenants' secrets; empty: secrets.key beside the embedded store, made at first use"
    )

    min_isolation: str = _setting(
        "auto", one_of("auto", "L0", "L1", "L2", "L3"), "tenants' code is refused below it; auto: L2, L1 in a container"
    )
    all_tenants_trusted: bool = _setting("false", switch, "allow min_isolation L0: every tenant may read everything")
    http_allowed: tuple[Network, ...] = _setting(
        "", networks, "private addresses or networks that handlers of all tenants may call, such as 10.0.5.0/24"
    )
    hosts_allowed: tuple[HostPattern, ...] = _setting(
        "*", parse_patterns, "hosts that handlers may call by name, such as *.example.org, *:8443; empty: none"
    )
    egress_connections: int = _setting("256", count, "connections of handlers to hosts, at once; a tenant: a quarter")
    egress_hourly_bytes: int = _setting("64GiB", size, "bytes between handlers and hosts in an hour")
    egress_tenant_hourly_bytes: int = _setting("16GiB", size, "the same for one tenant")
    folder_packed_bytes: int = _setting("10MiB", size, "the largest archive of a handler that is a folder; up to 16MiB")
    folder_unpacked_bytes: int = _setting("50MiB", size, "all files of a handler that is a folder together")
    folder_files: int = _setting("2000", count, "the most files of a handler that is a folder")
    max_contexts: int = _setting("64", at_least("1", count), "warm contexts kept at once")
    max_contexts_memory_bytes: int = _setting("2GiB", at_least("1MiB", size), "memory of all contexts together")

    packages: bool = _setting("true", switch, "get the packages that handlers ask for, where uv or npm is installed")
    packages_index: str = _setting("", package_index, "where packages come from; empty: PyPI; none: no index at all")
    packages_registry: str = _setting(
        "", package_index, "where node packages come from; empty: npm's own registry; none: nowhere"
    )
    packages_hosts: tuple[HostPattern, ...] = _setting(
        "", parse_patterns, "hosts beside index and registry that packages are fetched from, such as files.example.org"
    )
    packages_wheels: Path | None = _setting("", folder, "a folder of wheels, beside the index or instead of it")
    packages_tarballs: Path | None = _setting("", folder, "a folder of npm's tarballs (.tgz), instead of the registry")
    packages_build: bool = _setting("false", switch, "let packages without a wheel run their build steps")
    packages_timeout_s: float = _setting(
        "5m", at_least("1ms", duration), "how long it may take to resolve or to install"
    )
    packages_max_bytes: int = _setting("256MiB", size, "the packages of one handler, installed")
    packages_quota_bytes: int = _setting("1GiB", size, "all packages of one tenant on this daemon, if it has no limit")

    journal_segment_bytes: int = _setting("64MiB", size, "a journal segment is closed at this size")
    journal_backlog_bytes: int = _setting(
        "16GiB", at_least("1B", size), "intake is refused when so much waits for the store"
    )
    journal_min_free_bytes: int = _setting("64MiB", size, "intake is refused when the disk has less than this")

    log_style: Style = _setting("text", one_of("text", "json"), "log lines as key=value or as JSON")
    log_level: str = _setting("INFO", one_of("DEBUG", "INFO", "WARNING", "ERROR"), "least level that is logged")
    log_jobs: bool = _setting("true", switch, "a log line for each job that enters, starts and stops")

    journal: str = _setting("journal", folder_name, "the name of the journal's folder in the data directory")
    other_journals: tuple[str, ...] = _setting(
        "", folder_names, "journals of other daemons in the data directory; lines in any that nobody uses are moved"
    )

    @property
    def store_url(self) -> str:
        return self.store or f"sqlite:///{(self.data_dir / 'functory.db').absolute()}"

    @property
    def journal_dir(self) -> Path:
        return self.data_dir / self.journal

    @property
    def slot_count(self) -> int:
        return self.slots or 2 + len(os.sched_getaffinity(0))


class Source(NamedTuple):
    """A setting as it was given, and where."""

    text: str
    place: str


class Config(NamedTuple):
    settings: Settings
    sources: dict[str, Source]


def setting_name(field_name: str) -> str:
    """The name that users know: without the unit, which is part of their value."""
    return re.sub(r"_(s|bytes)$", "", field_name)


def setting_fields() -> dict[str, "Field[Any]"]:
    return {setting_name(each.name): each for each in fields(Settings)}


def load_config(flags: Mapping[str, str], environ: Mapping[str, str] | None = None, file: Path | None = None) -> Config:
    """Load all settings. Raises InvalidConfig, naming the setting, the place and what was expected."""
    environ = os.environ if environ is None else environ
    known = setting_fields()
    sources = {name: Source(str(each.metadata["default"]), "default") for name, each in known.items()}
    for given in (
        _from_file(file, known),
        _from_credentials(environ, known),
        _from_environment(environ, known),
        _from_flags(flags),
    ):
        sources |= given
    for name in sources.keys() - known.keys():  # of flags: a file and the environment are looked at for what is known
        raise InvalidConfig(f"{name!r} is not a setting{_hint(name, known)}")
    values = {}
    for name, (text, place) in sources.items():
        try:
            values[known[name].name] = known[name].metadata["parse"](text)
        except ValueError as error:
            raise InvalidConfig(f"{name} ({place}): {error}") from None
    settings = Settings(**values)
    if settings.min_isolation == "L0" and not settings.all_tenants_trusted:
        raise InvalidConfig("min_isolation=L0 runs tenants' code unconfined: it also needs all_tenants_trusted=true")
    _check_bedrock(settings)
    _check_ports(settings)
    return Config(settings, sources)


def _check_bedrock(settings: Settings) -> None:
    if not settings.bedrock_tenant:
        return
    if settings.bedrock is None:
        raise InvalidConfig("bedrock_tenant: says who asks without a key, and needs bedrock, the address to listen on")
    if not settings.bedrock.is_loopback:
        raise InvalidConfig(
            f"bedrock_tenant: on {settings.bedrock.host} anybody who reaches the port would be that tenant. Listen on a"
            " loopback address, or leave bedrock_tenant out and let clients send Authorization: Bearer ..."
        )
    if not is_tenant(settings.bedrock_tenant):
        raise InvalidConfig(f"bedrock_tenant: {settings.bedrock_tenant!r} is not the name of a tenant")


def _check_ports(settings: Settings) -> None:
    """Several daemons share the port, so it must be known. Each has a status port of its own. One that got the common
    port would never start."""
    if settings.processes > 1 and settings.port == 0 and settings.role != "run":
        raise InvalidConfig(f"port: {settings.processes} daemons share it, and with 0 each takes another: name one")
    last = settings.status_port + settings.processes - 1
    hosts = {settings.host, settings.status_host}
    if (
        settings.processes > 1
        and settings.role != "run"
        and 0 < settings.status_port <= settings.port <= last
        and (len(hosts) == 1 or hosts & {"", "0.0.0.0", "::"})  # noqa: S104 (compared)
    ):
        raise InvalidConfig(
            f"status_port: {settings.processes} daemons listen on {settings.status_port} to {last}, and port"
            f" {settings.port} is one of them: choose another"
        )


def _from_file(file: Path | None, known: Mapping[str, object]) -> dict[str, Source]:
    path = file or DEFAULT_FILE
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError:
        if file is not None:
            raise InvalidConfig(f"{file}: there is no such file") from None
        return {}
    except (OSError, ValueError) as error:
        raise InvalidConfig(f"{path}: {error}") from None
    for name, value in content.items():
        if name not in known and name in JSON_NAMES.values():
            raise InvalidConfig(
                f"{path}: {name!r} is a field of a handler: this is the {path.name} of a handler's folder, and not that"
                f" of a daemon. Settings are read from {DEFAULT_FILE} in the current folder, which is {Path.cwd()}, or"
                " from --config FILE: go to another folder, or name a file"
            )
        if name not in known:
            raise InvalidConfig(f"{path}: {name!r} is not a setting{_hint(name, known)}")
        if isinstance(value, dict | list):
            raise InvalidConfig(f"{path}: {name} must be a plain value")
    return {name: Source(_as_text(value), str(path)) for name, value in content.items()}


def _hint(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else "; `functory config` lists them"


def _from_environment(environ: Mapping[str, str], known: Mapping[str, object]) -> dict[str, Source]:
    found = {}
    for name in known:
        variable = ENVIRONMENT_PREFIX + name.upper()
        file_variable = variable + FILE_SUFFIX
        if variable in environ and file_variable in environ:
            raise InvalidConfig(f"{name}: {variable} and {file_variable} are both set: keep one of them")
        if variable in environ:
            found[name] = Source(environ[variable], f"environment {variable}")
        elif file_variable in environ:
            path = Path(environ[file_variable])
            found[name] = Source(_value_in(path, f"{name} (environment {file_variable})"), str(path))
    return found


def _from_credentials(environ: Mapping[str, str], known: Mapping[str, object]) -> dict[str, Source]:
    """Settings in files that systemd's LoadCredential= and the like provide: one file per secret,
    for this service alone.

    An empty file counts as none: a unit may name a credential that the operator need not have.
    """
    if not environ.get(CREDENTIALS_VARIABLE):
        return {}
    paths = {name: Path(environ[CREDENTIALS_VARIABLE], CREDENTIAL_PREFIX + name) for name in known}
    texts = {name: _value_in(path, name) for name, path in paths.items() if path.exists()}
    found = {name: Source(text, f"credential {paths[name].name}") for name, text in texts.items() if text}
    keys = Path(environ[CREDENTIALS_VARIABLE], _SEALING_KEYS)
    if keys.exists() and keys.stat().st_size:  # of this one the content stays in its file
        found["secrets_key_file"] = Source(str(keys), f"credential {keys.name}")
    return found


def _value_in(path: Path, what: str) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{what}: {path} cannot be read: {error}") from None


def _from_flags(flags: Mapping[str, str]) -> dict[str, Source]:
    return {name: Source(text, f"flag --{name.replace('_', '-')}") for name, text in flags.items()}


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
