"""A tenant's names may be words of our own addresses: each still has its page."""

import pytest

from functory.web.pages.mount import PAGES
from tests.support.pages import visitor
from tests.support.web import Site

WORDS = sorted({word for page in PAGES for word in page.path.split("/") if word and "{" not in word} | {"live"})


@pytest.mark.parametrize("name", WORDS)
async def test_a_type_and_a_consumer_have_their_page_whatever_their_name(site: Site, name: str) -> None:
    await site.add("x", path=f"/acme/job/{name}/add")
    await site.intake.flush()
    assert (await site.call("PUT", f"/acme/consumer/{name}", json={"source": name})).status == 200
    async with visitor(site, "acme") as acme:
        for path in (f"/ui/t/acme/consumers/{name}", f"/ui/t/acme/type/{name}", f"/ui/t/acme/type/{name}/edit"):
            async with acme.session.get(site.url + path) as answer:
                assert (answer.status, answer.content_type) == (200, "text/html"), path
                assert name in (await answer.text()).partition("</title>")[0].partition("<title>")[2], path
