"""The service about itself."""

import json
import re
from typing import Any

import pytest

from functory.web.api.openapi import build_openapi
from functory.web.app import ROUTES
from tests.support.web import Site


async def test_metrics_are_what_prometheus_reads(site: Site) -> None:
    await site.add("x", "y")
    await site.run(1)
    text = (await site.get("/metrics", key="operator")).body.decode()
    sample = re.compile(r'functory_[a-z_]+(\{([a-z]+="[^"\n]*",?)*\})? -?[0-9.e+-]+')
    for line in text.splitlines():
        assert line.startswith("# TYPE functory_") or sample.fullmatch(line), line
    for wanted in [
        'functory_http_requests_total{method="POST",path="/{tenant}/job/{type}/add",status="200"} 1',
        "functory_contexts_warm 3",
        "functory_loop_lag_seconds 0.25",
        'functory_tenant_egress_connections{tenant="acme"} 2',
        'functory_tenant_egress_sent_bytes_total{tenant="acme"} 1234',
        "functory_journal_lines_written_total 2",
        'functory_jobs{tenant="acme",type="thumb",state="waiting"} 1',
        'functory_job_endings_total{tenant="acme",type="thumb",code="ok"} 1',
    ]:
        assert wanted in text


async def test_a_stranger_cannot_grow_the_metrics(site: Site) -> None:
    methods = ["LINK", "UNLINK", "PROPFIND", "MKCOL"]
    for number in range(20):
        await site.call(methods[number % 4], f"/nothing/{number}", key=None)
    text = (await site.get("/metrics", key="operator")).body.decode()
    assert 'functory_http_requests_total{method="other",path="",status="404"} 20' in text


async def test_openapi_describes_every_route(site: Site) -> None:
    description = (await site.get("/openapi.json", key=None)).json
    assert description["openapi"] == "3.1.0"
    described = {(method.upper(), path) for path, it in description["paths"].items() for method in it}
    assert described == {(route.method, route.path) for route in ROUTES}
    ids = [operation["operationId"] for it in description["paths"].values() for operation in it.values()]
    assert len(ids) == len(set(ids))
    add = description["paths"]["/{tenant}/job/{type}/add"]["post"]
    options = {parameter["name"]: parameter["schema"] for parameter in add["parameters"]}
    assert options["priority"] == {"enum": [0, 500, 1000], "default": 500}
    assert {"tenant", "type", "delay_s", "idempotency_key", "ack"} <= options.keys()
    assert add["security"] == [{"key": []}]


async def test_docs_is_one_page_with_every_path_and_nothing_from_afar(site: Site) -> None:
    answer = await site.get("/docs", key=None)
    page = answer.body.decode()
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    for route in ROUTES:
        assert route.path in page
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page
    assert "style-src 'sha256-" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/acme/results?code=ok%0A", None),
        ("PUT", "/acme/consumer/c1", {"source": "src", "next": "a\n"}),
        ("POST", "/jobber/queue", {"type": "a\n", "payload": 1}),
        ("POST", "/acme/jobs", {"jobs": [{"type": "a\n", "payload": 1}]}),
        ("POST", "/acme/work/take", {"types": ["x"], "worker": {"name": "gpu\n"}}),
    ],
)
async def test_a_newline_at_the_end_is_no_part_of_a_name(site: Site, method: str, path: str, body: object) -> None:
    more: dict[str, Any] = {} if body is None else {"json": body}
    answer = await site.call(method, path, **more)
    assert (answer.status, answer.code) == (422, "invalid_input"), answer.body
    assert answer.json["error"]["detail"]["field"]


def test_what_is_published_of_patterns_can_be_read_everywhere() -> None:
    """Some engines do not know what looks ahead."""
    patterns = {
        json.loads(text) for text in re.findall(r'"pattern": ("(?:[^"\\]|\\.)*")', json.dumps(build_openapi(ROUTES)))
    }
    assert len(patterns) >= 4
    assert [text for text in patterns if "(?!" in text or not (text.startswith("^") and text.endswith("$"))] == []


@pytest.mark.parametrize(("query", "bound"), [("since_ms=999999999999999", "253,402,300,799,999"), ("limit=0", "1")])
async def test_a_bound_is_told_as_it_is(site: Site, query: str, bound: str) -> None:
    assert (await site.get(f"/acme/results?{query}")).json["error"]["message"].endswith(f" {bound}")
