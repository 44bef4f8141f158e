"""Alert rules, dashboard and scaling use numbers that a real daemon shows to a real Prometheus, and the rules fire when
they should."""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientError, ClientSession

from functory.client import Client
from tests.support.daemon_process import daemon, free_port, make_key
from tests.support.deploy_files import ALERTS, DEPLOY, ROOT, alert_rules, dashboard, load_yaml, metrics_in, strings_in
from tests.support.needs import need_command
from tests.support.polling import until

OPERATIONS = ROOT / "docs" / "operations.md"
NAMED_IN_THE_ISSUE = {
    "FunctoryOldestJobTooOld",
    "FunctoryJournalLag",
    "FunctoryJournalDisk",
    "FunctoryLeasesExpire",
    "FunctoryIsolationDropped",
    "FunctoryStoreUnavailable",
    "FunctorySysidLapsing",
    "FunctoryAbandoned",
}


def test_promtool_accepts_the_rules_and_their_tests_pass() -> None:
    promtool = need_command("promtool", "prometheus")
    for arguments in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts.test.yaml"]):
        done = subprocess.run([promtool, *arguments], cwd=ALERTS.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_scrape_configuration() -> None:
    promtool = need_command("promtool", "prometheus")
    done = subprocess.run(
        [promtool, "check", "config", "prometheus.yaml"], cwd=ALERTS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_both_ways_and_explained() -> None:
    names = [rule["alert"] for rule in alert_rules()]
    assert set(names) >= NAMED_IN_THE_ISSUE
    tests = load_yaml(ALERTS.with_suffix(".test.yaml"))["tests"]
    expected = {(one["alertname"], bool(one["exp_alerts"])) for test in tests for one in test["alert_rule_test"]}
    assert expected == {(name, raised) for name in names for raised in (True, False)}
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in OPERATIONS.read_text().splitlines()
        if line.startswith("#")
    }
    for rule in alert_rules():
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert (ROOT / page) == OPERATIONS
        assert anchor in headings, f"{rule['alert']}: docs/operations.md has no heading #{anchor}"
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_the_dashboard_is_whole() -> None:
    board = dashboard()
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)) >= 12
    known = {variable["name"] for variable in board["templating"]["list"]} | {"__rate_interval", "__all"}
    for text in strings_in(board):
        assert set(re.findall(r"\$\{?(\w+)", text)) <= known, text
    spots = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(spots) == len(set(spots)), "panels lie on each other"


@pytest.fixture
def program() -> str:
    return need_command("prometheus", "prometheus")


@pytest.mark.slow
async def test_a_real_prometheus_finds_every_number_that_is_used(tmp_path: Path, program: str) -> None:
    status_port = free_port()
    async with daemon(tmp_path / "data", status_port=str(status_port)) as server:
        key = await make_key(server, "acme")
        async with Client(server.url, key, "acme") as acme:
            await acme.put_handler("x", "python", "return payload")
            (first,) = (await acme.add_jobs("x", ["1"])).ids or []
            assert (await acme.get_job(first, wait_s=60)).code == "ok"
            await acme.put_handler("far", "worker", "")
            await acme.add_jobs("far", ["1"], ack="store")
            await server.order("stop")
            await acme.add_jobs("x", ["2"], ack="store")  # stays runnable: nothing is started any more
        async with prometheus(program, tmp_path, status_port) as ask:
            await until(lambda: _has_series(ask, "functory_runnable_unasked_seconds"))
            await until(lambda: _has_series(ask, 'functory_runnable_oldest_seconds{type="x"}'))
            names = set(await ask("label/__name__/values"))
            used = set().union(*(metrics_in(text) for text in await asyncio.to_thread(used_expressions)))
            assert len(used) > 25
            assert used <= names, f"not in the scrape: {sorted(used - names)}"
            for expression in await asyncio.to_thread(dashboard_expressions):
                await ask("query", query=expression)
            await until(lambda: _all_evaluated(ask))
            firing = {alert["labels"]["alertname"] for alert in (await ask("alerts"))["alerts"]}
            assert "FunctoryDown" not in firing
        assert await server.stop() == 0


def used_expressions() -> list[str]:
    """Everything in deploy/ that speaks of our numbers, wherever it is."""
    texts = [text for path in DEPLOY.rglob("*.json") for text in strings_in(yaml.safe_load(path.read_text()))]
    for path in DEPLOY.rglob("*.yaml"):
        texts += [text for document in yaml.safe_load_all(path.read_text()) for text in strings_in(document)]
    return texts


def dashboard_expressions() -> list[str]:
    expressions = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    expressions += [annotation["expr"] for annotation in dashboard()["annotations"]["list"]]
    filled = [text.replace("$__rate_interval", "1m").replace("$tenant", ".*") for text in expressions]
    return [text.replace("$instance", ".*") for text in filled]


@asynccontextmanager
async def prometheus(program: str, folder: Path, status_port: int) -> AsyncIterator[Any]:
    """A real one with our rules, scraping one daemon; what it yields asks its API."""
    config = await asyncio.to_thread(load_yaml, ALERTS.with_name("prometheus.yaml"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(ALERTS)]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{status_port}"]}]
    config_file = folder / "prometheus.yaml"
    await asyncio.to_thread(config_file.write_text, yaml.safe_dump(config))
    port = free_port()
    log = await asyncio.to_thread((folder / "prometheus.log").open, "wb")
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={config_file}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stderr=log,
    )
    log.close()
    try:
        async with ClientSession(f"http://127.0.0.1:{port}") as session:

            async def ask(path: str, **query: str) -> Any:
                async with session.get(f"/api/v1/{path}", params=query) as answer:
                    body = await answer.json()
                    assert answer.status == 200, body
                    return body["data"]

            yield ask
    finally:
        process.terminate()
        await process.wait()


async def _has_series(ask: Any, name: str) -> bool:
    try:
        return bool((await ask("query", query=name))["result"])
    except (ClientError, AssertionError):  # it is still starting
        return False


async def _all_evaluated(ask: Any) -> bool:
    rules = [rule for group in (await ask("rules"))["groups"] for rule in group["rules"]]
    assert not [rule for rule in rules if rule["health"] == "err"], rules
    return all(rule["health"] == "ok" for rule in rules)
