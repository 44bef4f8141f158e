"""The command line against the service: `functory deploy` with several folders, and with other settings."""

import asyncio
import json
from pathlib import Path

from tests.support.terminal import Terminal
from tests.support.web import Site


async def make_folder(place: Path, **files: str) -> str:
    await asyncio.to_thread(place.mkdir)
    for name, text in {"main_py": "def handler(payload, ctx): ...", **files}.items():
        await asyncio.to_thread((place / name.replace("_", ".")).write_text, text)
    return str(place)


async def test_several_folders_are_deployed_at_once(terminal: Terminal, tmp_path: Path) -> None:
    folders = [await make_folder(tmp_path / name) for name in ("order", "charge")]
    told = await terminal.run("deploy", *folders)
    assert told.splitlines() == ["order: version 1 is active", "charge: version 1 is active"]
    assert "one folder" in await terminal.run("deploy", *folders, "--type", "both", status=2)


async def test_what_is_wrong_with_one_is_found_before_the_first_is_sent(
    site: Site, terminal: Terminal, tmp_path: Path
) -> None:
    good, odd = await make_folder(tmp_path / "order"), await make_folder(tmp_path / "my order")
    await terminal.run("deploy", good, odd, status=2)
    await terminal.run("deploy", good, str(tmp_path / "nowhere"), status=8)
    assert (await site.get("/acme/handler/order")).status == 404


async def test_a_folder_of_folders_leads_to_those_that_are_handlers(terminal: Terminal, tmp_path: Path) -> None:
    for name in ("order", "charge"):
        await make_folder(tmp_path / name)
    await asyncio.to_thread((tmp_path / "docs").mkdir)
    told = await terminal.run("deploy", str(tmp_path), "--type", "all", status=2)
    assert f"its folders have: functory deploy {tmp_path}/charge {tmp_path}/order\n" in told


async def test_the_one_that_the_service_refuses_is_named(terminal: Terminal, tmp_path: Path) -> None:
    good = await make_folder(tmp_path / "order")
    bad = await make_folder(tmp_path / "charge", functory_toml='secrets = ["PAY_KEY"]')
    told = await terminal.run("deploy", good, bad, good, status=2)
    assert told.count("version 1 is active") == 1
    assert "charge is not deployed, and none after it:\nfunctory: secrets: PAY_KEY" in told


async def test_another_file_is_sent_as_the_settings(terminal: Terminal, tmp_path: Path) -> None:
    folder = await make_folder(
        tmp_path / "charge", functory_toml="timeout_s = 5", production_toml='env = {PAY = "https://pay.example"}'
    )
    for more, timeout_s, env in (
        ((), 5.0, {}),
        (("--settings", "production.toml"), 60.0, {"PAY": "https://pay.example"}),
    ):
        await terminal.run("deploy", folder, *more)
        fields = json.loads(await terminal.run("handler", "get", "charge", "--json"))["handler"]
        assert (fields["timeout_s"], fields["env"]) == (timeout_s, env)
    assert "has no file staging.toml" in await terminal.run("deploy", folder, "--settings", "staging.toml", status=2)
