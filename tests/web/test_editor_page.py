"""The editor of a handler: two who edit one folder, and texts whose line ends no form can hold."""

import re
from html import unescape
from typing import Any

import pytest

from functory.operations.keys import create_key
from journal.options import JournalOptions
from tests.support.folders import put, untar
from tests.support.pages import Shown, Visitor, visitor
from tests.support.web import Site

FILES = {"main.py": b"import a, b\nreturn [a.X, b.X]\n", "a.py": b"X = 1\n", "b.py": b"X = 1\n"}
EDIT = "/ui/t/acme/type/up/edit"
_FIELD = re.compile(r'<input[^>]* name="(\w+)"[^>]*? value="([^"]*)"')
_AREA = re.compile(r'name="(body|more)"[^>]*>\n(.*?)</textarea>', re.DOTALL)


async def opened(visit: Visitor, path: str) -> dict[str, str]:
    """The form of a page as a browser has it, which ends its lines with CRLF when it sends it."""
    page = await visit.get(path)
    assert page.status == 200
    return form_of(page)


def form_of(page: Shown) -> dict[str, str]:
    main = page.text[page.text.index('class="handler"') :]
    fields = {**dict(_FIELD.findall(main)), **dict(_AREA.findall(main)), "lang": "python", "do": "save"}
    return {name: unescape(value) for name, value in fields.items() if name not in {"token", "network"}}


def typed(form: dict[str, str], body: str) -> dict[str, str]:
    return {**form, "body": re.sub(r"\r\n?|\n", "\r\n", body)}


async def files_of(site: Site) -> dict[str, bytes]:
    return await untar((await site.get("/acme/handler/up?format=tar")).body)


async def test_what_another_tab_saved_in_another_file_stays(site: Site) -> None:
    await put(site, FILES)
    async with visitor(site, "acme") as acme:
        tabs = {name: await opened(acme, f"{EDIT}?file={name}") for name in ("a.py", "b.py", "main.py")}
        for name, form in tabs.items():
            saved = await acme.post(EDIT, typed(form, f"X = 2 # {name}\n"))
            assert saved.location.endswith("note=saved"), saved.text
    assert await files_of(site) == {name: f"X = 2 # {name}\n".encode() for name in FILES}


async def test_the_payload_of_a_job_stays_from_file_to_file(site: Site) -> None:
    await put(site, FILES)
    first, _ = await site.add("the-one", "another", path="/acme/job/up/add")
    await site.run(jobtype="acme-up")
    async with visitor(site, "acme") as acme:
        page = await acme.get(f"{EDIT}?job={first}")
        (link,) = re.findall(r'<a href="([^"]*file=b.py)"', page.text)
        assert ">\nthe-one</textarea>" in (await acme.get(unescape(link))).text


@pytest.mark.parametrize("more", ["{", "[]", f"[{' ' * 3000}]"])
async def test_more_settings_that_are_not_an_object_are_called_what_they_are(site: Site, more: str) -> None:
    await put(site, FILES)
    async with visitor(site, "acme") as acme:
        refused = await acme.post(EDIT, {**await opened(acme, EDIT), "more": more})
    assert refused.status == 422
    assert "The text under More settings" in refused.text
    assert "the body" not in refused.text.lower()


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_what_was_typed_is_kept_if_the_payload_to_try_it_with_is_too_long(site: Site) -> None:
    await put(site, FILES)
    longer = "x" * (JournalOptions().max_payload_bytes + 1)
    async with visitor(site, "acme") as acme:
        form = typed(await opened(acme, EDIT), "X = 2\n")
        refused = await acme.post(EDIT, {**form, "payload": longer, "do": "try"})
    assert "max_payload_bytes" in refused.text
    assert form_of(refused)["body"] == "X = 2\n"


@pytest.mark.parametrize("name", ["a.py", "main.py"])
async def test_a_file_that_another_tab_saved_is_replaced_only_by_who_was_told(site: Site, name: str) -> None:
    await put(site, FILES)
    async with visitor(site, "acme") as acme:
        first, second = [await opened(acme, f"{EDIT}?file={name}") for _ in range(2)]
        await acme.post(EDIT, typed(first, "X = 2\n"))
        again = await acme.post(EDIT, typed(first, "X = 2\n"))
        assert again.location.endswith("note=unchanged"), "sent twice, and the same"
        assert (await acme.post(EDIT, {**typed(second, "X = 3\n"), "do": "try"})).status == 409
        refused = await acme.post(EDIT, typed(second, "X = 3\n"))
        assert (refused.status, f"{name} was saved since" in refused.text.lower()) == (409, True)
        assert form_of(refused)["body"] == "X = 3\n", "what was typed is kept"
        assert (await files_of(site))[name] == b"X = 2\n"
        saved = await acme.post(EDIT, typed(form_of(refused), "X = 3\n"))
        assert saved.location.endswith("note=saved")
    assert await files_of(site) == {**FILES, name: b"X = 3\n"}


