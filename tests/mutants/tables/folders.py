"""Handlers that are folders: what must be refused, what must not be written to, seen or collected."""

from tests.mutants.mutant import Mutant, in_file

ARCHIVES = "tests/unit/handlers/test_folders.py"
names = in_file("handlers/folders/names.py", ARCHIVES)
tars = in_file("handlers/folders/tar.py", ARCHIVES)
zips = in_file("handlers/folders/zip.py", ARCHIVES)
lists = in_file("handlers/folders/manifest.py", "tests/unit/functory/test_folder_trees.py")
unpacked = in_file("functory/folders/unpacked.py", "tests/unit/functory/test_folder_trees.py")
collecting = in_file("functory/folders/collecting.py", "tests/unit/functory/test_folder_trees.py")

MUTANTS: list[Mutant] = [
    names("a character that turns text is taken", '"Cc", "Cf", "Cs"', '"Cc", "Cs"'),
    names("names that differ in case are two", '"NFKC", name).casefold()', '"NFKC", name)'),
    tars("headers that are no files are free", "        if count > most_headers:", "        if False:"),
    tars("records of a header are free", "        if records > _MOST_RECORDS:", "        if False:"),
    in_file("functory/operations/service.py", "tests/web/test_folders.py")(
        "one tenant's archives take every turn",
        "folder_turns: TenantTurns = field(default_factory=lambda: TenantTurns(Semaphore(2), of_one=1))",
        "folder_turns: TenantTurns = field(default_factory=lambda: TenantTurns(Semaphore(2), of_one=2))",
    ),
    in_file("functory/loops/tenant_turns.py", "tests/unit/functory/test_tenant_turns.py")(
        "a tenant stands in line as often as it likes",
        "            async with own.free:",
        "            if True:",
    ),
    zips("files share their bytes", "        if entry.start < end:", "        if entry.start < 0:"),
    zips("a link is unpacked", "        if entry.mode & _KIND not in (0,", "        if entry.mode & _KIND in (1,"),
    lists(
        "a list of files may lead out of the folder",
        "            check_names(entry.name for entry in manifest.files)\n",
        "",
    ),
    in_file("functory/folders/contents.py", "tests/unit/functory/test_folder_trees.py")(
        "a piece may be larger than the list says", " or len(data) != size_bytes", ""
    ),
    in_file("functory/folders/contents.py", "tests/web/test_folders.py")(
        "a file may be taken for a list of files",
        "            if data.startswith(LIST_BEGINS):",
        "            if False:",
    ),
    unpacked(
        "who makes the same later takes the place of what contexts have",
        "        if _is_whole(place, manifest):  # another",
        "        if manifest is None:  # another",
    ),
    unpacked("what contexts have is removed", " and _is_unused(folder / name, unused_s):", ":"),
    unpacked(
        "a spoilt tree is used",
        "        if entry_of(name, path.read_bytes()).pieces != entry.pieces:",
        "        if entry.pieces is None:",
    ),
    collecting("what a version needs is collected", "            needed.update(manifest.pieces())\n", ""),
]
