"""Archives of handlers that are folders: ordinary ones are read alike, hostile ones are refused by name."""

import io
import random
import struct
import tarfile
import zipfile

import pytest

from handlers.errors import InvalidHandlerError
from handlers.folders.archive import ArchiveKind, archive_pieces, list_archive, read_member
from handlers.folders.limits import DEFAULT_LIMITS, PIECE_BYTES, FolderLimits
from handlers.folders.manifest import Manifest, digest_of, entry_of
from handlers.folders.names import check_names, clean_name
from handlers.folders.project import complete_project, read_project
from tests.support.archives import tar_of, tar_with, zip_of
from vocabulary.sizes import MIB

FILES = {"main.py": b"import helper\n", "helper.py": b"", "data/words.txt": "wörter\n".encode()}


def listed(packed: bytes, kind: ArchiveKind = "tar", limits: FolderLimits = DEFAULT_LIMITS) -> Manifest:
    return list_archive(packed, kind, limits)


def refusal(packed: bytes, kind: ArchiveKind = "tar", limits: FolderLimits = DEFAULT_LIMITS) -> str:
    with pytest.raises(InvalidHandlerError) as caught:
        listed(packed, kind, limits)
    return str(caught.value)


def test_the_same_files_make_the_same_folder_in_any_archive() -> None:
    expected = Manifest.of(entry_of(name, data) for name, data in FILES.items())
    prefixed = {f"./{name}": data for name, data in reversed(FILES.items())}
    for packed, kind in (
        (tar_of(FILES), "tar"),
        (tar_of(prefixed, packed=False), "tar"),
        (zip_of(FILES), "zip"),
        (zip_of(FILES, method=zipfile.ZIP_STORED), "zip"),
    ):
        assert listed(packed, kind).digest == expected.digest  # type: ignore[arg-type]
    assert Manifest.decode(expected.encoded) == expected
    assert listed(tar_of(FILES, executable=("main.py",))).digest != expected.digest


def test_large_files_are_listed_and_read_in_pieces() -> None:
    data = random.Random(5).randbytes(2 * PIECE_BYTES + 7)
    for packed, kind in ((tar_of({"big": data}), "tar"), (zip_of({"big": data}), "zip")):
        manifest = listed(packed, kind)  # type: ignore[arg-type]
        assert [size for _, size in manifest.files[0].sizes()] == [PIECE_BYTES, PIECE_BYTES, 7]
        pieces = list(archive_pieces(packed, kind, DEFAULT_LIMITS))  # type: ignore[arg-type]
        assert b"".join(piece for _, piece in pieces) == data
        assert tuple(digest for digest, _ in pieces) == manifest.files[0].pieces
    assert read_member(tar_of(FILES), "tar", DEFAULT_LIMITS, "data/words.txt", 100) == FILES["data/words.txt"]
    for name, most in (("main.py", 3), ("none", 100)):
        with pytest.raises(InvalidHandlerError, match=name):
            read_member(tar_of(FILES), "tar", DEFAULT_LIMITS, name, most)


def test_long_and_foreign_names_of_real_tars_are_read() -> None:
    names = ["d" * 60 + "/" + "f" * 100, "ünïcode/" + "ß" * 50, "a/" * 5 + "x" * 110]
    for how in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=how, pax_headers={"comment": "git"}) as archive:
            folder = tarfile.TarInfo("./")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
            for name in names:
                info = tarfile.TarInfo(name)
                info.size, info.mtime = 1, 1.5
                archive.addfile(info, io.BytesIO(b"x"))
        assert sorted(entry.name for entry in listed(made.getvalue()).files) == sorted(names)


@pytest.mark.parametrize(
    "name",
    [
        "../x", "a/../../x", "/etc/passwd", "a//b", "a/./b", "C:/x", "a\\b", "a\nb", "a\x7fb", "x\u202egpj.exe",
        "a\u200bb", "\ufeffa", "a /b", " a", "a.", "d" * 121, "/".join("abcdefghijklm"), "/".join(["x" * 100] * 3),
    ],
)  # fmt: skip
def test_names_that_lead_out_or_cannot_be_seen_are_refused_by_name(name: str) -> None:
    for packed, kind in ((tar_of({name: b"x"}), "tar"), (zip_of({name: b"x"}), "zip")):
        said = refusal(packed, kind)  # type: ignore[arg-type]
        assert said.isprintable()
        assert ascii(name[:20])[1:-1].removesuffix("'")[:8] in said


