"""Handlers that are folders over HTTP: sent as archives, kept once, downloaded, edited, and refused by name."""

import asyncio
import json
import os
from typing import Any

import pytest

from functory.operations.service import OperationSettings
from handlers.folders.limits import PIECE_BYTES, FolderLimits
from handlers.folders.manifest import Manifest, digest_of, entry_of
from store.base import Content
from tests.support.archives import zip_of
from tests.support.folders import put, untar
from tests.support.jobs import T0
from tests.support.pages import visitor
from tests.support.web import Site, open_site

FILES = {"main.py": b"import helper\nreturn helper.x", "helper.py": b"x = 1\n", "data/words.txt": b"words"}
ZIP = {"Content-Type": "application/zip"}


async def test_a_folder_is_registered_from_either_archive_and_downloaded(site: Site) -> None:
    answer = await put(site, FILES)
    assert answer.status == 200, answer.body
    handler = answer.json["handler"]
    assert (handler["lang"], handler["entry"], handler["body"]) == ("python", "main.py", FILES["main.py"].decode())
    again = await site.call("PUT", "/acme/handler/up", data=zip_of(FILES), headers=ZIP)
    assert again.json == answer.json, "the same files make no new version"
    download = await site.get("/acme/handler/up?format=tar")
    assert download.status == 200
    assert await untar(download.body) == FILES
    changed = await put(site, {**FILES, "helper.py": b"x = 2\n"})
    assert changed.json["version"] == 2
    assert await untar((await site.get("/acme/handler/up?format=tar&version=1")).body) == FILES
    back = await site.post("/acme/handler/up/rollback", json={"version": 1})
    assert back.json["handler"]["tree"] == handler["tree"]
    assert await untar((await site.get("/acme/handler/up?format=tar")).body) == FILES


async def test_another_entry_needs_its_text_also_with_merge(site: Site) -> None:
    await put(site, FILES)
    answer = await site.call("PUT", "/acme/handler/up?merge=true", json={"entry": "helper.py"})
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "body")
    assert await untar((await site.get("/acme/handler/up?format=tar")).body) == FILES


async def test_archives_of_one_tenant_leave_a_turn_for_others(site: Site) -> None:
    turns = site.service.folder_turns
    reading: list[int] = []
    go_on = asyncio.Event()

    async def read(number: int) -> None:
        async with turns.of("loud"):
            reading.append(number)
            await go_on.wait()

    tasks = [asyncio.create_task(read(number)) for number in range(5)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert reading == [0]
    assert (await put(site, FILES)).status == 200
    go_on.set()
    await asyncio.gather(*tasks)


async def test_the_project_file_has_the_fields(site: Site) -> None:
    toml = b'lang = "python"\nentry = "code/start.py"\ntimeout_s = 5\n[env]\nA = "b"\n[options]\nmax_batch = 3\n'
    files = {"functory.toml": toml, "code/start.py": b"return 1"}
    handler = (await put(site, files)).json["handler"]
    assert (handler["entry"], handler["timeout_s"], handler["env"]) == ("code/start.py", 5.0, {"A": "b"})
    assert handler["options"] == {"max_batch": 3}
    for extra, word in (
        (b"colour = 1\n", "colour"),
        (b"timeout_s = 0\n", "timeout_s"),
        (b'tree = "x"\n', "tree"),
        (b"x = [\n", "functory.toml"),
    ):
        answer = await put(site, {**FILES, "functory.toml": extra})
        assert answer.status in {400, 422}, answer.body
        assert word in answer.json["error"]["message"]
    assert (await put(site, files, "/acme/handler/up?lang=node")).status in {400, 422}


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({"../main.py": b"x"}, "../main.py"),
        ({"main.py": b"x", "MAIN.py": b"x"}, "MAIN.py"),
        ({"other.py": b"x"}, "main.py"),
        ({"main.py": b"\xff"}, "UTF-8"),
        ({"main.py": b"", "x": b"x"}, "body"),
        ({}, "empty"),
    ],
)
async def test_what_is_wrong_is_refused_by_name_and_nothing_is_registered(
    site: Site, files: dict[str, bytes], word: str
) -> None:
    answer = await put(site, files)
    assert answer.status in {400, 422}, answer.body
    assert word in answer.json["error"]["message"]
    assert (await site.get("/acme/handler/up")).status == 404


async def test_a_body_that_is_changed_in_json_changes_the_entry_file(site: Site) -> None:
    handler = (await put(site, FILES)).json["handler"]
    changed = await site.call("PUT", "/acme/handler/up", json={**handler, "body": "return 2"})
    assert changed.json["handler"]["tree"] != handler["tree"]
    assert await untar((await site.get("/acme/handler/up?format=tar")).body) == {**FILES, "main.py": b"return 2"}
    assert (await site.call("PUT", "/acme/handler/up", json=changed.json["handler"])).json == changed.json


