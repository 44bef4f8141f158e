"""`why` of a job whose packages the daemon that answers cannot get: what the other daemons say of theirs."""

import json
from pathlib import Path
from typing import Any

from functory.execution.handler_document import encode_handler
from handlers.model import Handler
from handlers.packages import Lock, LockedPackage
from store.base import NewHandler
from tests.support.told_sandbox import HASH, ToldSandbox, packages
from tests.support.web import T0, Site, open_site

LOCK = Lock("1" * 32, "3.11", (LockedPackage("a", "1", (HASH,)),))
OFF = "uv is not installed"


async def why(site: Site, job_id: str) -> Any:
    return (await site.get(f"/acme/job/{job_id}/why")).json


async def join(site: Site, **info: object) -> str:
    daemon = await site.store.reserve_sysid(info=json.dumps(info), lease_ms=60_000, now_ms=T0)
    return daemon.sysid


async def test_why_names_the_daemons_that_can_and_else_the_reasons(tmp_path: Path) -> None:
    shelf = packages(ToldSandbox(), tmp_path / "packages", unavailable={"python": OFF, "node": ""})
    assert shelf.all_unavailable() == {"python": OFF}
    async with open_site(tmp_path, packages=shelf) as site:
        document = encode_handler(Handler("python", "return 1", lock=LOCK))
        await site.store.set_handler("acme", NewHandler("acme-thumb", "python", document, T0))
        (job_id,) = await site.add("x")
        await site.service.intake.flush()
        here = f"daemon a7 cannot get the packages of its handler: {OFF}"
        alone = await why(site, job_id)
        assert (alone["reason"], alone["text"], alone["detail"]["others"]) == ("packages_unavailable", here, {})
        await join(site, languages=["node"])  # does not run it
        unable = await join(site, languages=["python"], no_packages={"python": "switched off"})
        told = await why(site, job_id)
        assert told["text"] == f"{here}; nor can daemon {unable} (switched off)"
        able = await join(site, languages=["python"], no_packages={"node": "npm is not installed"})
        older = await join(site, languages=["python"])  # of a version that does not say
        told = await why(site, job_id)
        assert told["text"] == f"{here}; daemon {able} and daemon {older} may have them, or can get them"
        assert told["detail"]["others"] == {unable: "switched off", able: "", older: ""}
    await shelf.close()
