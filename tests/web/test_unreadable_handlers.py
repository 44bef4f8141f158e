"""A handler that is damaged, or of a newer version of the program: its jobs wait, and whoever asks is told."""

from store.base import NewHandler
from tests.support.web import T0, Site


async def test_jobs_whose_handler_cannot_be_read_say_so(site: Site) -> None:
    unreadable = b'{"lang":"python","body":"x","made_up":1}'
    await site.store.set_handler("acme", NewHandler("acme-up", "python", unreadable, T0))
    (job_id,) = await site.add("x", path="/acme/job/up/add")
    await site.intake.flush()
    why = (await site.get(f"/acme/job/{job_id}/why")).json
    assert (why["reason"], why["detail"]) == ("handler_unreadable", {"version": 1, "daemon": "a7"})
    told = "daemon a7 cannot read version 1 of its handler (data: the stored handler cannot be read: made_up"
    assert told in why["text"]
    answer = await site.get("/acme/handler/up")
    assert answer.status == 422
    assert "a newer version of Functory may have stored it" in answer.json["error"]["message"]
    site.control.unreadable_handlers["acme-up"] = "data: the stored handler is not JSON"
    (row,) = (await site.get("/acme/scoreboard")).json["types"]
    assert (row["type"], row["unreadable"]) == ("up", "data: the stored handler is not JSON")