def test_a_name_that_is_not_utf_8_is_refused() -> None:
    packed = tar_of({"abc": b"x"}, packed=False).replace(b"abc", b"a\xffc")
    head = bytearray(packed[:512])
    head[148:156] = b"%06o\0 " % (sum(head) - sum(head[148:156]) + 256)
    assert "UTF-8" in refusal(bytes(head) + packed[512:])
    assert "UTF-8" in refusal(zip_of({"a\xff": b"x"}).replace(b"a\xc3\xbf", b"a\xff\xff"), "zip")


@pytest.mark.parametrize(
    "names",
    [
        ("a", "a"), ("readme", "README"), ("caf\u00e9", "cafe\u0301"), ("stra\u00dfe", "strasse"), ("\ufb01le", "file"),
        ("a", "a/b"), ("a/b", "a"), ("A/x", "a/y"), ("a/b", "A"),
    ],
)  # fmt: skip
def test_names_that_collide_are_refused_by_name(names: tuple[str, str]) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    said = refusal(made.getvalue())
    assert ascii(names[1])[1:-1].split("/")[0] in said
    with pytest.raises(InvalidHandlerError):
        check_names(names)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (tarfile.SYMTYPE, "symbolic link"), (tarfile.LNKTYPE, "hard link"), (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"), (tarfile.FIFOTYPE, "pipe"), (tarfile.GNUTYPE_SPARSE, "sparse"), (b"V", "unknown"),
    ],
)  # fmt: skip
def test_links_devices_and_the_like_are_refused_by_name(kind: bytes, word: str) -> None:
    info = tarfile.TarInfo("special")
    info.type, info.linkname = kind, "main.py"
    said = refusal(tar_with(info, FILES))
    assert "special" in said
    assert word in said


def test_links_encryption_and_unknown_methods_in_a_zip_are_refused() -> None:
    assert "'link' is a link" in refusal(zip_of({"link": b"/etc/passwd"}, mode=0o120777), "zip")
    assert "'dev' is a link or a device" in refusal(zip_of({"dev": b""}, mode=0o020666), "zip")
    packed = bytearray(zip_of({"locked": b"x"}))
    entry = packed.rfind(b"PK\1\2")
    packed[entry + 8] |= 1
    assert "'locked' is encrypted" in refusal(bytes(packed), "zip")
    assert "method 14" in refusal(zip_of({"x": b"x"}, method=zipfile.ZIP_LZMA), "zip")


def test_bombs_are_refused_before_they_are_built() -> None:
    zeros = bytes(40 * MIB)
    assert "unpack to more than" in refusal(tar_of({"zeros": zeros}))
    assert "times as large" in refusal(zip_of({"zeros": zeros}), "zip")
    many = FolderLimits(files=10)
    assert "more than 10" in refusal(tar_of({f"f{number}": b"" for number in range(11)}), limits=many)
    assert "entries" in refusal(zip_of({f"f{number}": b"" for number in range(21)}), "zip", many)
    assert len(listed(tar_of({f"f{number}": b"" for number in range(10)}), limits=many).files) == 10
    small = FolderLimits(unpacked_bytes=1000)
    noise = random.Random(1).randbytes(1001)
    assert "more than 1000 bytes" in refusal(tar_of({"noise": noise}), limits=small)
    assert "packed in" in refusal(tar_of(FILES), limits=FolderLimits(packed_bytes=10))
    folders = tarfile.TarInfo("d")
    folders.type = tarfile.DIRTYPE
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for number in range(21):
            folders.name = f"d{number}"
            archive.addfile(folders)
    assert "more than 10" in refusal(made.getvalue(), limits=many)


