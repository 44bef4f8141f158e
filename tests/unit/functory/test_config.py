"""Settings: where they come from, which wins, what is refused."""

from pathlib import Path

import pytest

from functory.config import Settings, load_config, setting_fields
from functory.errors import InvalidConfig
from functory.folders.starter import LANGUAGES, write_first_handler
from functory.setting_values import duration, size
from handlers.model import JSON_NAMES


def test_defaults_come_with_units_and_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config({}, {})
    assert config.settings == Settings()
    assert config.settings.lease_s == 30.0
    assert config.settings.journal_segment_bytes == 64 << 20
    assert {source.place for source in config.sources.values()} == {"default"}


def test_flags_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "functory.toml"
    file.write_text('lease = "10s"\nport = 1\ngrace = "1m"\nlog_jobs = false\n')
    config = load_config({"port": "3"}, {"FUNCTORY_PORT": "2", "FUNCTORY_GRACE": "2m"}, file)
    settings = config.settings
    assert (settings.lease_s, settings.grace_s, settings.port, settings.log_jobs) == (10.0, 120.0, 3, False)
    assert config.sources["lease"].place == str(file)
    assert config.sources["grace"].place == "environment FUNCTORY_GRACE"
    assert config.sources["port"].place == "flag --port"


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("1.5m", 90), ("12h", 43_200), ("7d", 604_800), ("2 s", 2)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(("text", "number"), [("512B", 512), ("64KiB", 65_536), ("1GB", 10**9), ("0.5MiB", 1 << 19)])
def test_sizes(text: str, number: int) -> None:
    assert size(text) == number


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lease", "30"),
        ("lease", "half an hour"),
        ("lease", "-3s"),
        ("journal_segment", "64"),
        ("journal_segment", "64 furlongs"),
        ("lease", "9" * 400 + "s"),
        ("lease", "36501d"),
        ("journal_segment", "9" * 400 + "B"),
        ("lease", "0s"),
        ("poll", "0s"),
        ("retry_base", "0s"),
        ("retry_max", "0s"),
        ("retry_window", "0.1ms"),
        ("max_attempts", "0"),
        ("max_contexts", "0"),
        ("max_contexts_memory", "0B"),
        ("stuck", "0s"),
        ("processes", "0"),
        ("journal_backlog", "0B"),
        ("packages_timeout", "0s"),
        ("connections", "0"),
        ("port", "http"),
        ("port", "70000"),
        ("status_port", "65536"),
        ("journal", "/fast/journal"),
        ("journal", "sub/j"),
        ("journal", "my journal"),
        ("journal", ".."),
        ("journal", ""),
        ("other_journals", "journal-0,a/b"),
        ("role", "boss"),
        ("log_jobs", "perhaps"),
        ("min_isolation", "L9"),
    ],
)
def test_a_bad_value_is_named_with_its_place(name: str, text: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^{name} \\(flag --{name.replace('_', '-')}\\): "):
        load_config({name: text}, {})


def test_daemons_that_share_a_port_need_its_number() -> None:
    with pytest.raises(InvalidConfig, match=r"^port: 2 daemons share it"):
        load_config({"port": "0", "processes": "2"}, {})
    assert load_config({"port": "0", "processes": "2", "role": "run"}, {}).settings.processes == 2


@pytest.mark.parametrize("port", ["9000", "9001", "9002"])
def test_the_port_may_be_none_of_the_status_ports(port: str) -> None:
    given = {"port": port, "status_port": "9000", "processes": "3"}
    with pytest.raises(InvalidConfig, match=rf"^status_port: 3 daemons listen on 9000 to 9002, and port {port} is"):
        load_config(given, {})
    assert load_config({**given, "status_host": "10.0.0.7"}, {}).settings.processes == 3
    assert load_config({**given, "role": "run"}, {}).settings.processes == 3
    assert load_config({**given, "port": "9003"}, {}).settings.processes == 3


def test_an_unknown_setting_in_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "functory.toml"
    file.write_text('leese = "10s"\n')
    with pytest.raises(InvalidConfig, match="'leese' is not a setting"):
        load_config({}, {}, file)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_file_of_a_handlers_folder_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str
) -> None:
    write_first_handler(tmp_path / "first", lang)
    monkeypatch.chdir(tmp_path / "first")
    for file in (None, tmp_path / "first" / "functory.toml"):
        with pytest.raises(InvalidConfig, match=r"is the functory\.toml of a handler's folder") as caught:
            load_config({}, {}, file)
        assert "'timeout_s' is a field of a handler" in str(caught.value)
        assert f"Settings are read from functory.toml in the current folder, which is {Path.cwd()}" in str(caught.value)


def test_no_setting_is_called_like_a_field_of_a_handler() -> None:
    """By its names a file is told to be one or the other."""
    assert not setting_fields().keys() & JSON_NAMES.values()


@pytest.mark.parametrize("content", ["lease = ", "lease = [1]", "\x00"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "functory.toml"
    file.write_text(content)
    with pytest.raises(InvalidConfig, match=r"functory\.toml"):
        load_config({}, {}, file)


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="no such file"):
        load_config({}, {}, tmp_path / "nowhere.toml")


def test_running_unconfined_must_be_said_twice() -> None:
    with pytest.raises(InvalidConfig, match="all_tenants_trusted"):
        load_config({"min_isolation": "L0"}, {})
    assert load_config({"min_isolation": "L0", "all_tenants_trusted": "true"}, {}).settings.min_isolation == "L0"


def test_every_setting_explains_itself() -> None:
    for each in setting_fields().values():
        assert each.metadata["help"]


@pytest.mark.parametrize("text", ["https://[bad/x", "https://a:99999/", "https://:8/", "ftp://x/", "https://a:0/"])
def test_an_index_that_no_build_could_reach_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="packages_index"):
        load_config({"packages_index": text}, {})