async def test_a_folder_belongs_to_its_tenant(site: Site) -> None:
    handler = (await put(site, FILES)).json["handler"]
    answer = await site.call("PUT", "/other/handler/up", json=handler, key="other")
    assert answer.status in {400, 422}
    assert "tree" in answer.json["error"]["message"]
    for fields, word in (
        ({**handler, "tree": "0" * 64}, "tree"),
        ({**handler, "tree": "x"}, "tree"),
        ({**handler, "entry": "none.py"}, "none.py"),
        ({**handler, "tree": ""}, "entry"),
        ({**handler, "lang": "wasm", "body": "AGFzbQ=="}, "tree"),
    ):
        answer = await site.call("PUT", "/acme/handler/up", json=fields)
        assert answer.status in {400, 422}
        assert word in answer.json["error"]["message"]
    (plain,) = [await site.call("PUT", "/acme/handler/plain?lang=python", data=b"return 1")]
    assert plain.status == 200
    assert (await site.get("/acme/handler/plain?format=tar")).status == 404


@pytest.mark.parametrize(
    "more",
    [
        ["../../../../outside", 1, True, [digest_of(b"x")]],
        ["/outside", 1, True, [digest_of(b"x")]],
        ["./x", 1, False, [digest_of(b"x")]],
        ["MAIN.py", 1, False, [digest_of(b"x")]],
        ["main.py/x", 1, False, [digest_of(b"x")]],
        ["x", 0, False, [digest_of(b"x")]],
        ["x", -1, False, []],
        ["x", 1.0, False, [digest_of(b"x")]],
        ["x", True, False, [digest_of(b"x")]],
        ["x", "1", False, [digest_of(b"x")]],
        ["x", 1, "yes", [digest_of(b"x")]],
        ["x", 1, False, digest_of(b"x")],
        ["x", 1, False, ["x"]],
        ["x", 1, False, []],
        ["x", 40 * 4096 * 1024, False, [digest_of(b"x")] * 40],
        [1, 1, False, [digest_of(b"x")]],
        ["x", 1, False],
    ],
)
async def test_a_list_of_files_that_a_tenant_wrote_names_no_folder(site: Site, more: list[object]) -> None:
    """It was kept as a file of a folder, and is named by its digest."""
    body = b"return 1"
    rows = sorted([["main.py", len(body), False, [digest_of(body)]], more], key=str)
    written = json.dumps({"format": 1, "files": rows}, separators=(",", ":")).encode()
    handler = (await put(site, {"main.py": body, "x": b"x"})).json["handler"]
    await site.service.store.put_contents("acme", [Content("acme", digest_of(written), T0, written)])
    answer = await site.call("PUT", "/acme/handler/forged", json={**handler, "tree": digest_of(written)})
    assert (answer.status, answer.json["error"]["detail"]["field"]) in {(422, "tree"), (422, "files")}, answer.body
    assert (await site.get("/acme/handler/forged")).status == 404


@pytest.mark.parametrize("before", [0, PIECE_BYTES])
async def test_no_file_has_a_piece_that_reads_as_a_list_of_files(site: Site, before: int) -> None:
    handler = (await put(site, {"main.py": b"return 1"})).json["handler"]
    written = Manifest((entry_of("main.py", b"return 1"), entry_of("x", b"x"))).encoded
    answer = await put(site, {"main.py": b"return 1", "x": b"x", "list": os.urandom(before) + written})
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "files"), answer.body
    forged = await site.call("PUT", "/acme/handler/up", json={**handler, "tree": digest_of(written)})
    assert (forged.status, forged.json["error"]["detail"]["field"]) == (422, "tree")


@pytest.mark.parametrize("data", [b"return 1", b"[]", b'"x"', b"[" * 100_000, b'{"format":1}', b"\xff"])
async def test_a_file_is_no_folder(site: Site, data: bytes) -> None:
    handler = (await put(site, {"main.py": b"return 1", "file": data})).json["handler"]
    answer = await site.call("PUT", "/acme/handler/forged", json={**handler, "tree": digest_of(data)})
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "tree"), answer.body