def test_headers_that_are_no_files_are_counted() -> None:
    many = FolderLimits(files=10)
    for kind, data in ((b"g", b""), (b"x", b""), (b"L", b"main.py\0")):
        assert len(listed(_tar_with_headers(kind, 49, data), limits=many).files) == 1
        assert "more than 50 headers" in refusal(_tar_with_headers(kind, 50, data), limits=many)


def test_records_of_a_header_are_counted() -> None:
    assert len(listed(_tar_with_headers(b"x", 1, b"6 a=b\n" * 64)).files) == 1
    assert "more than 64 records" in refusal(_tar_with_headers(b"x", 1, b"6 a=b\n" * 65))


def _tar_with_headers(kind: bytes, count: int, data: bytes) -> bytes:
    header = tarfile.TarInfo("main.py")
    header.type, header.size = kind, len(data)
    one = header.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)
    return one * count + tar_of({"main.py": b"return 1"}, packed=False)


def test_files_that_share_their_bytes_in_a_zip_are_refused() -> None:
    packed = bytearray(zip_of({"one": b"x" * 100, "two": b"y" * 100}, method=zipfile.ZIP_STORED))
    second = packed.rfind(b"PK\1\2")
    packed[second + 42 : second + 46] = struct.pack("<L", 0)
    assert "'two' shares its bytes" in refusal(bytes(packed), "zip")


def test_what_lies_about_its_size_is_refused() -> None:
    packed = bytearray(zip_of({"liar": b"x" * 5000}))
    entry = packed.rfind(b"PK\1\2")
    packed[entry + 24 : entry + 28] = struct.pack("<L", 10)
    assert "'liar' is not what the directory says" in refusal(bytes(packed), "zip")
    long = tarfile.TarInfo("long")
    long.type, long.size = tarfile.XHDTYPE, 20_000
    assert "header of 20000 bytes" in refusal(tar_with(long, {}))


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_every_cut_and_most_flips_are_refused_without_harm(kind: ArchiveKind) -> None:
    whole = tar_of(FILES) if kind == "tar" else zip_of(FILES)
    for cut in range(len(whole)):
        refusal(whole[:cut], kind)
    dice = random.Random(3)
    for _ in range(300):
        broken = bytearray(whole)
        broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
        try:
            listed(bytes(broken), kind)
        except InvalidHandlerError:
            continue
    assert "empty" in refusal(tar_of({}), "tar")


def test_the_entry_is_found_by_its_name_or_said_by_the_project() -> None:
    assert complete_project({}, ["main.py", "x.sh"]) == {"lang": "python", "entry": "main.py"}
    assert complete_project({"lang": "sh"}, ["main.py", "main.sh"])["entry"] == "main.sh"
    assert complete_project({"entry": "a/b.mjs"}, ["a/b.mjs"])["lang"] == "node"
    for fields, names, word in (
        ({}, ["main.py", "main.sh"], "main.py, main.sh"),
        ({}, ["other.py"], "no entry file"),
        ({"entry": "gone.py"}, ["main.py"], "gone.py"),
        ({"entry": "../x.py"}, ["main.py"], r"\.\./x\.py"),
        ({"entry": 3}, ["main.py"], "entry"),
        ({"entry": "README"}, ["README"], "suffix"),
        ({"lang": "http"}, ["main.py"], "one text"),
    ):
        with pytest.raises(InvalidHandlerError, match=word):
            complete_project(fields, names)


def test_the_project_file_is_toml_without_what_the_folder_says_itself() -> None:
    assert read_project(b'timeout_s = 5\n[env]\nA = "b"\n') == {"timeout_s": 5, "env": {"A": "b"}}
    for text, word in (
        (b"a = ", "not TOML"),
        (b"\xff", "not TOML"),
        (b"[" * 5000, "not TOML"),
        (b"body = 'x'", "body"),
    ):
        with pytest.raises(InvalidHandlerError, match=word):
            read_project(text)


def test_plain_names_stay_as_they_are() -> None:
    for name in ("main.py", "a/b/c.txt", "ä.txt", ".hidden", "with blank.txt"):
        assert clean_name(name) == name
    assert clean_name("./") == clean_name(".") == ""
    assert digest_of(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