async def test_a_version_that_was_saved_meanwhile_is_replaced_only_by_who_was_told(site: Site) -> None:
    await site.call("PUT", "/acme/handler/up?lang=python", data=b"return 1")
    async with visitor(site, "acme") as acme:
        first, second = [await opened(acme, EDIT) for _ in range(2)]
        assert (await acme.post(EDIT, {**first, "body": "return 2", "timeout_s": "7"})).location.endswith("note=saved")
        tried = await acme.post(EDIT, {**second, "body": "return 3", "do": "try"})
        assert form_of(tried)["version"] == "1", "a try is of no version"
        for body in ("return 3", "return 2"):
            refused = await acme.post(EDIT, {**second, "body": body})
            assert (refused.status, "Version 2 was saved since you opened version 1" in refused.text) == (409, True)
            assert form_of(refused)["timeout_s"] == second["timeout_s"]
        same = await acme.post(EDIT, {**second, "body": "return 2", "timeout_s": "7"})
        assert same.location.endswith("note=unchanged")
        refused = await acme.post(EDIT, second)
        assert (await acme.post(EDIT, form_of(refused))).location.endswith("note=saved")


@pytest.mark.parametrize(("lang", "body"), [("http", "https://example.org/hook"), ("wasm", "AGFzbQEAAAA=")])
async def test_a_handler_whose_body_is_no_code_can_be_saved_after_another_version(
    site: Site, lang: str, body: str
) -> None:
    handler = {"lang": lang, "body": body}
    assert (await site.call("PUT", "/acme/handler/up", json={**handler, "timeout_s": 5})).status == 200
    async with visitor(site, "acme") as acme:
        mine = {**await opened(acme, EDIT), **handler}
        assert (await site.call("PUT", "/acme/handler/up", json={**handler, "timeout_s": 7})).status == 200
        refused = await acme.post(EDIT, mine)
        assert (refused.status, "Version 2 was saved since you opened version 1" in refused.text) == (409, True)
        assert (await acme.post(EDIT, {**mine, "lang": "sh"})).status == 409, "in another language"
        same = await acme.post(EDIT, {**mine, "timeout_s": "7"})
        assert same.location.endswith("note=unchanged")
        saved = await acme.post(EDIT, {**form_of(refused), **handler})
        assert saved.location.endswith("note=saved")


async def test_a_new_handler_does_not_replace_one_that_is_there_without_a_word(site: Site) -> None:
    await site.call("PUT", "/acme/handler/up?lang=python", data=b"return 1")
    async with visitor(site, "acme") as acme:
        form = {**await opened(acme, "/ui/t/acme/new"), "type": "up", "body": "return 2"}
        refused = await acme.post("/ui/t/acme/new", form)
        assert (refused.status, "The type up has a handler already" in refused.text) == (409, True)
        again = await acme.post("/ui/t/acme/new", form_of(refused))
        assert again.location.endswith("/type/up?note=saved")


async def test_who_was_told_of_one_handler_does_not_replace_another(site: Site) -> None:
    for name in ("up", "down"):
        await site.call("PUT", f"/acme/handler/{name}?lang=python", data=b"return 1")
    async with visitor(site, "acme") as acme:
        new = {**await opened(acme, "/ui/t/acme/new"), "body": "return 2"}
        told = form_of(await acme.post("/ui/t/acme/new", {**new, "type": "up"}))
        tried = form_of(await acme.post("/ui/t/acme/new", {**told, "type": "down", "do": "try"}))
        answers = [await acme.post("/ui/t/acme/new", {**form, "type": "down"}) for form in (told, tried)]
        for refused in answers:
            assert (refused.status, "The type down has a handler already" in refused.text) == (409, True)
        saved = await acme.post("/ui/t/acme/new", form_of(answers[-1]))
        assert saved.location.endswith("/type/down?note=saved")
    assert (await site.get("/acme/handler/up")).json["version"] == 1


async def test_settings_of_a_folder_that_were_saved_meanwhile_are_replaced_only_by_who_was_told(site: Site) -> None:
    await put(site, FILES)
    async with visitor(site, "acme") as acme:
        first, second = [await opened(acme, f"{EDIT}?file={name}") for name in ("a.py", "b.py")]
        assert (await acme.post(EDIT, {**first, "timeout_s": "7"})).location.endswith("note=saved")
        refused = await acme.post(EDIT, typed(second, "X = 2\n"))
        assert (refused.status, "was saved since you opened version" in refused.text) == (409, True)
        assert (await acme.post(EDIT, form_of(refused))).location.endswith("note=saved")


