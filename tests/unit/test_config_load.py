"""Configuration files: what they set, where it came from, and what is said about mistakes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import yaml

from saltlite.config import load, paths, yamlfile
from saltlite.config.load import PROBLEMS_MAX, load_master, load_minion
from saltlite.config.master import MasterConfig
from saltlite.config.minion import MinionConfig
from saltlite.config.opts import opts_of
from saltlite.config.values import LOG_LEVELS
from saltlite.config.yamlfile import ALIASED_VALUES_MAX, DEPTH_MAX
from saltlite.errors import ConfigError

TOKEN = f"slj1.{'A' * 40}.abcdefgh.{'b' * 32}"


def master_error(tmp_path: Path, content: str | bytes) -> list[str]:
    """The lines of the error that a master file of this content makes, without the folder."""
    (tmp_path / "master").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as caught:
        load_master(str(tmp_path))
    return str(caught.value).replace(f"{tmp_path}/", "").split("\n")


def minion_error(tmp_path: Path, content: str) -> list[str]:
    """The same for a minion file."""
    (tmp_path / "minion").write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_minion(str(tmp_path))
    return str(caught.value).replace(f"{tmp_path}/", "").split("\n")


def load_minion_text(tmp_path: Path, content: str) -> MinionConfig:
    (tmp_path / "minion").write_text(content)
    return load_minion(str(tmp_path)).config


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("# nothing yet\n")
    loaded = load_master(str(tmp_path))
    assert loaded.config == MasterConfig()
    assert loaded.origins == {}


def test_values_are_read_with_their_types(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("port: 4600\ntimeout: 250ms\nkeep_jobs: 2d\nlog_level: info\n")
    config = load_master(str(tmp_path)).config
    assert (config.port, config.timeout, config.keep_jobs, config.log_level) == (4600, 0.25, 172800.0, "info")


def test_a_plain_number_is_a_duration_in_seconds(tmp_path: Path) -> None:
    assert load_minion_text(tmp_path, "run_timeout: 90").run_timeout == 90.0


def test_one_master_and_a_list_of_masters_are_both_a_list(tmp_path: Path) -> None:
    assert load_minion_text(tmp_path, "master: salt.example").master == ["salt.example"]
    assert load_minion_text(tmp_path, "master: [a:1, '[::1]:2']").master == ["a:1", "[::1]:2"]


def test_keys_with_a_dot_configure_modules(tmp_path: Path) -> None:
    config = load_minion_text(tmp_path, "test.foo: 1\ncheese.allow_foreign: true\ntest.bar: {a: [1.5, x]}\n")
    assert config.module_config == {
        "test.foo": 1,
        "cheese.allow_foreign": True,
        "test.bar": {"a": [1.5, "x"]},
    }


def test_options_that_the_operator_declares_are_read_by_modules(tmp_path: Path) -> None:
    (tmp_path / "minion.d").mkdir()
    (tmp_path / "minion.d" / "own.conf").write_text("own_options: [features, 'site_*', mastr]\n")
    text = "features: {new: true}\nsite_rack: 4\nmastr: no typo\nmaster: m1\n"
    config = load_minion_text(tmp_path, text)
    assert config.module_config == {"features": {"new": True}, "site_rack": 4, "mastr": "no typo"}
    opts = opts_of(config, "web1")
    assert (opts["features"], opts["site_rack"], opts["id"]) == ({"new": True}, 4, "web1")


def test_a_mistyped_option_is_an_error_although_a_glob_declares_it(tmp_path: Path) -> None:
    lines = minion_error(tmp_path, "own_options: ['*']\nmastr: m1\nrack: 4\n")
    (line,) = lines
    assert line.startswith("minion:2:1: unknown option 'mastr' (did you mean 'master'?); if modules of yours read it, ")


def test_an_unknown_option_is_told_with_the_way_to_declare_it(tmp_path: Path) -> None:
    assert minion_error(tmp_path, "zzzz: 1\njobs_max: x\nyyyy: 2\n") == [
        "minion:1:1: unknown option 'zzzz'; if modules of yours read it, add its name to own_options",
        "minion:2:11: 'jobs_max' takes a whole number from 1 to 1000, not 'x'",
        "minion:3:1: unknown option 'yyyy'; if modules of yours read it, add its name to own_options",
    ]


def test_all_options_of_salt_are_named_in_one_run_and_grouped(tmp_path: Path) -> None:
    many = "".join(f"gitfs_{number}: 1\n" for number in range(40))
    text = f"interface: 127.0.0.1\npublish_port: 4505\nret_port: 4506\nhash_type: md5\nreactor: []\nprot: 1\n{many}"
    lines = master_error(tmp_path, text)
    assert lines[:3] == [
        "master:6:1: unknown option 'prot' (did you mean 'port'?)",
        "master:2:1: options of Salt, renamed: publish_port (line 2), ret_port (line 3) to port",
        "master:4:1: options of Salt, no meaning here: hash_type (line 4)",
    ]
    assert lines[3].startswith("master:5:1: options of Salt, not there yet: reactor (line 5): saltlite has no reactor")
    assert all(f"gitfs_{number} (line {number + 7})" in lines[3] for number in range(40))
    assert lines[4].endswith("master: options of this file that are read: interface")
    assert len(lines) == 5


def test_an_option_of_salt_that_is_declared_is_read_by_modules(tmp_path: Path) -> None:
    config = load_minion_text(tmp_path, "own_options: [reactor]\nreactor: {a: 1}\n")
    assert config.module_config == {"reactor": {"a": 1}}


def test_the_master_takes_no_module_configuration(tmp_path: Path) -> None:
    assert master_error(tmp_path, "test.foo: 1\n") == ["master:1:1: unknown option 'test.foo'"]


def test_later_files_of_the_folder_win_and_origins_tell(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("port: 1\ninterface: 127.0.0.1\n")
    folder = tmp_path / "master.d"
    folder.mkdir()
    (folder / "20-b.conf").write_text("\nport: 3\n")
    (folder / "10-a.conf").write_text("port: 2\n")
    (folder / "90-c.conf.bak").write_text("port: 4\n")
    (folder / ".99-hidden.conf").write_text("port: 5\n")
    loaded = load_master(str(tmp_path))
    assert loaded.config.port == 3
    assert loaded.origins == {"port": f"{folder}/20-b.conf:2", "interface": f"{tmp_path}/master:2"}


def test_a_named_folder_without_the_file_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"/master: there is no such file; create it .* with -c"):
        load_master(str(tmp_path))


def test_the_default_folder_may_lack_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "DEFAULT_CONFIG_DIR", str(tmp_path))
    assert load_minion(str(tmp_path)).config == MinionConfig()
    assert load_minion(f"{tmp_path}/").config == MinionConfig()


def test_the_default_folder_is_read_without_the_main_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "DEFAULT_CONFIG_DIR", str(tmp_path))
    (tmp_path / "minion.d").mkdir()
    (tmp_path / "minion.d" / "a.conf").write_text("id: web1")
    assert load_minion(str(tmp_path)).config.id == "web1"


# --- root_dir ---


def test_root_dir_moves_every_default_path(tmp_path: Path) -> None:
    config = load_minion_text(tmp_path, "root_dir: /srv/fleet")
    assert config.pki_dir == "/srv/fleet/etc/saltlite/pki/minion"
    assert config.data_dir == "/srv/fleet/var/lib/saltlite/minion"
    assert config.cachedir == "/srv/fleet/var/cache/saltlite/minion"
    assert config.log_file == "/srv/fleet/var/log/saltlite/minion"


def test_root_dir_moves_given_relative_paths_and_leaves_absolute_ones(tmp_path: Path) -> None:
    config = load_minion_text(tmp_path, "root_dir: /srv\ndata_dir: state\ncachedir: /c\nmodule_dirs: [m, /n]")
    assert (config.data_dir, config.cachedir, config.module_dirs) == ("/srv/state", "/c", ["/srv/m", "/n"])


def test_root_dir_leaves_the_empty_path_empty(tmp_path: Path) -> None:
    config = load_minion_text(tmp_path, "root_dir: /srv\nlog_file: ''\nextension_modules: ''")
    assert (config.log_file, config.extension_modules) == ("", "")


def test_root_dir_from_a_later_file_moves_paths_of_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "master.d").mkdir()
    (tmp_path / "master.d" / "root.conf").write_text("root_dir: /srv")
    (tmp_path / "master").write_text("data_dir: store")
    assert load_master(str(tmp_path)).config.data_dir == "/srv/store"


def test_root_dir_is_absolute(tmp_path: Path) -> None:
    assert master_error(tmp_path, "root_dir: srv") == ["master:1:11: 'root_dir' takes an absolute path, not 'srv'"]


def test_limits_of_resource_types_are_whole_numbers_by_their_names(tmp_path: Path) -> None:
    assert load_minion_text(tmp_path, "resource_type_limits: {ssh: 8, dummy: 1}").resource_type_limits == {
        "ssh": 8,
        "dummy": 1,
    }


# --- one mistake, one sentence with its position ---


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("prot: 1", "master:1:1: unknown option 'prot' (did you mean 'port'?)"),
        ("\nqqqq: 1", "master:2:1: unknown option 'qqqq'"),
        ("port: abc", "master:1:7: 'port' takes a whole number from 1 to 65535, not 'abc'"),
        (
            "port: '4515'",
            "master:1:7: 'port' takes a whole number from 1 to 65535, not the quoted text '4515'",
        ),
        ("port: 65536", "master:1:7: 'port' takes a whole number from 1 to 65535, not '65536'"),
        ("port: 0", "master:1:7: 'port' takes a whole number from 1 to 65535, not '0'"),
        ("port: true", "master:1:7: 'port' takes a whole number from 1 to 65535, not 'true'"),
        ("port: 45.0", "master:1:7: 'port' takes a whole number from 1 to 65535, not '45.0'"),
        ("port: 04515", "master:1:7: 'port' takes a whole number from 1 to 65535, not '04515'"),
        ("port: [1]", "master:1:7: 'port' takes a whole number from 1 to 65535, not a list"),
        ("port:", "master:1:1: 'port' takes a whole number from 1 to 65535, but it is empty"),
        ("worker_threads: 65", "master:1:17: 'worker_threads' takes a whole number from 1 to 64, not '65'"),
        (
            "log_level: loud",
            f"master:1:12: 'log_level' takes one of {', '.join(LOG_LEVELS)}, not 'loud'",
        ),
        ("user: ''", "master:1:7: 'user' takes text that is not empty, not the quoted text ''"),
        (
            "user: true",
            "master:1:7: 'user': true is not text here; put it in quotes if it is meant as text",
        ),
        (
            'user: "a\\nb"',
            "master:1:7: 'user': it contains a line break or another control character",
        ),
        ("pki_dir: {a: b}", "master:1:10: 'pki_dir' takes a path, not a map"),
        (
            "pki_dir: ~/pki",
            "master:1:10: 'pki_dir': '~/pki' starts with '~', which is not expanded; write the whole path",
        ),
        ("- a\n- b", "master:1:1: lines of `option: value` are needed here, not a list"),
        ("port", "master:1:1: lines of `option: value` are needed here, not 'port'"),
        ("port: 1\nport: 2", "master:2:1: 'port' occurs twice, first in line 1; remove one of them"),
        ("port: 1\n---\nport: 2", "master:2:1: a second YAML document starts here; keep one in a file"),
        (
            "port: !!int 1",
            "master:1:7: the tag 'tag:yaml.org,2002:int' is not supported; write the value without it",
        ),
        ("port: *p", "master:1:7: the alias '*p' has no finished value '&p' before it"),
        ("[a]: 1", "master:1:1: a list or map cannot be the key of a map"),
        ("<<: {port: 1}", "master:1:1: merge keys ('<<') are not supported; write the keys out"),
        (b"port: 1\nuser: J\xf6rg", "master:2:8: the byte 0xf6 is not UTF-8; save the file as UTF-8"),
        (b"port: 1\n\x00", "master:2:1: the character U+0000 is not allowed in YAML; remove it"),
    ],
)
def test_a_mistake_is_told_with_its_position(tmp_path: Path, content: str | bytes, message: str) -> None:
    assert master_error(tmp_path, content) == [message]


# Exactly where a parser gives up is its own affair: only the line and the way out are promised.
@pytest.mark.parametrize("loader", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)])
@pytest.mark.parametrize(
    ("content", "line", "sentence"),
    [
        ("a:\n\tb: 1", 2, "YAML is not indented with tabs; use spaces"),
        ("\tport: 1", 1, "YAML is not indented with tabs; use spaces"),
        ("port:4515\nuser: x", 2, "(is a space missing after a ':'?)"),
        ("nodegroups: {all: *}", 1, "(text that begins with * or & needs quotes around it)"),
        ("publisher_acl: {fred: [@jobs]}", 1, "(text that begins with @, ` or % needs quotes around it)"),
        ("port: 1\nuser: 'x", 2, "this is not YAML: found unexpected end of stream"),
        ("port: @1", 1, "this is not YAML: found character"),
    ],
)
def test_broken_yaml_is_told_with_its_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str,
    line: int,
    sentence: str,
    loader: type[yaml.SafeLoader],
) -> None:
    monkeypatch.setattr(yamlfile, "_Loader", loader)
    (told,) = master_error(tmp_path, content)
    assert told.startswith(f"master:{line}:")
    assert sentence in told


def test_without_libyaml_everything_is_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "id: 'a'\ngrains: {a: [1, '2'], b: c}\ntest.a: &a [yes]\ntest.b: *a\ntest.c: |\n  1\n"
    fast = load_minion_text(tmp_path, text)
    monkeypatch.setattr(yamlfile, "_Loader", yaml.SafeLoader)
    assert load_minion_text(tmp_path, text) == fast


@pytest.mark.parametrize("text", ["5x", "-1", "1h30m", "", "1e3", ".inf", "0s", "2d"])
def test_a_duration_out_of_form_or_range_is_refused(tmp_path: Path, text: str) -> None:
    (line,) = master_error(tmp_path, f"timeout: '{text}'")
    assert line.startswith("master:1:10: 'timeout' takes a duration from 100ms to 1d, as in 250ms")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("trust_on_first_use: yes", "minion:1:21: 'trust_on_first_use' takes true or false, not 'yes'"),
        ("trust_on_first_use: 1", "minion:1:21: 'trust_on_first_use' takes true or false, not '1'"),
        ("master: []", "minion:1:9: 'master' takes host[:port], or a list of them, not an empty list"),
        ("module_dirs: /x", "minion:1:14: 'module_dirs' takes a list of paths, not '/x'"),
        ("disable_modules: [{}]", "minion:1:19: 'disable_modules' takes a list of texts, not an empty map"),
        ("providers: {pkg: [a]}", "minion:1:18: 'providers' takes a map from text to text, not a list"),
        (
            "resource_type_limits: {ssh: 0}",
            "minion:1:29: 'resource_type_limits' takes a map from text to a whole number from 1 to 1000, not '0'",
        ),
        (
            "resource_type_limits: 8",
            "minion:1:23: 'resource_type_limits' takes a map from text to a whole number from 1 to 1000, not '8'",
        ),
        ("grains: 5", "minion:1:9: 'grains' takes a map, not '5'"),
        ("grains:\n  a: 1\n  a: 2", "minion:3:3: 'a' occurs twice, first in line 2; remove one of them"),
    ],
)  # fmt: skip
def test_a_mistake_of_the_minion_is_told_with_its_position(tmp_path: Path, content: str, message: str) -> None:
    assert minion_error(tmp_path, content) == [message]


@pytest.mark.parametrize("address", ["a b", "host:", "host:0", "host:65536", "2001:db8::1", "-x", "[::1", "a/b"])
def test_what_is_not_the_address_of_a_master_is_refused(tmp_path: Path, address: str) -> None:
    (line,) = minion_error(tmp_path, f"master:\n- '{address}'\n")
    assert line.startswith(f"minion:2:3: 'master': '{address}' is not the address of a master")


def test_an_id_that_is_a_number_is_taken_as_written(tmp_path: Path) -> None:
    assert load_minion_text(tmp_path, "id: 007").id == "007"
    assert load_minion_text(tmp_path, "id: 1.10").id == "1.10"


def test_an_id_is_checked_at_its_line(tmp_path: Path) -> None:
    assert load_minion_text(tmp_path, "id: Web1").id == "Web1"
    (line,) = minion_error(tmp_path, "id: Web,1")
    assert line.startswith("minion:1:5: 'id': 'Web,1' is not a minion id")


def test_a_fingerprint_is_brought_to_its_usual_form(tmp_path: Path) -> None:
    config = load_minion_text(tmp_path, f"fleet: {'a' * 40}")
    assert config.fleet == "-".join(["AAAAA"] * 8)


def test_a_wrong_join_token_is_not_repeated(tmp_path: Path) -> None:
    for content in ("join_token: slj1.hunter2", "join_token: [hunter2]", "join_token: {a: hunter2}"):
        assert "hunter2" not in "".join(minion_error(tmp_path, content))


def test_a_join_token_is_not_in_the_repr(tmp_path: Path) -> None:
    config = load_minion_text(tmp_path, f"join_token: {TOKEN}")
    assert config.join_token == TOKEN
    assert TOKEN not in repr(config)


def test_two_sources_of_a_join_token_are_refused(tmp_path: Path) -> None:
    assert minion_error(tmp_path, f"join_token: {TOKEN}\njoin_token_file: /t\n") == [
        "minion:2:1: join_token and join_token_file are both set; keep one of them"
    ]


def test_a_socket_path_that_linux_cannot_take_is_told_at_its_option(tmp_path: Path) -> None:
    longest = "/" + "s" * (paths.SOCKET_PATH_BYTES_MAX - len("/" + "/master.ipc"))
    (tmp_path / "master").write_text(f"sock_dir: {longest}")
    assert len(paths.master_socket(load_master(str(tmp_path)).config.sock_dir)) == paths.SOCKET_PATH_BYTES_MAX
    (line,) = master_error(tmp_path, f"port: 1\nsock_dir: {longest}s\n")
    assert line.startswith("master:2:1: the path of the socket, /sss")
    assert "longer than the 107 bytes" in line


def test_every_problem_of_every_file_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "master.d").mkdir()
    (tmp_path / "master.d" / "a.conf").write_text("user: [\n")
    (tmp_path / "master.d" / "b.conf").write_text("prt: 1\n")
    lines = master_error(tmp_path, "port: x\nwork: 1\ntimeout: 1s\ntimeout: 2s\n")
    assert [line.rsplit(":", 1)[0].split(": ")[0] for line in lines] == [
        "master:4:1",
        "master:1:7",
        "master:2:1",
        "master.d/a.conf:2:1",
        "master.d/b.conf:1:1",
    ]


def test_a_file_of_nonsense_does_not_fill_the_screen(tmp_path: Path) -> None:
    lines = master_error(tmp_path, "".join(f"nonsense{n}: 1\n" for n in range(5000)))
    assert len(lines) == PROBLEMS_MAX + 1
    assert lines[-1] == "there are more problems; correct these first"


# --- files that are none ---


def test_a_folder_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "master").mkdir()
    with pytest.raises(ConfigError, match="not a regular file"):
        load_master(str(tmp_path))


def test_a_pipe_in_place_of_the_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "master")
    with pytest.raises(ConfigError, match="not a regular file"):
        load_master(str(tmp_path))


def test_a_file_past_the_size_limit_is_told(tmp_path: Path) -> None:
    (tmp_path / "master").write_bytes(b"#" * paths.FILE_BYTES_MAX)
    assert load_master(str(tmp_path)).config == MasterConfig()
    assert master_error(tmp_path, b"#" * (paths.FILE_BYTES_MAX + 1)) == [
        "master: it has more than 1048576 bytes, so it is not a configuration file; move it away"
    ]


def test_a_file_in_place_of_the_included_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "master.d").write_text("")
    assert master_error(tmp_path, "") == [
        "master.d: something on this path is a file where a folder is needed; move it away"
    ]


def test_an_unreadable_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(load, "read_config_file", refuse)
    assert master_error(tmp_path, "") == [
        "master: this user may not read it; run the command as root, or change the mode of the file"
    ]


# --- YAML ---


def grains(tmp_path: Path, value: str) -> object:
    return load_minion_text(tmp_path, f"grains:\n  g: {value}\n").grains["g"]


@pytest.mark.parametrize("word", ["yes", "No", "on", "OFF", "y", "2024-01-31", "12:30:45", "0644", "1_000", ".inf"])
def test_what_yaml_versions_disagree_about_is_text(tmp_path: Path, word: str) -> None:
    assert grains(tmp_path, word) == word


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("TRUE", True), ("false", False), ("~", None), ("", None), ("Null", None), ("-12", -12), ("0x1F", 31),
        ("0o17", 15), ("1.5", 1.5), ("1e3", 1000.0), ("'1'", "1"), ("|\n    a\n    b\n", "a\nb\n"),
        ("18446744073709551615", 2**64 - 1), ("18446744073709551616", "18446744073709551616"),
        ("1e999", "1e999"), ("9" * 5000, "9" * 5000),
    ],
)  # fmt: skip
def test_plain_values_are_read_by_the_core_schema(tmp_path: Path, written: str, value: object) -> None:
    read = grains(tmp_path, written)
    assert (read, type(read)) == (value, type(value))


def test_keys_of_maps_are_text_as_written(tmp_path: Path) -> None:
    assert grains(tmp_path, "{1: a, true: b, 0x10: c}") == {"1": "a", "true": "b", "0x10": "c"}


def test_an_alias_repeats_its_value(tmp_path: Path) -> None:
    config = load_minion_text(tmp_path, "test.a: &a [1, 2]\ntest.b: {c: *a}\n")
    assert config.module_config == {"test.a": [1, 2], "test.b": {"c": [1, 2]}}


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    (tmp_path / "master").write_bytes(b"\xef\xbb\xbfport: 7\r\nuser: x\r\n")
    config = load_master(str(tmp_path)).config
    assert (config.port, config.user) == (7, "x")


def test_aliases_may_add_so_many_values_and_no_more(tmp_path: Path) -> None:
    fine = "test.a: &a [" + ", ".join(["1"] * (ALIASED_VALUES_MAX - 1)) + "]\ntest.b: *a\n"
    assert len(load_minion_text(tmp_path, fine).module_config["test.b"]) == ALIASED_VALUES_MAX - 1
    (line,) = minion_error(tmp_path, fine + "test.c: &c 1\ntest.d: *c\n")
    assert line == f"minion:4:9: aliases add more than {ALIASED_VALUES_MAX} values; write them out"


def test_a_billion_laughs_are_refused(tmp_path: Path) -> None:
    rows = ["test.a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    rows += [f"test.a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    (line,) = minion_error(tmp_path, "\n".join(rows))
    assert "aliases add more than" in line


def test_an_alias_of_what_it_stands_in_is_refused(tmp_path: Path) -> None:
    assert minion_error(tmp_path, "test.a: &a [*a]") == [
        "minion:1:13: the alias '*a' has no finished value '&a' before it"
    ]


def test_a_duplicate_key_by_alias_is_told(tmp_path: Path) -> None:
    (line,) = minion_error(tmp_path, "grains: {? &k a : 1, *k : 2}")
    assert "'a' occurs twice" in line


def test_nesting_has_a_limit(tmp_path: Path) -> None:
    inner = DEPTH_MAX - 1  # the top level is one
    assert load_minion_text(tmp_path, f"test.a: {'[' * inner}{']' * inner}").module_config
    (line,) = minion_error(tmp_path, f"test.a: {'[' * (inner + 1)}{']' * (inner + 1)}")
    assert line.endswith(f"more than {DEPTH_MAX} lists and maps are nested here")


def test_nesting_by_aliases_has_the_same_limit(tmp_path: Path) -> None:
    half = DEPTH_MAX // 2
    first = f"test.a: &a {'[' * half}{']' * half}\n"
    (line,) = minion_error(tmp_path, first + f"test.b: {'[' * half}*a{']' * half}\n")
    assert "are nested here" in line


def test_a_megabyte_of_brackets_is_refused(tmp_path: Path) -> None:
    (line,) = master_error(tmp_path, b"[" * (paths.FILE_BYTES_MAX - 1))
    assert "are nested here" in line


def test_nodegroups_are_texts_or_lists_and_the_resource_policy_has_lists_only(tmp_path: Path) -> None:
    text = "nodegroups: {web: 'G@role:web', db: [db1, db2]}\nresource_policy: {'gate*': ['ssh:*']}\n"
    (tmp_path / "master").write_text(text)
    config = load_master(str(tmp_path)).config
    assert config.nodegroups == {"web": "G@role:web", "db": ["db1", "db2"]}
    assert config.resource_policy == {"gate*": ["ssh:*"]}
    (error,) = master_error(tmp_path, "resource_policy: {'gate*': 'ssh:*'}\n")
    assert error.startswith("master:1:")
    assert "a map from text to lists of texts" in error


@pytest.mark.parametrize(
    "dsn",
    [
        "dbname=x password=secret",
        "dbname=x PASSWORD = 'secret'",
        "dbname=x sslkey=/k sslpassword=secret",
        "postgresql://saltlite:secret@db/saltlite",
    ],
)
def test_a_password_in_the_address_of_the_database_is_refused_and_not_repeated(tmp_path: Path, dsn: str) -> None:
    (line,) = master_error(tmp_path, f'database: "{dsn}"')
    assert line.startswith("master:1:11: 'database': a password stands in it")
    assert "secret" not in line


@pytest.mark.parametrize("name", ["cmd_yaml", "cmd_json", "cmd_yamlex"])
def test_no_minion_chooses_commands_of_the_master(tmp_path: Path, name: str) -> None:
    (line,) = master_error(tmp_path, f"on_demand_ext_pillar: [inventory, {name}]")
    sentence = f"{name} would let every minion run commands on the master"
    assert line.startswith(f"master:1:23: 'on_demand_ext_pillar': {sentence}")


def test_a_file_of_passwords_in_the_address_of_the_database_is_none(tmp_path: Path) -> None:
    dsn = "host=db1,db2 dbname=saltlite user=saltlite passfile=/etc/saltlite/database.pass"
    (tmp_path / "master").write_text(f'database: "{dsn}"')
    assert load_master(str(tmp_path)).config.database == dsn


def test_the_address_of_a_master_is_checked_where_it_is_written(tmp_path: Path) -> None:
    (line,) = master_error(tmp_path, "master_address: 'a b:4515'")
    assert "is not the address of a master" in line
