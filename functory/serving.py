"""A daemon with its HTTP side: what `functory serve` runs. Wiring, and nothing else."""

import asyncio
import logging
import os
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from functory.config import Settings
from functory.daemon import Daemon
from functory.notify import Notifier
from functory.operations.keys import ensure_operator_key
from functory.operations.service import Service
from functory.watchdog import keep_watch
from functory.web.app import make_app, make_status_app
from functory.web.listen import Listener
from functory.web.settings import WebSettings

log = logging.getLogger("functory")

OPERATOR_KEY_FILE = "operator.key"


class Server:
    def __init__(self, settings: Settings, notifier: Notifier | None = None) -> None:
        self._settings = settings
        self._notifier = notifier or Notifier()
        self._daemon = Daemon(settings)
        self._key_note = ""

    async def start(self) -> None:
        """Bring the daemon up, then listen: nobody is answered before everything works."""
        await self._daemon.open()
        try:
            service = Service(
                store=self._daemon.store,
                journal=self._daemon.journal,
                intake=self._daemon.intake,
                endings=self._daemon.endings,
                bench=self._daemon.bench,
                control=self._daemon,
                now_ms=self._daemon.clock.now_ms,
            )
            await self._keep_operator_key(service)
            web = WebSettings(
                host=self._settings.host,
                port=self._settings.port,
                trusted_proxies=self._settings.trusted_proxies,
                public_url=self._settings.public_url,
            )
            app = make_app(service, web)
            self._listener = Listener(app, sockets=self._sockets())
            status = replace(web, host=self._settings.status_host, port=self._settings.status_port)
            self._status_listener = Listener(make_status_app(app, status))
            if self._settings.status_port:
                await self._status_listener.start()
            if self._settings.role != "run":
                await self._listener.start()
                log.info("daemon.listening", extra={"host": self._settings.host, "port": self._listener.port})
        except BaseException:
            await self._daemon.close()
            raise

    async def run(self) -> None:
        """Until `quit`, or until a part of the daemon fails."""
        self._notifier.ready("running")
        watch = asyncio.create_task(
            keep_watch(self._notifier, self._daemon.stalled, lambda: self._daemon.health().problems), name="watchdog"
        )
        try:
            await self._daemon.run(before_stop=self._end_intake)
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch
            await self._status_listener.stop()

    async def _end_intake(self) -> None:
        """Probes are answered to the end."""
        self._notifier.stopping()
        await self._listener.stop()

    def quit(self) -> None:
        self._daemon.quit()

    def welcome(self) -> str:
        """What a person wants to know who has just started it."""
        if self._settings.role == "run":
            return f"Functory runs jobs of {self._settings.store_url}"
        address = f"http://{self._settings.host}:{self._listener.port}"
        return f"Functory listens on {address}  (scoreboard: /ui, API: /docs, stop: Ctrl-C)\n{self._key_note}"

    async def _keep_operator_key(self, service: Service) -> None:
        """First start of a store: make a key for the operator, and keep it where only the owner can read it."""
        key_file = self._settings.data_dir / OPERATOR_KEY_FILE
        key = await ensure_operator_key(service)
        if key is not None:
            await asyncio.to_thread(_write_private, key_file, key + "\n")
            self._key_note = f"A new operator key is in {key_file}"
        elif await asyncio.to_thread(key_file.exists):
            self._key_note = f"The operator key is in {key_file}"
        else:
            self._key_note = "The operator key is where the first daemon of this store has put it"

    def _sockets(self) -> list[socket.socket] | None:
        """One of several daemons on a port has a listening socket of its own there; the kernel deals them out."""
        if not self._settings.share_port:
            return None
        listening = socket.socket(socket.AF_INET6 if ":" in self._settings.host else socket.AF_INET)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((self._settings.host, self._settings.port))
        return [listening]


def _write_private(path: Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(fd, "w") as file:  # noqa: PTH123 (a descriptor that was never readable by others)
        file.write(text)
