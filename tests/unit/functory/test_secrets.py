"""Settings that come as files: credentials of the service manager, and `..._FILE` variables of containers."""

from pathlib import Path

import pytest

from functory.config import load_config
from functory.errors import InvalidConfig

URL = "mongodb://functory:s3cret@db/functory"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_credential_is_a_setting_and_beats_the_file(tmp_path: Path) -> None:
    (tmp_path / "functory.toml").write_text('store = "sqlite:///x.db"\n')
    (tmp_path / "functory.store").write_text(URL + "\n")
    (tmp_path / "another").write_text("not ours")
    config = load_config({}, {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert config.settings.store == URL
    assert config.sources["store"].place == "credential functory.store"


def test_an_empty_credential_is_none(tmp_path: Path) -> None:
    (tmp_path / "functory.toml").write_text('store = "sqlite:///x.db"\n')
    (tmp_path / "functory.store").write_text("\n")
    assert load_config({}, {"CREDENTIALS_DIRECTORY": str(tmp_path)}).settings.store == "sqlite:///x.db"


def test_a_file_variable_names_where_the_value_is(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(URL + "\n")
    config = load_config({}, {"FUNCTORY_STORE_FILE": str(tmp_path / "url")})
    assert config.settings.store == URL
    assert config.sources["store"].place == str(tmp_path / "url")


def test_the_environment_beats_credentials_and_flags_beat_both(tmp_path: Path) -> None:
    (tmp_path / "functory.store").write_text("a")
    (tmp_path / "url").write_text("b")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path), "FUNCTORY_STORE_FILE": str(tmp_path / "url")}
    assert load_config({}, environ).settings.store == "b"
    assert load_config({"store": "c"}, environ).settings.store == "c"


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"^store \(environment FUNCTORY_STORE_FILE\): .*/url cannot be read"):
        load_config({}, {"FUNCTORY_STORE_FILE": str(tmp_path / "url")})


def test_a_value_and_a_file_at_once_is_a_mistake() -> None:
    with pytest.raises(InvalidConfig, match="both set"):
        load_config({}, {"FUNCTORY_STORE": "x", "FUNCTORY_STORE_FILE": "/y"})


def test_a_bad_value_in_a_credential_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "functory.lease").write_text("soon")
    with pytest.raises(InvalidConfig, match=r"^lease \(credential functory.lease\): 'soon' is not a duration"):
        load_config({}, {"CREDENTIALS_DIRECTORY": str(tmp_path)})


def test_proxies_are_addresses_or_networks() -> None:
    trusted = load_config({"trusted_proxies": "127.0.0.1, 10.0.0.0/8, ::1"}, {}).settings.trusted_proxies
    assert [str(each) for each in trusted] == ["127.0.0.1/32", "10.0.0.0/8", "::1/128"]
    assert load_config({}, {}).settings.trusted_proxies == ()
    for wrong in ("nginx", "10.0.0.7/8", "10.0.0.0/33"):
        with pytest.raises(InvalidConfig, match="expected addresses or networks"):
            load_config({"trusted_proxies": wrong}, {})