@pytest.mark.parametrize("do", ["try", "save"])
async def test_who_was_told_of_a_file_was_not_told_of_settings(site: Site, do: str) -> None:
    await put(site, FILES)
    async with visitor(site, "acme") as acme:
        first, second = [await opened(acme, f"{EDIT}?file=a.py") for _ in range(2)]
        saved = await acme.post(EDIT, {**typed(first, "X = 2\n"), "timeout_s": "7"})
        assert saved.location.endswith("note=saved")
        told = await acme.post(EDIT, {**typed(second, "X = 3\n"), "do": do})
        assert (told.status, "A.py was saved since" in told.text) == (409, True)
        refused = await acme.post(EDIT, form_of(told))
        assert (refused.status, "was saved since you opened version" in refused.text) == (409, True)
        assert (await acme.post(EDIT, form_of(refused))).location.endswith("note=saved")


async def test_a_handler_that_is_no_folder_any_more_is_not_made_one_again(site: Site) -> None:
    await put(site, FILES)
    async with visitor(site, "acme") as acme:
        form = await opened(acme, f"{EDIT}?file=a.py")
        await site.call("PUT", "/acme/handler/up?lang=python", data=b"return 1")
        refused = await acme.post(EDIT, typed(form, "X = 2\n"))
        assert (refused.status, "open it again" in refused.text) == (409, True)
    assert (await site.get("/acme/handler/up")).json["version"] == 2


async def test_the_line_ends_of_a_file_stay(site: Site) -> None:
    files = {
        **FILES,
        "d.csv": b"a,b\r\n1,2\r\n",
        "mixed.txt": b"a\r\nb\n",
        "old.txt": b"a\rb\n",
        "logo.png": b"\x89PNG\0",
    }
    await put(site, files)
    async with visitor(site, "acme") as acme:
        for name in files:
            form = await opened(acme, f"{EDIT}?file={name}")
            same = await acme.post(EDIT, typed(form, form["body"]))
            assert same.location.endswith("note=unchanged"), name
        for name, is_fixed in (("d.csv", False), ("mixed.txt", False), ("old.txt", True), ("logo.png", True)):
            assert ("readonly" in (await acme.get(f"{EDIT}?file={name}")).text) == is_fixed, name
        form = await opened(acme, f"{EDIT}?file=d.csv")
        await acme.post(EDIT, typed(form, form["body"] + "3,4\n"))
    assert await files_of(site) == {**files, "d.csv": b"a,b\r\n1,2\r\n3,4\r\n"}


@pytest.mark.parametrize(
    "fields",
    [
        {"body": "x = 1\r\nreturn x\r\n"},
        {"body": "x = '''a\rb'''\nreturn x"},
        {"body": "return 1", "timeout_s": 12.3456789},
        {"body": "return 1", "timeout_s": 60},
    ],
)
async def test_a_handler_that_is_opened_and_saved_is_unchanged(site: Site, fields: dict[str, Any]) -> None:
    put = await site.call("PUT", "/acme/handler/up", json={"lang": "python", **fields})
    assert put.status == 200
    async with visitor(site, "acme") as acme:
        form = await opened(acme, EDIT)
        assert ".0" not in form["timeout_s"]
        saved = await acme.post(EDIT, typed(form, form["body"]))
        assert saved.location.endswith("note=unchanged"), saved.text
        is_fixed = "readonly" in (await acme.get(EDIT)).text
    assert is_fixed == (b"\r" in fields["body"].encode().replace(b"\r\n", b""))


async def test_who_may_only_read_is_told_of_no_keys_to_try_and_save(site: Site) -> None:
    _, site.keys["reader"] = await create_key(site.service, "test", "acme", scopes=["read"])
    await site.call("PUT", "/acme/handler/up?lang=sh", data=b"cat")
    for who, is_told in (("acme", True), ("reader", False)):
        async with visitor(site, who) as visit:
            page = (await visit.get("/ui/t/acme/type/up/edit")).text
            assert ("<kbd>S</kbd> save" in page) is is_told, who


async def test_a_try_shows_what_it_would_have_left_behind(site: Site) -> None:
    await put(site, FILES)
    async with visitor(site, "acme") as acme:
        form = {**await opened(acme, EDIT), "do": "try", "payload": "x"}
        page = await acme.post(EDIT, form)
        assert "<h3>New jobs</h3>" in page.text
        assert "mail?unique=daily | <bdi>" in page.text
        assert "Carried on" not in page.text
        site.trial_runs.carried = b'{"last": "<b>\x1b"}'
        page = await acme.post(EDIT, form)
        assert "Carried on" in page.text
        assert "{&#34;last&#34;: &#34;&lt;b&gt;" in page.text
        site.trial_runs.carried = b""
        assert "an empty payload" in (await acme.post(EDIT, form)).text
