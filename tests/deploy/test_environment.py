"""The environment of a checkout belongs to its place: what becomes of it when the checkout is renamed or copied."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.needs import need_command

ROOT: Final = Path(__file__).parents[2]
PYTHON: Final = f"""#!/bin/sh
# Makes environments without pip, which takes seconds.
[ "$*" = "-m venv .venv" ] && exec {sys.executable} -m venv --without-pip .venv
exec {sys.executable} "$@"
"""


class Checkout:
    """As much of one as sets up an environment. Nothing is installed into it."""

    def __init__(self, place: Path, tools: Path) -> None:
        self.place = place
        self._tools = tools

    def make(self) -> str:
        """What `make` said while it set up what the service needs."""
        command = ("make", "--no-print-directory", ".venv/.run", f"PYTHON={self._tools / 'python'}")
        path = f"{self._tools}:{Path(need_command('make', 'make')).parent}:/usr/bin:/bin"
        ended = subprocess.run(command, cwd=self.place, env={"PATH": path}, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def imports_from(self) -> str:
        """Where its python finds the code."""
        command = (".venv/bin/python", "-P", "-c", "import functory; print(functory.__file__)")
        found = subprocess.run(command, cwd=self.place, env={}, capture_output=True, text=True, check=True)
        return found.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    tools, place = tmp_path / "tools", tmp_path / "my checkout"
    for folder in (tools, place / "deploy", place / "functory"):
        folder.mkdir(parents=True)
    for name, text in {"python": PYTHON, "uv": "#!/bin/sh\n"}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    for name in ("Makefile", "requirements.lock", "deploy/environment.sh", "deploy/preflight.sh"):
        shutil.copy(ROOT / name, place / name)
    (place / "functory" / "__init__.py").touch()
    made = Checkout(place, tools)
    assert "a virtual environment in .venv" in made.make()
    assert made.imports_from() == f"{place}/functory/__init__.py"
    return made


@pytest.mark.parametrize("is_copied", [False, True])
def test_a_checkout_that_was_renamed_or_copied_has_an_environment_of_its_own(
    checkout: Checkout, tmp_path: Path, is_copied: bool
) -> None:
    place = checkout.place
    if is_copied:
        shutil.copytree(place, tmp_path / "new", symlinks=True)
    else:
        place.rename(tmp_path / "new")
    new = Checkout(tmp_path / "new", tmp_path / "tools")
    assert f"the virtual environment in .venv is that of {place}: it is made anew for this place" in new.make()
    assert new.imports_from() == f"{tmp_path}/new/functory/__init__.py"
    assert "up to date" in new.make()
    if is_copied:
        assert checkout.imports_from() == f"{place}/functory/__init__.py"
        assert "up to date" in checkout.make()


def test_a_checkout_that_is_reached_by_a_link_has_not_moved(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(checkout.place)
    assert "up to date" in Checkout(tmp_path / "link", tmp_path / "tools").make()


def test_an_environment_that_is_shared_by_a_link_stays(checkout: Checkout, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(checkout.place, other, ignore=shutil.ignore_patterns(".venv"))
    (other / ".venv").symlink_to(checkout.place / ".venv")
    assert "made anew" not in Checkout(other, tmp_path / "tools").make()
    assert (other / ".venv").is_symlink()
