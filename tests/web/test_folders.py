"""Handlers that are folders over HTTP: sent as archives, kept once, downloaded, edited, and refused by name."""

import asyncio
import io
import json
import tarfile
from typing import Any

import pytest

from functory.operations.service import OperationSettings
from handlers.folders.limits import FolderLimits
from tests.support.archives import tar_of, zip_of
from tests.support.web import Site, open_site

FILES = {"main.py": b"import helper\nreturn helper.x", "helper.py": b"x = 1\n", "data/words.txt": b"words"}
TAR, ZIP = {"Content-Type": "application/gzip"}, {"Content-Type": "application/zip"}


async def put(site: Site, files: dict[str, bytes], path: str = "/acme/handler/up", **more: Any) -> Any:
    return await site.call("PUT", path, data=tar_of(files), headers=TAR, **more)


async def untar(body: bytes) -> dict[str, bytes]:
    return await asyncio.to_thread(_untar, body)


def _untar(body: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        return {info.name: archive.extractfile(info).read() for info in archive}  # type: ignore[union-attr]


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
