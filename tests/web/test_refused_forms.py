"""Forms that are refused: the page with the form comes back, with the reason and with what was typed."""

import re
from html import unescape

import pytest

from tests.support.pages import Shown, visitor
from tests.support.web import Site

_REASON = re.compile(r'id="problem"[^>]*><p><bdi>(.*?)</bdi>')


def reason_of(page: Shown) -> str:
    (reason,) = _REASON.findall(page.text)
    return unescape(reason)


@pytest.mark.parametrize(
    ("who", "path", "form", "status", "reason", "kept"),
    [
        ("acme", "/ui/t/acme/secrets", {"name": "FUNCTORY_X"}, 422, "'FUNCTORY_X' may not be set", "FUNCTORY_X"),
        ("acme", "/ui/t/acme/secrets", {"name": "1x"}, 422, "'1x' is not a name of letters", "1x"),
        ("acme", "/ui/t/acme/replay", {"failed": "yes", "limit": "20000"}, 422, "From 1 to 10,000 jobs", "20000"),
        ("acme", "/ui/t/acme/delete", {"type": "a b", "ok": "yes"}, 422, "'a b' is not a type", "a b"),
        ("acme", "/ui/t/acme/cancel", {"type": "a*", "look": "1"}, 422, "Choose at least one state", "a*"),
        ("acme", "/ui/t/acme/type/thumb/post", {"payload": "p-1", "delay_s": "soon"}, 422, "The delay must", "p-1"),
        (
            "operator",
            "/ui/operator/tenants/acme",
            {"weight": "7", "max_jobs": "many"},
            422,
            "Jobs stored must be a whole number",
            "many",
        ),
        ("operator", "/ui/operator/tenants/acme/keys", {"label": "web shop 2"}, 422, "Choose at least", "web shop 2"),
    ],
)
@pytest.mark.parametrize("is_signed_in_again", [False, True])
async def test_a_refused_form_comes_back_as_it_was_typed(
    site: Site,
    who: str,
    path: str,
    form: dict[str, str],
    status: int,
    reason: str,
    kept: str,
    is_signed_in_again: bool,
) -> None:
    async with visitor(site, who) as visit:
        old = {"token": "0" * 64} if is_signed_in_again else {}
        page = await visit.post(path, {**form, **old, "value": "sesame"})
        if is_signed_in_again:
            status, reason = 403, "The form is from another session"
        assert (page.status, reason_of(page).startswith(reason)) == (status, True), page.text
        assert f'value="{kept}"' in page.text or f">\n{kept}</textarea>" in page.text
        assert visit.token in page.text, "it can be sent again"
        assert "sesame" not in page.text


async def test_limits_that_were_refused_are_as_typed_and_the_others_as_stored(site: Site) -> None:
    async with visitor(site, "operator") as operator:
        path = "/ui/operator/tenants/acme"
        page = await operator.post(path, {"weight": "7", "max_jobs": "many", "network": "no", "hosts_choice": "none"})
        assert '<option value="no" selected>' in page.text
        assert '<option value="none" selected>' in page.text
        keys = await operator.post(f"{path}/keys", {"label": "x"})
        assert " checked" not in keys.text
        assert " checked" in page.text, "a new key has all scopes unless somebody chooses"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("jobs?type=a%2Fb", "'a/b' is not a type"),
        ("failures?type=a%2Fb", "'a/b' is not a type"),
        ("replay?type=a%2Fb&look=1&failed=yes", "'a/b' is not a type"),
        ("replay?look=1&type=a%2Fb", "Choose at least one outcome"),
        ("cancel?look=1&type=a%2Fb&waiting=yes", "'a/b' is not a type"),
        ("cancel?look=1&type=a%2Fb", "Choose at least one state"),
        ("delete?look=1&type=a%2Fb&ok=yes&age=2d", "That time is not one of the choices"),
    ],
)
async def test_a_refused_filter_can_be_changed(site: Site, path: str, reason: str) -> None:
    async with visitor(site, "acme") as acme:
        page = await acme.get(f"/ui/t/acme/{path}")
        assert page.status == 422
        assert reason_of(page).startswith(reason), reason_of(page)
        assert 'name="type" value="a/b"' in page.text
        assert "~live" not in page.text


async def test_an_error_leads_on(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        failed = await acme.post("/ui/t/acme/consumers/none/start")
        assert 'href="/ui/t/acme/consumers/none">Back to the page' in failed.text
        acme.session.cookie_jar.clear()
        out = await acme.post("/ui/t/acme/type/thumb/post", {"payload": "p"})
        assert out.status == 401
        assert 'href="/ui/signin?next=/ui/t/acme/type/thumb/post" target="_blank"' in out.text
