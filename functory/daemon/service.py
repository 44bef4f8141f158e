"""What can be asked of a daemon that is open: the service that the web, a queue in this process and others call."""

from typing import TYPE_CHECKING

from functory.config import Settings
from functory.operations.service import OperationSettings, Service
from functory.webhooks.arrivals import Arrivals
from handlers.folders.limits import FolderLimits
from runner.targets import Targets

if TYPE_CHECKING:
    from functory.daemon.daemon import Daemon  # which has such a service of its own


def service_of(daemon: "Daemon") -> Service:
    return Service(
        store=daemon.store,
        journal=daemon.journal,
        intake=daemon.intake,
        admission=daemon.admission,
        waiters=daemon.waiters,
        handlers=daemon.handlers,
        trial_runs=daemon.trial_runs,
        control=daemon,
        now_ms=daemon.clock.now_ms,
        straight=daemon.straight,
        workers=daemon.workers,
        consumers=daemon.consumers,
        vault=daemon.vault,
        packages=daemon.packages,
        arrivals=Arrivals(daemon.clock.now_ms()),
        settings=_operation_settings(daemon.settings),
    )


def _operation_settings(settings: Settings) -> OperationSettings:
    return OperationSettings(
        targets=Targets(settings.hosts_allowed, settings.http_allowed),
        folders=FolderLimits(
            packed_bytes=settings.folder_packed_bytes,
            unpacked_bytes=settings.folder_unpacked_bytes,
            files=settings.folder_files,
        ),
    )