async def test_files_count_once_and_within_the_quota(site: Site) -> None:
    async def used() -> int:
        return (await site.service.store.get_usage("acme")).size_bytes

    big = bytes(range(256)) * 400
    await put(site, {**FILES, "big": big})
    before = await used()
    await put(site, {**FILES, "big": big}, "/acme/handler/second")
    await put(site, {**FILES, "big": big, "more": b"more"})
    assert await used() - before < 5000, "what is there already is not stored again"
    limits = {"max_bytes": await used() + 10_000}
    await site.call("PATCH", "/admin/tenants/acme", json={"limits": limits}, key="operator")
    refused = await put(site, {**FILES, "big": big[::-1]})
    assert (refused.status, refused.json["error"]["detail"]["quota"]) == (429, "max_bytes"), refused.body


async def test_limits_are_the_operators(tmp_path: Any) -> None:
    settings = OperationSettings(folders=FolderLimits(packed_bytes=100_000, unpacked_bytes=1000, files=2))
    async with open_site(tmp_path, operations=settings) as site:
        for files, word in ((FILES, "more than 2"), ({"main.py": b"x" * 1001}, "1000 bytes")):
            answer = await put(site, files)
            assert answer.status in {400, 422}
            assert word in json.dumps(answer.json)
        assert (await put(site, {"main.py": b"return 1"})).status == 200


async def test_the_editor_lists_the_files_and_changes_one_of_them(site: Site) -> None:
    files = {**FILES, "functory.toml": b"timeout_s = 5", "logo.png": b"\x89PNG\0"}
    tree = (await put(site, files)).json["handler"]["tree"]
    edit = "/ui/t/acme/type/up/edit"
    async with visitor(site, "acme") as acme:
        page = (await acme.get(edit)).text
        assert f'name="tree" value="{tree}"' in page
        assert all(f'<bdi class="mono">{name}</bdi>' in page for name in files)
        helper = (await acme.get(f"{edit}?file=helper.py")).text
        assert ">\nx = 1\n</textarea>" in helper
        assert "not text" in (await acme.get(f"{edit}?file=logo.png")).text
        assert "readonly" in (await acme.get(f"{edit}?file=functory.toml")).text
        assert (await acme.get(f"{edit}?file=../etc")).status == 404
        form = {"lang": "python", "more": "{}", "payload": "p", "entry": "main.py", "tree": tree, "timeout_s": "5"}
        tried = await acme.post(edit, {**form, "file": "helper.py", "body": "x = 2\r\n", "do": "try"})
        assert "echo p" in tried.text
        wrong = await acme.post(edit, {**form, "file": "functory.toml", "body": "x = 2", "do": "save"})
        assert (wrong.status, "change the settings" in wrong.text) == (422, True)
        for name in ("none.py", "../x"):
            assert (await acme.post(edit, {**form, "file": name, "body": "x", "do": "save"})).status == 422
        assert (await site.get("/acme/handler/up")).json["version"] == 1, "a try stores no version"
        saved = await acme.post(edit, {**form, "file": "helper.py", "body": "x = 2\r\n", "do": "save"})
        assert saved.location.endswith("?note=saved"), saved.text
        assert await untar((await site.get("/acme/handler/up?format=tar")).body) == {**files, "helper.py": b"x = 2\n"}
        changes = (await acme.get("/ui/t/acme/type/up/version/2")).text
        assert '<li class="d-removed">-x = 1</li>' in changes
        assert '<li class="d-added">+x = 2</li>' in changes
        assert "words.txt" in changes, "all files are listed"
        await site.call("PUT", "/acme/handler/plain?lang=python", data=b"return 1")
        assert 'name="tree"' not in (await acme.get("/ui/t/acme/type/plain/edit")).text


async def test_what_a_version_changed_is_bounded(site: Site) -> None:
    many = {f"f{number:03}.txt": b"old" for number in range(30)}
    await put(site, {**FILES, **many, "blob": b"\0" * 10})
    await put(site, {**FILES, **dict.fromkeys(many, b"new"), "blob": b"\1" * 300_000})
    async with visitor(site, "acme") as acme:
        page = (await acme.get("/ui/t/acme/type/up/version/2")).text
    assert "11 more files differ" in page
    assert "300,000 bytes that is not shown" in page


async def test_secrets_have_a_field_in_the_editor(site: Site) -> None:
    form = {"lang": "python", "body": "return 1", "more": "{}", "payload": "", "secrets": "API_KEY, OTHER"}
    for name in ("API_KEY", "OTHER"):
        await site.call("PUT", f"/acme/secret/{name}", json={"value": "s3same"})
    async with visitor(site, "acme") as acme:
        assert (await acme.post("/ui/t/acme/type/up/edit", {**form, "do": "save"})).location.endswith("note=saved")
        assert (await site.get("/acme/handler/up")).json["handler"]["secrets"] == ["API_KEY", "OTHER"]
        assert 'value="API_KEY OTHER"' in (await acme.get("/ui/t/acme/type/up/edit")).text
