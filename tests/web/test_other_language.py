"""A handler that is written anew in another language."""

from tests.support.web import Site


async def test_what_prints_no_jobs_prints_none_in_another_language(site: Site) -> None:
    """A text that is written anew does not let strangers make jobs by that."""
    put = "/acme/handler/up?merge=true"
    off = {"printed_jobs": 0}
    await site.call("PUT", put, json={"lang": "python", "body": "pass", "options": {**off, "max_batch": 5}})
    answer = await site.call("PUT", put, json={"lang": "sh", "body": "true"})
    assert answer.json["handler"]["options"] == off
    answer = await site.call(
        "PUT", put, json={"lang": "http", "body": "https://a.example/", "options": {"max_batch": 2}}
    )
    assert answer.json["handler"]["options"] == {**off, "max_batch": 2}
    answer = await site.call("PUT", put, json={"lang": "sh", "body": "true", "options": {"printed_jobs": 1}})
    assert answer.json["handler"]["options"] == {"printed_jobs": 1}
    await site.call("PUT", put, json={"lang": "python", "body": "pass", "options": off})
    answer = await site.call("PUT", put, json={"lang": "sh", "body": "true", "options": {"printed_jobs": None}})
    assert answer.json["handler"]["options"] == {}
