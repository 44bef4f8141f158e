"""A folder of npm's tarballs as a registry: which packages it has, how they are described, what is asked of it."""

import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from handlers.bootstraps.packages import Tarballs, precedence, read_manifest
from runner.egress import NoEgress
from runner.launch import Level
from runner.packages.sandbox import BuildSandbox
from runner.packages.tools import BuildSettings, Npm
from runner.plain import PlainLauncher
from tests.support.npm_registry import NpmPackage, integrity, write_tarballs


def described(folder: Path, name: str) -> Any:
    return Tarballs(str(folder)).describe(name)


def read(url: str) -> bytes:
    with urlopen(url) as answer:  # noqa: S310 (of our own making)
        data: bytes = answer.read()
        return data


def test_a_package_is_found_by_its_name_and_not_by_that_of_its_file(tmp_path: Path) -> None:
    write_tarballs(tmp_path, NpmPackage("beta"), NpmPackage("beta", "1.1.0"), NpmPackage("@some/scoped"))
    write_tarballs(tmp_path / "more", NpmPackage("scoped", "2.0.0"), NpmPackage("beta-more"))
    write_tarballs(tmp_path / "other", NpmPackage("@beta/more"))  # a file of the same name
    assert list(described(tmp_path, "beta")["versions"]) == ["1.0.0", "1.1.0"]
    assert described(tmp_path, "@some/scoped")["name"] == "@some/scoped"
    assert list(described(tmp_path, "beta-more")["versions"]) == ["1.0.0"]
    assert described(tmp_path, "@beta/more")["versions"]["1.0.0"]["name"] == "@beta/more"
    for name in ("gone", "more", "@some/beta", "", "-/0", "../beta"):
        assert described(tmp_path, name) is None, name


def test_it_says_what_registries_say(tmp_path: Path) -> None:
    fields = {"dependencies": {"beta": "^1"}, "scripts": {"postinstall": "x"}, "dist": {"tarball": "http://evil/"}}
    package = NpmPackage("alpha", fields=fields)
    write_tarballs(tmp_path, package)
    shelf = Tarballs(str(tmp_path))
    shelf.url = "http://127.0.0.1:1/"
    found = shelf.describe("alpha")
    assert found is not None
    version = found["versions"]["1.0.0"]
    assert version["dependencies"] == {"beta": "^1"}
    assert version["hasInstallScript"] is True
    assert version["dist"] == {
        "integrity": integrity(package.tarball()),
        "tarball": "http://127.0.0.1:1/-/0/alpha-1.0.0.tgz",
    }
    assert shelf.path_of("-/0/alpha-1.0.0.tgz") == str(tmp_path / "alpha-1.0.0.tgz")
    for place in ("-/1/alpha-1.0.0.tgz", "-/-1/x", "-/²/x", "-/../x", "0/x", f"-/{'9' * 5000}/x", "alpha"):
        assert shelf.path_of(place) == "", place


def test_a_package_with_a_native_part_wants_to_run_a_script(tmp_path: Path) -> None:
    write_tarballs(tmp_path, NpmPackage("native", files={"index.js": "", "binding.gyp": "{}"}), NpmPackage("plain"))
    assert described(tmp_path, "native")["versions"]["1.0.0"]["hasInstallScript"] is True
    assert "hasInstallScript" not in described(tmp_path, "plain")["versions"]["1.0.0"]


def test_what_is_no_package_is_not_there(tmp_path: Path) -> None:
    write_tarballs(tmp_path, NpmPackage("beta"), NpmPackage("beta", "not.a.version"), NpmPackage("beta", "1" * 20))
    whole = (tmp_path / "beta-1.0.0.tgz").read_bytes()
    (tmp_path / "beta-2.0.0.tgz").write_bytes(whole[:40])
    (tmp_path / "beta-3.0.0.tgz").write_bytes(b"no archive")
    (tmp_path / "beta-4.0.0.tgz").write_bytes(b"")
    (tmp_path / "beta-5.0.0.tgz").symlink_to("/nowhere")
    (tmp_path / "beta-6.0.0.zip").write_bytes(whole)
    assert list(described(tmp_path, "beta")["versions"]) == ["1.0.0"]
    for bad in ('{"name": 1, "version": "1.0.0"}', "[]", "{", "[" * 100_000):
        write_tarballs(tmp_path, NpmPackage("odd", files={"package.json": bad}))
        read_manifest.cache_clear()
        assert described(tmp_path, "odd") is None, bad[:40]


def test_the_latest_is_the_highest_that_is_released(tmp_path: Path) -> None:
    rising = ["1.0.0-2", "1.0.0-10", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "0.9.0", "1.0.0", "1.2.0", "1.10.0"]
    assert sorted(sorted(rising), key=precedence) == rising
    write_tarballs(tmp_path, *(NpmPackage("beta", version) for version in rising))
    assert described(tmp_path, "beta")["dist-tags"] == {"latest": "1.10.0"}


def test_it_is_served_to_this_machine_only_and_read_only(tmp_path: Path) -> None:
    package = NpmPackage("@some/scoped")
    write_tarballs(tmp_path, package)
    url = Tarballs(str(tmp_path)).serve(0)
    assert url.startswith("http://127.0.0.1:")
    file = json.loads(read(f"{url}@some%2fscoped?x=1"))["versions"]["1.0.0"]["dist"]["tarball"]
    assert read(file) == package.tarball()
    for place in ("gone", "-/7/x.tgz", "../../etc/passwd", "%2e%2e/x", "-/x/../../etc/passwd"):
        with pytest.raises(HTTPError, match="404") as caught:
            read(url + place)
        caught.value.close()


@pytest.mark.parametrize("level", Level)
def test_a_build_from_tarballs_has_its_own_loopback_and_no_host_to_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: Level
) -> None:
    settings = BuildSettings(registry="https://npm.example.org", tarballs=tmp_path)
    npm = Npm(settings, None)
    assert npm.hosts == ()
    assert npm.argv[3] == tmp_path
    launcher = PlainLauncher()
    monkeypatch.setattr(type(launcher), "level", level)
    sandbox = BuildSandbox(launcher, settings, (npm,), threads=1, egress=NoEgress())
    spec = sandbox._spec("acme", npm)
    sandbox.close()
    own_network = level >= Level.L2
    assert (spec.egress, spec.serves > 0, spec.network) == (own_network, own_network, not own_network)
    assert not any("proxy" in name.lower() for name in spec.env)


def test_tarballs_take_the_place_of_the_registry(tmp_path: Path) -> None:
    npm = Npm(BuildSettings(registry="none", tarballs=tmp_path), None)
    assert "packages_registry" not in npm.missing
    assert npm._is_ours("http://127.0.0.1:5000/-/0/a-1.0.0.tgz")
    assert not npm._is_ours("https://registry.npmjs.org/a/-/a-1.0.0.tgz")
