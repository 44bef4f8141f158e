"""Reports of workers over HTTP that are refused: one bad item does not spoil the others."""

import json
from typing import Any

import pytest

from tests.support.web import Site
from tests.support.worker_calls import lease, post, report, take


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"outcome": "ok", "exitcode": 404}, "exitcode: 404 is not one of ok"),
        ({"exitcode": 302}, "exitcode: must be 1xx"),
        ({"exitcode": 7}, "exitcode: must be 1xx"),
        ({"outcome": "retry", "delay_s": -1}, "delay_s: must be between 0 and 3,155,760,000"),
        ({"outcome": "retry", "delay_s": 1e307}, "delay_s: must be between"),
        ({"result": 1, "result_base64": "eA=="}, "use either result or result_base64"),
        ({"result_base64": "="}, "result_base64 is not base64"),
        ({"progress": json.loads("[" * 101 + "]" * 101)}, "progress: is nested more than 100 deep"),
        ({"progress": "x" * 5000}, "progress: must have at most 4096 bytes"),
        ({"log": "x" * 65_537}, "log: must have at most 65,536 characters"),
        ({"new_jobs": [{"type": "a|b", "payload": ""}]}, "new_jobs: 'a|b' is not a type"),
        ({"new_jobs": [{"type": "a"}]}, "new_jobs: a new job needs one of payload and payload_base64"),
        ({"new_jobs": [{"type": "a", "payload": ""}] * 1001}, "new_jobs: must have at most 1,000"),
        ({"new_jobs": [{"type": "a", "payload": "", "options": "x" * 2001}]}, "new_jobs: options must have at most"),
    ],
)
async def test_an_item_that_makes_no_sense_does_not_spoil_the_others(
    site: Site, said: dict[str, Any], words: str
) -> None:
    ids = await post(site, "1", "2")
    bad, good = await take(site)
    answer = await report(
        site, {**lease(bad), **said}, {**lease(good), "outcome": "ok"}, {**lease(good), "exitcode": 400}
    )
    wrong, ok, twice = answer["verdicts"]
    assert (wrong["id"], wrong["answer"], wrong["status"], wrong["code"]) == (ids[0], "refused", 422, "")
    assert wrong["message"].startswith(words)
    assert (ok["answer"], twice["status"], twice["message"]) == ("ok", 422, f"id: {ids[1]} ends twice in one request")
    assert (await site.get(f"/acme/job/{ids[0]}")).json["state"] == "running", "its worker still has it"
    assert (await report(site, {**lease(bad), "outcome": "ok"}))["verdicts"][0]["answer"] == "ok"


async def test_a_refused_verdict_has_the_status_of_the_job(site: Site) -> None:
    (job_id,) = await post(site, "1")
    (job,) = await take(site)
    made = [{"type": "resize", "payload": "x", "options": "bogus=1"}]
    (verdict,) = (await report(site, {**lease(job), "outcome": "ok", "new_jobs": made}))["verdicts"]
    assert (verdict["answer"], verdict["status"], verdict["code"]) == ("refused", 400, "failed")
    assert (await site.get(f"/acme/job/{job_id}")).json["exitcode"] == 400
