"""Every page on every back end: it answers, and says the numbers that are true."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.base import Code
from tests.support.pages import visitor
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.web import Site, open_site

TILE = re.compile(r'<div class="tile[^"]*"><dt>([^<]+)</dt><dd>(?:<a [^>]*>)?([^<]+)<')
CELL = re.compile(r"<td[^>]*>([^<]*)</td>")


@pytest.fixture(params=back_end_params())
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    async with BACK_ENDS[request.param](tmp_path) as url, open_site(tmp_path, store_url=url) as running:
        yield running


async def test_every_page_answers_with_the_numbers_that_are_true(site: Site) -> None:
    await site.call("PUT", "/acme/handler/thumb?lang=sh", data=b"cat")
    await site.add(*"abcdefg")
    await site.add("x", "y", path="/acme/job/mail/add")
    await site.add("z", path="/other/job/thumb/add", key="other")
    await site.call("PUT", "/acme/consumer/verify", json={"source": "block"})
    await site.run(3)
    (failed, *_) = await site.run(2, Code.FAILED, fingerprint="f", message="ValueError: no luck")
    async with visitor(site, "acme") as acme:
        board = await acme.get("/ui/t/acme")
        tiles = [(name.partition(" ·")[0], value) for name, value in TILE.findall(board.text)]
        assert tiles == [
            ("Waiting", "4"),
            ("Running", "0"),
            ("Deferred", "0"),
            ("Rate", "1.0/min"),
            ("Ok", "3"),
            ("Failed", "2"),
            ("Stored", "9"),
        ]
        for sort, first in (("ok", "thumb"), ("failed", "thumb"), ("rate", "thumb"), ("-ok", "mail"), ("type", "mail")):
            page = await acme.get(f"/ui/t/acme?sort={sort}")
            (row, *_) = re.findall(r'<tr data-key="([^"]+)">(<th.*?)</tr>', page.text, re.DOTALL)
            assert row[0] == first
            if first == "thumb":
                assert CELL.findall(row[1])[:8] == ["2", "0", "0", "3", "0", "2", "0", "0"]
        for path in (
            "/jobs",
            "/jobs?code=failed",
            "/jobs?state=waiting&type=mail",
            "/failures",
            "/type/thumb",
            "/type/mail",
            "/type/thumb/edit",
            "/replay",
            "/consumers",
            "/consumers/verify",
            f"/job/{failed}",
        ):
            page = await acme.get(f"/ui/t/acme{path}")
            assert page.status == 200, (path, page.text)
        ended = (await acme.get("/ui/t/acme/jobs")).text
        assert (ended.count("st-ok"), ended.count("st-failed")) == (3, 2)
        assert (await acme.get("/ui/t/acme/jobs?state=waiting")).text.count("st-waiting") == 4
        assert "no luck" in (await acme.get("/ui/t/acme/failures")).text
        assert "no luck" in (await acme.get(f"/ui/t/acme/job/{failed}")).text
    async with visitor(site, "operator") as operator:
        for path in ("", "/queues", "/daemons", "/audit", "/tenants/acme"):
            assert (await operator.get(f"/ui/operator{path}")).status == 200, path
        assert "other" in (await operator.get("/ui/operator")).text
