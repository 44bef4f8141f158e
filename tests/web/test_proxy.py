"""Behind a proxy: the client's address in the log and the audit, and forwarded headers from strangers."""

import json
import logging
from ipaddress import ip_network
from pathlib import Path

import pytest

from functory.web.http.settings import WebSettings
from tests.support.web import Site, open_site

FORGED = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}


async def test_a_trusted_proxy_is_believed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = WebSettings(port=0, trusted_proxies=(ip_network("127.0.0.0/8"),), shutdown_s=1)
    async with open_site(tmp_path, settings=settings) as site:
        assert await _refused_client(site, caplog) == "203.0.113.9"
        assert await _audited_client(site) == "203.0.113.9"


async def test_a_stranger_is_not(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    assert await _refused_client(site, caplog) == "127.0.0.1"
    assert await _audited_client(site) == "127.0.0.1"


async def _refused_client(site: Site, caplog: pytest.LogCaptureFixture) -> str:
    with caplog.at_level(logging.INFO, "functory.web"):
        answer = await site.get("/acme/scoreboard", key="fk_nobody_" + "x" * 32, headers=FORGED)
    assert answer.status == 401
    (record,) = [record for record in caplog.records if record.message == "request.refused"]
    client: str = record.__dict__["client"]
    return client


async def _audited_client(site: Site) -> str:
    answer = await site.post("/admin/tenants", key="operator", json={"name": "shop"}, headers=FORGED)
    assert answer.status < 300
    (event, *_) = (await site.get("/admin/audit?tenant=shop", key="operator")).json["events"]
    client: str = json.loads(event["detail"])["client"]
    return client
