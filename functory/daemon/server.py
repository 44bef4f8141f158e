"""A daemon with HTTP in front of it: what `functory serve` runs. Wiring, and nothing else."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from functory.bedrock.listener import BedrockListener
from functory.bedrock.settings import BedrockSettings
from functory.config import Settings
from functory.daemon.daemon import Daemon
from functory.daemon.kept_keys import KeptKeys
from functory.daemon.last_owner import mark_of_place
from functory.daemon.operator_key import OPERATOR_KEY_FILE, keep_operator_key
from functory.daemon.service import service_of
from functory.operations.service import Service
from functory.supervision.notifier import Notifier
from functory.supervision.watchdog import keep_watch
from functory.transfer.backup_layout import IDENTITY
from functory.transfer.migrate import label_of
from functory.vault.place import key_place
from functory.web.app import WEB, make_app, make_status_app
from functory.web.http.endpoint import Web
from functory.web.http.settings import WebSettings
from functory.web.listener import Listener
from functory.web.waiting_room import WaitingRoom
from journal.durable import remove_leftovers
from store.errors import StoreUnavailable

log = logging.getLogger("functory")

_AGAIN_S: Final = 1.0
_LEFT_S: Final = 60.0
"""A small file that is being written for longer is one that a crash left."""


class Server:
    def __init__(self, settings: Settings, notifier: Notifier | None = None) -> None:
        self._settings = settings
        self._notifier = notifier or Notifier()
        self._daemon = Daemon(settings)
        self._key_note = ""
        self.is_open = False

    async def start(self) -> None:
        """Open the daemon, then listen: no request is taken before everything works. While the store is away and there
        is nothing to begin without it, wait for it; `is_open` is False if `quit` came first."""
        await self._open_daemon()
        if not self.is_open:
            return
        try:
            await asyncio.to_thread(self._remove_leftovers)
            service = service_of(self._daemon)
            self._daemon.hearing.when_keys_changed(service.verified_keys.forget)
            self._kept_keys = self._make_kept_keys(service)
            await self._kept_keys.recall()
            if self._daemon.is_away:
                self._key_note = "The store is away: jobs are taken into the journal, and run when it is there"
                self._daemon.when_joined(lambda: self._keep_operator_key(service))
            else:
                await self._keep_operator_key(service)
            web = WebSettings(
                host=self._settings.host,
                port=self._settings.port,
                trusted_proxies=self._settings.trusted_proxies,
                public_url=self._settings.public_url,
                max_connections=self._settings.connections,
                max_connections_of_one=max(self._settings.connections // 2, 1),
            )
            app = make_app(service, web)
            with _naming("port", "host"):
                self._listener = Listener(app, sockets=self._sockets())
            with _naming("bedrock"):
                self._bedrock = self._bedrock_listener(app[WEB])
            status = replace(web, host=self._settings.status_host, port=self._settings.status_port)
            self._status_listener = Listener(make_status_app(app, status))
            if self._settings.status_port:
                with _naming("status_port", "status_host"):
                    await self._status_listener.start()
            if self._settings.role != "run":
                with _naming("port", "host"):
                    await self._listener.start()
                log.info("daemon.listening", extra={"host": self._settings.host, "port": self._listener.port})
                if self._bedrock is not None:
                    with _naming("bedrock"):
                        await self._bedrock.start()
                    log.info("bedrock.listening", extra={"port": self._bedrock.port})
        except BaseException:
            await self._daemon.close()
            raise

    async def _open_daemon(self) -> None:
        room = WaitingRoom()
        watch: asyncio.Task[None] | None = None
        try:
            while not self.is_open and not self._daemon.is_stopping:
                try:
                    await self._daemon.open()
                    self.is_open = True
                except StoreUnavailable as error:
                    log.warning("daemon.waits_for_store", extra={"reason": str(error)})
                    if watch is None:
                        await room.start(self._waiting_addresses())
                        self._notifier.ready("waiting for the store")
                        watch = self._watch(lambda _: [], lambda: {"store": "away"})
                    await self._daemon.stopping_within(_AGAIN_S)
        finally:
            await room.stop()
            if watch is not None:
                await _end(watch)

    def _waiting_addresses(self) -> list[tuple[str, int]]:
        settings = self._settings
        status = [(settings.status_host, settings.status_port)] if settings.status_port else []
        return status if settings.role == "run" else [(settings.host, settings.port), *status]

    def _remove_leftovers(self) -> None:
        settings = self._settings
        ours = [OPERATOR_KEY_FILE, f"{settings.journal}.keys", f"{settings.journal}.spare"]
        paths = [*(settings.data_dir / name for name in ours), settings.journal_dir / IDENTITY]
        made = key_place(settings)
        for path in [*paths, made.path] if made.path and made.may_make else paths:
            remove_leftovers(path, before_s=self._daemon.clock.now_ms() / 1000 - _LEFT_S)

    def _make_kept_keys(self, service: Service) -> KeptKeys:
        settings = self._settings
        path = settings.data_dir / f"{settings.journal}.keys"
        return KeptKeys(path, mark_of_place(settings.journal_dir, settings.store_url), service.verified_keys)

    async def run(self) -> None:
        """Run until `quit`, or until a part of the daemon fails."""
        self._notifier.ready("running")
        watch = self._watch(self._daemon.vitals.stalled, lambda: self._daemon.health().problems)
        keeping = asyncio.create_task(self._kept_keys.run(), name="kept keys")
        try:
            await self._daemon.run(self._end_intake, self._notifier.stopping)
        finally:
            await _end(watch)
            await _end(keeping)
            await self._kept_keys.write()
            await self._status_listener.stop()

    def _watch(
        self, stalled: Callable[[float], list[str]], problems: Callable[[], Mapping[str, str]]
    ) -> "asyncio.Task[None]":
        return asyncio.create_task(keep_watch(self._notifier, stalled, problems), name="watchdog")

    async def _end_intake(self) -> None:
        """Stop listening. The status port goes on until the end, for probes."""
        await asyncio.gather(self._listener.stop(), *([self._bedrock.stop()] if self._bedrock is not None else ()))

    def quit(self) -> None:
        self._daemon.quit()

    def welcome(self) -> str:
        """What somebody who has just started it wants to know."""
        if self._settings.role == "run":
            return f"Functory runs jobs of {label_of(self._settings.store_url)}"
        address = f"http://{self._settings.host}:{self._listener.port}"
        lines = [f"Functory listens on {address}  (scoreboard: /ui, API: /docs, stop: Ctrl-C)"]
        if self._bedrock is not None and self._settings.bedrock is not None:
            whose = f"for tenant {self._settings.bedrock_tenant}" if self._settings.bedrock_tenant else "with a key"
            lines.append(f"Bedrock::Jobs is spoken on {self._settings.bedrock.host}:{self._bedrock.port}, {whose}")
        return "\n".join([*lines, self._key_note])

    async def _keep_operator_key(self, service: Service) -> None:
        self._key_note = await keep_operator_key(service, self._settings.data_dir)

    def _bedrock_listener(self, web: Web) -> BedrockListener | None:
        address = self._settings.bedrock
        if address is None:
            return None
        settings = BedrockSettings(host=address.host, port=address.port, tenant=self._settings.bedrock_tenant)
        return BedrockListener(web, settings, listening=self._shared_socket(address.host, address.port))

    def _sockets(self) -> list[socket.socket] | None:
        listening = self._shared_socket(self._settings.host, self._settings.port)
        return None if listening is None else [listening]

    def _shared_socket(self, host: str, port: int) -> socket.socket | None:
        """A listening socket of this process, when several daemons share the port: the kernel
        spreads connections over them."""
        if not self._settings.share_port:
            return None
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((host, port))
        return listening


@contextmanager
def _naming(setting: str, setting_of_host: str = "") -> Iterator[None]:
    """An address that cannot be had is reported with the setting that asks for it."""
    try:
        yield
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            setting = setting_of_host or setting
        what = f"{setting}: {error.strerror or error}"
        if error.errno == errno.EADDRINUSE:
            what += f". A daemon may run there already; choose another with --{setting.replace('_', '-')}"
        raise OSError(error.errno, what) from error


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
