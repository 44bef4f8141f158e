"""Says why nothing comes: workers get no jobs of a type that is not registered as theirs.

It is only a hint in the log, and never raises.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from vocabulary.glob import glob_matcher
from vocabulary.names import WORKER, is_type

_LOOK_S: Final = 10.0


class Handlers(Protocol):
    async def language(self, job_type: str) -> str | None: ...

    async def worker_types(self) -> Sequence[str] | None: ...


async def look_for_handlers(handlers: Handlers, types: Sequence[str], speaker: str, how: str) -> None:
    """speaker: who says it, `worker` or `queue`. how: to register a type."""
    named = [it for it in types if is_type(it)]
    patterns = [it for it in types if not is_type(it)]
    try:
        async with asyncio.timeout(_LOOK_S):
            langs = await asyncio.gather(*map(handlers.language, named), return_exceptions=True)
            served = await handlers.worker_types() if patterns else None
            unserved = [] if served is None else [it for it in patterns if not any(map(glob_matcher(it), served))]
    except Exception:  # noqa: BLE001 (no answer in time, or none that helps)
        return
    log = logging.getLogger(f"functory.{speaker}")
    for job_type, lang in [*zip(named, langs, strict=True), *((pattern, None) for pattern in unserved)]:
        if lang is None:
            command = "functory handler put TYPE --lang worker"
            hint = f"no worker gets its jobs until it is registered: with {how}, or with {command}"
            log.warning("%s.type_without_handler", speaker, extra={"type": job_type, "hint": hint})
        elif isinstance(lang, str) and lang not in ("", WORKER):
            hint = f"its handler is in {lang}, so the daemons run its jobs"
            log.warning("%s.type_of_daemons", speaker, extra={"type": job_type, "hint": hint})
