"""Pages are rendered in pieces: the text is the same, and others have the event loop in between."""

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from functory.web.pages import assets
from functory.web.pages.assets import Assets, load_assets
from functory.web.pages.job_list import STATES, JobLine


@pytest.fixture
async def loaded() -> Assets:
    return await asyncio.to_thread(load_assets)


async def test_a_long_page_gives_others_their_turn(loaded: Assets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "_PIECE_S", 0.0)
    lines = [
        JobLine(f"id-{n}", "thumb", "archived", "ok", 1, 0, 5, "<b>", "", "{}", is_on_hold=False) for n in range(50)
    ]
    call = SimpleNamespace(link=lambda **_: "/")
    values = {"lines": lines, "states": STATES, "state": "archived", "tenant": "acme", "now_ms": 0}
    values |= {"next": None, "is_first": True, "call": call, "page_state": "", "looked_at": None}
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    text = await loaded.render("live/jobs.html", values)
    other.cancel()
    assert text == loaded.render_small("live/jobs.html", values)
    assert text.count("id-49") == 3
    assert turns > len(lines), "the table is not one piece"


def test_parts_that_many_readers_share_have_nothing_of_a_session() -> None:
    """They are made once for all who may see the same; a form of one would be refused to the others."""
    shared = list((Path(assets.__file__).parent / "templates" / "live").glob("*.html"))
    assert len(shared) > 5
    for part in shared:
        text = part.read_text()
        assert "token" not in text, part.name
        assert not re.search(r'method="post"', text), part.name
