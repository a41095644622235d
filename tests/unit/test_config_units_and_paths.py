"""Values that mean something else in Salt's files, and URLs where paths are meant, are refused with the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.daemon import line_of
from saltlite.cli.main import main
from saltlite.cloud.program.files import PATH_SETTINGS, load_cloud, load_map
from saltlite.config.api import ApiConfig
from saltlite.config.cloud import CloudConfig
from saltlite.config.load import load_api, load_master, load_minion
from saltlite.config.master import MasterConfig
from saltlite.config.minion import MinionConfig
from saltlite.config.options import Duration, FilePath, FilePaths, FileRootsKind, IntegerKind, MisfitError, options_of
from saltlite.config.written import Scalar, Where
from saltlite.errors import ConfigError

LOADERS: dict[str, tuple[type[Any], Callable[[str], object]]] = {
    "master": (MasterConfig, load_master),
    "minion": (MinionConfig, load_minion),
    "api": (ApiConfig, load_api),
    "cloud": (CloudConfig, load_cloud),
}

SALT_UNITS = {
    "keep_jobs": "h",
    "autosign_timeout": "m",
    "grains_refresh_every": "m",
    "mine_interval": "m",
    "ping_interval": "m",
    "recon_default": "ms",
    "recon_max": "ms",
    **dict.fromkeys(
        (
            "acceptance_wait_time", "acceptance_wait_time_max", "auth_timeout", "fileserver_interval",
            "gather_job_timeout", "gitfs_update_interval", "keep_jobs_seconds", "loop_interval",
            "master_alive_interval", "pillar_cache_ttl", "publish_session", "random_reauth_delay",
            "reactor_refresh_interval", "request_channel_timeout", "return_retry_timer", "return_retry_timer_max",
            "splaytime", "ssh_timeout", "startup_delay", "thorium_interval", "timeout", "token_expire",
        ),
        "s",
    ),
    "file_recv_max_size": "MiB",
    "ipc_write_buffer": "bytes",
    "max_event_size": "bytes",
    "max_request_body_size": "bytes",
    "log_rotate_max_bytes": "bytes",
}  # fmt: skip
"""The numbers of Salt's documented options that have a unit. An option that saltlite gets later is compared too."""


def mistake(tmp_path: Path, name: str, text: str) -> str:
    """The error that a configuration file makes, without the folder; "" when it can be used."""
    (tmp_path / name).write_text(text)
    try:
        LOADERS[name.partition(".")[0]][1](str(tmp_path))
    except ConfigError as error:
        return str(error).replace(f"{tmp_path}/", "")
    return ""


# --- units ---


@pytest.mark.parametrize("name", LOADERS)
def test_an_option_of_salts_name_has_salts_unit_or_says_that_it_differs(name: str) -> None:
    for option, known in options_of(LOADERS[name][0]).items():
        unit = SALT_UNITS.get(option)
        if unit is not None and isinstance(known.takes, Duration):
            assert known.takes.salt_unit == ("" if unit == "s" else unit), option
        elif unit is not None and isinstance(known.takes, IntegerKind):
            assert known.unit == unit, option


def test_keep_jobs_is_compared() -> None:
    """The test above would pass if nothing of the table were an option."""
    assert {"keep_jobs", "timeout", "token_expire", "file_recv_max_size"} < set(options_of(MasterConfig))


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("24", "24 is 24 hours in Salt and 24 seconds here: write 24h or 24s"),
        ("'24'", "24 is 24 hours in Salt and 24 seconds here: write 24h or 24s"),
        ("1.5", "1.5 is 1.5 hours in Salt and 1.5 seconds here: write 1.5h or 1.5s"),
        ("3599", "3599 is 3599 hours in Salt and 3599 seconds here: write 3599h or 3599s"),
    ],
)
def test_a_bare_number_below_an_hour_is_refused_where_salt_counts_hours(
    tmp_path: Path, written: str, sentence: str
) -> None:
    assert mistake(tmp_path, "master", f"keep_jobs: {written}\n") == f"master:1:12: 'keep_jobs': {sentence}"


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("24h", 86_400.0), ("24s", 24.0), ("250m", 15_000.0), ("3600", 3600.0), ("604800", 604_800.0)],
)
def test_what_can_be_read_in_one_way_only_is_taken(tmp_path: Path, written: str, seconds: float) -> None:
    (tmp_path / "master").write_text(f"keep_jobs: {written}\n")
    assert load_master(str(tmp_path)).config.keep_jobs == seconds


def test_an_option_that_salt_counts_in_minutes_is_read_so_too() -> None:
    kind = Duration(0.0, 86_400.0, salt_unit="m")
    with pytest.raises(MisfitError, match="45 is 45 minutes in Salt and 45 seconds here: write 45m or 45s"):
        kind.read(Scalar(Where(1, 1), "45"))
    assert [kind.read(Scalar(Where(1, 1), text)) for text in ("60", "45s", "0")] == [60.0, 45.0, 0.0]


