"""The compose files: valid by the schema, alike where they should be, and whatever they mount is there."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from functory.config import ENVIRONMENT_PREFIX, FILE_SUFFIX, load_config, setting_fields
from tests.support.deploy_files import DEPLOY, load_yaml
from tests.support.needs import need_command

COMPOSE = DEPLOY / "compose"
FILES = sorted(path.name for path in COMPOSE.glob("compose*.yaml"))
FULL = [name for name in FILES if "sqlite" not in name]


def services(name: str) -> dict[str, Any]:
    found: dict[str, Any] = load_yaml(COMPOSE / name)["services"]
    return found


def test_all_three_forms_are_there() -> None:
    assert FILES == ["compose.ferretdb.yaml", "compose.sqlite.yaml", "compose.yaml"]


@pytest.mark.parametrize("name", FILES)
def test_it_is_valid_by_the_schema(name: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", FILES)
def test_what_is_mounted_and_referred_to_is_there(name: str) -> None:
    document = load_yaml(COMPOSE / name)
    for service in document["services"].values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (COMPOSE / source).exists(), source
            else:
                assert source in document["volumes"]
        for secret in service.get("secrets", []):
            assert (secret if isinstance(secret, str) else secret["source"]) in document["secrets"]
        assert set(service.get("depends_on", {})) <= document["services"].keys()
        for option in service.get("security_opt", []):
            if option.startswith("seccomp:"):
                assert (COMPOSE / option.partition(":")[2]).exists()
        assert re.search(r":[^:]*\d|functory:latest$", service["image"]), f"{service['image']} is not of one version"


@pytest.mark.parametrize("name", FILES)
def test_the_daemons_settings_are_settings(name: str, tmp_path: Path) -> None:
    known = {ENVIRONMENT_PREFIX + setting.upper() for setting in setting_fields()}
    for service in services(name).values():
        given = {key: value for key, value in service.get("environment", {}).items() if key.startswith("FUNCTORY")}
        assert {key.removesuffix(FILE_SUFFIX) for key in given} <= known
        (tmp_path / "url").write_text("mongodb://functory:x@db/functory")
        load_config({}, {key: str(tmp_path / "url") if key.endswith(FILE_SUFFIX) else given[key] for key in given})


@pytest.mark.parametrize("name", FILES)
def test_daemons_are_confined_and_stop_in_their_own_time(name: str) -> None:
    settings = load_config({}, {}).settings
    daemons = [service for service in services(name).values() if service["image"] == "functory:latest"]
    assert len(daemons) == (1 if "sqlite" in name else 2)
    for service in daemons:
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
        assert "no-new-privileges:true" in service["security_opt"]
        assert int(service["stop_grace_period"].removesuffix("s")) > 2 * settings.grace_s + settings.lease_s
        assert "privileged" not in service
        for key, value in service["environment"].items():
            assert not re.search(r"://[^/]*@", value), f"{key} holds a secret in the open"


@pytest.mark.parametrize("name", FULL)
def test_only_the_proxy_is_reached_from_outside_and_believed(name: str) -> None:
    document = load_yaml(COMPOSE / name)
    assert document["networks"]["inside"]["internal"] is True
    public = {key for key, it in document["services"].items() if any(":443" in port for port in it.get("ports", []))}
    assert public == {"proxy"}
    for key, service in document["services"].items():
        for port in service.get("ports", []):
            assert key == "proxy" or port.startswith("127.0.0.1:"), f"{key} is open to everybody"
    address = document["services"]["proxy"]["networks"]["inside"]["ipv4_address"]
    assert document["services"]["functory-a"]["environment"]["FUNCTORY_TRUSTED_PROXIES"] == address


@pytest.mark.parametrize("name", FULL)
def test_daemons_have_a_way_out_that_nobody_comes_in_by(name: str) -> None:
    """For hosts of handlers and for packages. A proxy that came by it would not have the trusted address."""
    document = load_yaml(COMPOSE / name)
    for key, service in document["services"].items():
        ways = set(service["networks"])
        out = {way for way in ways if not document["networks"][way].get("internal")}
        if service["image"] == "functory:latest":
            assert out == {"egress"}
            assert "ports" not in service
        else:
            assert "egress" not in ways, key


def test_the_two_full_forms_differ_only_in_the_database() -> None:
    one, other = services("compose.yaml"), services("compose.ferretdb.yaml")
    for shared in one.keys() & other.keys():
        left, right = dict(one[shared]), dict(other[shared])
        if shared.startswith("functory"):
            assert left.pop("depends_on") != right.pop("depends_on")
        assert left == right, shared
    assert one.keys() - other.keys() == {"mongo-1", "mongo-2", "mongo-3", "mongo-initiate"}
    assert other.keys() - one.keys() == {"postgres", "ferretdb"}


@pytest.mark.parametrize("database", ["mongodb", "ferretdb"])
def test_prepare_makes_every_secret_once(database: str, tmp_path: Path) -> None:
    (tmp_path / "prepare.sh").write_text((COMPOSE / "prepare.sh").read_text())
    command = ["sh", str(tmp_path / "prepare.sh"), database]
    subprocess.run(command, check=True, capture_output=True)
    made = {path.name: path.read_bytes() for path in (tmp_path / "secrets").iterdir()}
    name = "compose.yaml" if database == "mongodb" else "compose.ferretdb.yaml"
    wanted = {Path(secret["file"]).name for secret in load_yaml(COMPOSE / name)["secrets"].values()}
    assert wanted <= made.keys()
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    assert made["store-url"].startswith(b"mongodb://functory:")
    assert subprocess.run(command, check=True, capture_output=True).stdout == b""
    assert {path.name: path.read_bytes() for path in (tmp_path / "secrets").iterdir()} == made


@pytest.mark.parametrize(
    ("openssl", "said"),
    [
        ("", "prepare: openssl is missing"),
        ("echo no curves >&2; exit 1", "prepare: openssl makes no certificate: no curves"),
    ],
)
def test_prepare_says_why_there_is_no_certificate(openssl: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "prepare.sh").write_text((COMPOSE / "prepare.sh").read_text())
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("dirname", "mkdir", "head", "base64", "tr", "cat", "mv", "chmod"):
        (programs / name).symlink_to(need_command(name, "coreutils"))
    if openssl:
        (programs / "openssl").write_text(f"#!/bin/sh\n{openssl}\n")
        (programs / "openssl").chmod(0o755)
    shell = need_command("sh", "dash")
    command = [shell, str(tmp_path / "prepare.sh")]
    refused = subprocess.run(command, check=False, capture_output=True, text=True, env={"PATH": str(programs)})
    assert (refused.returncode, said in refused.stderr) == (1, True), refused.stderr
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize(("first", "second"), [("mongodb", "ferretdb"), ("ferretdb", "mongodb")])
def test_prepare_does_not_keep_the_url_of_another_store(first: str, second: str, tmp_path: Path) -> None:
    (tmp_path / "prepare.sh").write_text((COMPOSE / "prepare.sh").read_text())
    command = ["sh", str(tmp_path / "prepare.sh")]
    subprocess.run([*command, first], check=True, capture_output=True)
    refused = subprocess.run([*command, second], check=False, capture_output=True, text=True)
    assert (refused.returncode, "store-url is the URL of the other kind" in refused.stderr) == (1, True)
    (tmp_path / "secrets" / "store-url").unlink()
    subprocess.run([*command, second], check=True, capture_output=True)


def test_the_scripts_are_readable_by_a_shell() -> None:
    for script in (*COMPOSE.glob("*.sh"), *DEPLOY.glob("systemd/*.sh"), *DEPLOY.glob("*.sh")):
        shell = "bash" if script.read_text().startswith("#!/bin/bash") else "sh"
        subprocess.run([shell, "-n", str(script)], check=True)
