"""What the interface shows of the job that another one follows: as an answer, on its page and in the command line."""

import pytest

from tests.support.pages import visitor
from tests.support.terminal import Terminal
from tests.support.web import Site
from vocabulary.origin import Origin, with_origin

ORIGIN = Origin("20261114T235959123Z-a7-00001f", "load", "failed")


async def add_follower(site: Site, type_name: str = "alarm") -> str:
    """As the daemon does it when a job has ended."""
    options = {"chain": 1, "follows": ORIGIN._asdict()}
    answer = await site.post(f"/acme/job/{type_name}/add", json={"payload": "no such file", "options": options})
    await site.intake.flush()
    (job_id,) = answer.json["ids"]
    return str(job_id)


async def test_a_job_and_its_page_and_the_command_line_say_which_it_follows(site: Site, terminal: Terminal) -> None:
    job_id = await add_follower(site)
    (plain,) = await site.add("x")
    await site.intake.flush()
    assert (await site.get(f"/acme/job/{job_id}")).json["follows"] == ORIGIN._asdict()
    assert (await site.get(f"/acme/job/{plain}")).json["follows"] is None
    async with visitor(site, "acme") as acme:
        page = (await acme.get(f"/ui/t/acme/job/{job_id}")).text
        assert f'<dt>Follows</dt><dd><a class="mono" href="/ui/t/acme/job/{ORIGIN.id}">{ORIGIN.id}</a>' in page
        assert "Follows" not in (await acme.get(f"/ui/t/acme/job/{plain}")).text
    assert f"follows      {ORIGIN.id}, load, failed" in await terminal.run("job", "get", job_id)
    assert "follows" not in await terminal.run("job", "get", plain)


async def test_a_worker_is_told_with_the_job(site: Site) -> None:
    await site.call("PUT", "/acme/handler/alarm", json={"lang": "worker"})
    await add_follower(site)
    (taken,) = (await site.post("/acme/work/take", json={"types": ["alarm"]})).json["jobs"]
    assert taken["follows"] == ORIGIN._asdict()


async def test_who_takes_by_hand_sees_it_beside_the_job(site: Site, terminal: Terminal) -> None:
    await site.call("PUT", "/acme/handler/alarm", json={"lang": "worker"})
    await add_follower(site)
    assert f"{ORIGIN.id} failed" in await terminal.run("work", "take", "alarm")
    await site.post("/acme/job/alarm/add", json={"payload": "by hand"})
    await site.intake.flush()
    assert "follows" not in await terminal.run("work", "take", "alarm")


async def test_who_makes_an_origin_up_sees_nothing_of_another_tenant(site: Site) -> None:
    """Whoever may add jobs may say so in their options. It names a job, and opens none."""
    (secret,) = (await site.post("/other/job/thumb/add", key="other", json={"payload": "of another"})).json["ids"]
    await site.intake.flush()
    options = {"chain": 1, "follows": {"id": secret, "type": "thumb", "code": "ok"}}
    (job_id,) = (await site.post("/acme/job/alarm/add", json={"payload": "x", "options": options})).json["ids"]
    await site.intake.flush()
    assert (await site.get(f"/acme/job/{job_id}")).json["follows"]["id"] == secret
    assert (await site.get(f"/acme/job/{secret}")).status == 404
    async with visitor(site, "acme") as acme:
        assert "of another" not in (await acme.get(f"/ui/t/acme/job/{job_id}")).text
        assert (await acme.get(f"/ui/t/acme/job/{secret}")).status == 404


@pytest.mark.parametrize("job_id", ['"><script>', "../../admin", "x y"])
async def test_what_is_no_id_is_shown_as_options_only(site: Site, job_id: str) -> None:
    options = {"chain": 1, "follows": {"id": job_id, "type": "load", "code": "ok"}}
    (made,) = (await site.post("/acme/job/alarm/add", json={"payload": "x", "options": options})).json["ids"]
    await site.intake.flush()
    assert (await site.get(f"/acme/job/{made}")).json["follows"] is None
    async with visitor(site, "acme") as acme:
        page = (await acme.get(f"/ui/t/acme/job/{made}")).text
        assert "<dt>Follows</dt>" not in page
        assert '<script>"' not in page


def test_options_that_the_daemon_writes_read_like_those_of_a_request() -> None:
    assert with_origin('{"chain":1}', ORIGIN.note) == (
        '{"chain":1,"follows":{"id":"20261114T235959123Z-a7-00001f","type":"load","code":"failed"}}'
    )