# --- URLs ---


def _path_options() -> list[tuple[str, str, str]]:
    """(file, option, a value with %s where a path stands) of every option that takes paths."""
    shapes = {FilePath: "%s", FilePaths: "[/a, '%s']", FileRootsKind: "{base: [/a, '%s']}"}
    return [
        (name, option, shapes[type(known.takes)])
        for name, (config, _load) in LOADERS.items()
        for option, known in options_of(config).items()
        if type(known.takes) in shapes
    ]


@pytest.mark.parametrize(("name", "option", "shape"), _path_options())
def test_a_url_is_no_path(tmp_path: Path, name: str, option: str, shape: str) -> None:
    said = mistake(tmp_path, name, f"{option}: {shape % 'file:///dev/log'}\n")
    assert f"{name}:1:" in said
    assert f"'{option}': a path is needed, not a URL (file://...); write /dev/log" in said


def test_the_path_options_of_all_files_were_tried() -> None:
    tried = {(name, option) for name, option, _shape in _path_options()}
    assert {("master", "log_file"), ("minion", "pki_dir"), ("api", "ssl_key"), ("cloud", "cloud_dirs")} < tried
    assert {("master", "file_roots"), ("minion", "module_dirs")} < tried


@pytest.mark.parametrize("url", ["http://amy:secret@x/y", "salt://a", "FILE://host/x", "s3+http://b", "file://"])
def test_a_url_that_has_no_path_here_is_not_repeated(tmp_path: Path, url: str) -> None:
    said = mistake(tmp_path, "master", f"log_file: {url}\n")
    assert "write the path of a file here" in said
    assert "secret" not in said


@pytest.mark.parametrize("path", ["/a:/b", "//x", "a/b:c", "/file://x", "a b://c"])
def test_paths_with_odd_characters_stay_paths(tmp_path: Path, path: str) -> None:
    assert mistake(tmp_path, "master", f"log_file: '{path}'\n") == ""


@pytest.mark.parametrize("setting", sorted(PATH_SETTINGS))
def test_a_url_is_no_path_in_the_settings_of_machines(tmp_path: Path, setting: str) -> None:
    sentence = f"{setting}: a path is needed, not a URL (file://...); write /k"
    line = f"{setting}: file:///k"
    assert f"cloud.providers:1:{len(setting) + 18}: {sentence}" in mistake(
        tmp_path, "cloud.providers", f"a: {{driver: x, {line}}}\n"
    )
    (tmp_path / "cloud.providers").unlink()
    assert f"cloud.profiles:1:{len(setting) + 7}: {sentence}" in mistake(tmp_path, "cloud.profiles", f"p: {{{line}}}\n")
    (tmp_path / "cloud.profiles").unlink()
    assert f"cloud:1:1: {sentence}" in mistake(tmp_path, "cloud", f"defaults: {{{line}}}\n")
    for text in (f"p: [a, {{b: {{{line}}}}}]\n", f"p: {{b: {{{line}}}}}\n"):
        (tmp_path / "map").write_text(text)
        with pytest.raises(ConfigError, match="a path is needed, not a URL"):
            load_map(str(tmp_path / "map"))


def test_the_script_of_all_machines_is_a_path(tmp_path: Path) -> None:
    said = mistake(tmp_path, "cloud", "script: https://x/y.sh\n")
    assert "cloud:1:9: 'script': a path is needed, not a URL (https://...)" in said


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "file:///etc/saltlite", "*", "test.ping"],
        ["*", "test.ping", "--out-file", "file:///tmp/x"],
        ["call", "test.ping", "--out-file=file:///tmp/x"],
        ["call", "-m", "file:///tmp/x", "test.ping"],
        ["runner", "-c", "file:///tmp/x", "test.arg"],
        ["cloud", "-m", "file:///tmp/x", "-Q"],
        ["job", "fetch", "1", "--out-file", "file:///tmp/x"],
        ["interface", "generate", "pkg", "--from", "file:///tmp/x"],
        ["status", "-c", "file:///tmp/x"],
    ],
)
def test_options_of_commands_that_take_a_path_take_no_url(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "a path is needed, not a URL (file://...); write /" in capsys.readouterr().err


def test_daemons_take_no_url_for_their_folder_and_no_shortened_option(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["-c", "file:///etc/saltlite"], ["--conf", "/etc/saltlite"]):
        with pytest.raises(SystemExit) as ended:
            line_of("saltlite-master", "", words)
        assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "a URL (file://...); write /etc/saltlite" in said
    assert "unrecognized arguments: --conf" in said
