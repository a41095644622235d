"""Grains that are set: the file that keeps them, and what it looks like after whatever happened to it."""

from __future__ import annotations

import errno
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from saltlite.errors import CommandExecutionError
from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.grains.collect import FILE_BYTES_MAX, static_grains
from saltlite.plugins.modules import grains

INDEX = build_index(search_layers({}))
FOUND = {"id": "web1", "os": "Debian", "os_family": "Debian", "ips": ["192.0.2.1"], "deep": {"a": {"b": 1}, "c": [1]}}


def run(folder: Path, fun: str, *args: Any, **kwargs: Any) -> Outcome:
    """One job: it has the grains that the last one left."""
    opts = {"id": "web1", "conf_file": str(folder / "minion"), "grains": {"fixed": 1}}
    return call(Loader(INDEX, opts, {**FOUND, **static_grains(opts), "fixed": 1}, {}), f"grains.{fun}", args, kwargs)


def in_file(folder: Path) -> Any:
    return yaml.safe_load((folder / "grains").read_text())


CASES: list[tuple[dict[str, Any], str, tuple[Any, ...], dict[str, Any], Any, Any]] = [
    # what the file has before, function, arguments, keywords, return, what the file has after
    ({}, "setval", ("rack", 4), {}, {"rack": 4}, {"rack": 4}),
    ({"rack": 4}, "setval", ("rack", None), {}, {"rack": None}, {"rack": None}),
    ({"rack": 4, "x": 1}, "setval", ("rack", None), {"destructive": True}, {"rack": None}, {"x": 1}),
    ({"x": 1}, "setvals", ({"a": [1, 2], "b": {"c": "yes"}},), {}, {"a": [1, 2], "b": {"c": "yes"}},
     {"x": 1, "a": [1, 2], "b": {"c": "yes"}}),
    ({}, "append", ("roles", "web"), {}, {"roles": ["web"]}, {"roles": ["web"]}),
    ({"roles": ["web"]}, "append", ("roles", ["db", "mq"]), {}, {"roles": ["web", "db", "mq"]},
     {"roles": ["web", "db", "mq"]}),
    ({"roles": ["web"]}, "append", ("roles", "web"), {}, "The val web was already in the list roles",
     {"roles": ["web"]}),
    ({"role": "web"}, "append", ("role", "db"), {}, "The key role is not a valid list", {"role": "web"}),
    ({"role": "web"}, "append", ("role", "db"), {"convert": True}, {"role": ["web", "db"]}, {"role": ["web", "db"]}),
    ({}, "append", ("ips", "192.0.2.2"), {}, {"ips": ["192.0.2.1", "192.0.2.2"]},
     {"ips": ["192.0.2.1", "192.0.2.2"]}),
    ({}, "append", ("apps:web:ports", 443), {}, {"apps": {"web": {"ports": [443]}}},
     {"apps": {"web": {"ports": [443]}}}),
    ({"apps": {"db": 1}}, "append", ("apps|web", 443), {"delimiter": "|"}, {"apps": {"db": 1, "web": [443]}},
     {"apps": {"db": 1, "web": [443]}}),
    ({"roles": ["web", "db"]}, "remove", ("roles", "web"), {}, {"roles": ["db"]}, {"roles": ["db"]}),
    ({"roles": ["web"]}, "remove", ("roles", "db"), {}, "The val db was not in the list roles", {"roles": ["web"]}),
    ({"role": "web"}, "remove", ("role", "web"), {}, "The key role is not a valid list", {"role": "web"}),
    ({"a": {"b": [1, 2]}}, "remove", ("a:b", 2), {}, {"a": {"b": [1]}}, {"a": {"b": [1]}}),
    ({"rack": 4}, "delval", ("rack",), {}, {"comment": "", "changes": {"rack": None}, "result": True},
     {"rack": None}),
    ({"rack": 4, "x": 1}, "delkey", ("rack",), {}, {"comment": "", "changes": {"rack": None}, "result": True},
     {"x": 1}),
    ({"a": {"b": 1, "c": 2}}, "delkey", ("a:b",), {}, {"comment": "", "changes": {"a": {"c": 2}}, "result": True},
     {"a": {"c": 2}}),
    ({"a": {"b": {"c": 2}}}, "delkey", ("a:b",), {"force": True},
     {"comment": "", "changes": {"a": {}}, "result": True}, {"a": {}}),
    ({}, "set", ("apps:web:port", 80), {},
     {"comment": "", "changes": {"apps": {"web": {"port": 80}}}, "result": True}, {"apps": {"web": {"port": 80}}}),
    ({"rack": 4}, "set", ("rack", 4), {}, {"comment": "Grain is already set", "changes": {}, "result": True},
     {"rack": 4}),
    ({"a": {"b": 1}}, "set", ("a", 4), {},
     {"comment": "The key 'a' exists but is a dict or a list. Use 'force=True' to overwrite.", "changes": {},
      "result": False}, {"a": {"b": 1}}),
    ({"a": 1}, "set", ("a", [1]), {},
     {"comment": "The key 'a' exists and the given value is a dict or a list. Use 'force=True' to overwrite.",
      "changes": {}, "result": False}, {"a": 1}),
    ({"a": {"b": 1}}, "set", ("a", [1]), {"force": True}, {"comment": "", "changes": {"a": [1]}, "result": True},
     {"a": [1]}),
    ({"a": "x"}, "set", ("a:b", 1), {},
     {"comment": "The key 'a' value is 'x', which is different from the provided key 'b'. "
                 "Use 'force=True' to overwrite.", "changes": {}, "result": False}, {"a": "x"}),
    ({"a": "b"}, "set", ("a:b", 1), {}, {"comment": "", "changes": {"a": {"b": 1}}, "result": True},
     {"a": {"b": 1}}),
    ({"a": ["b", {"c": 1}]}, "set", ("a:c", 2), {},
     {"comment": "", "changes": {"a": ["b", {"c": 2}]}, "result": True}, {"a": ["b", {"c": 2}]}),
    ({"a": ["x"]}, "set", ("a:b", 2), {}, {"comment": "", "changes": {"a": ["x", {"b": 2}]}, "result": True},
     {"a": ["x", {"b": 2}]}),
]  # fmt: skip


@pytest.mark.parametrize(("before", "fun", "args", "kwargs", "said", "after"), CASES)
def test_a_grain_is_set_as_salt_sets_it(
    tmp_path: Path, before: Any, fun: str, args: Any, kwargs: Any, said: Any, after: Any
) -> None:
    if before:
        (tmp_path / "grains").write_text(yaml.safe_dump(before))
    refused = isinstance(said, dict) and said.get("result") is False
    assert run(tmp_path, fun, *args, **kwargs) == Outcome(said, int(refused))
    assert in_file(tmp_path) == after


@pytest.mark.parametrize(
    "text", ["yes", "007", "1e3", "~", "2026-01-31", "a: b", "# no", "-x", " a ", "é☃", "a\nb", "'\"", "", "@x", "*x"]
)
def test_texts_are_read_back_as_they_were_set(tmp_path: Path, text: str) -> None:
    run(tmp_path, "setvals", {"v": text, text: 1, "m": {text: [text]}})
    assert run(tmp_path, "get", "v").value == text
    assert run(tmp_path, "item", text).value == {text: 1}
    assert run(tmp_path, "get", "m").value == {text: [text]}


def test_the_file_stays_readable_with_its_comment_its_order_and_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "grains"
    path.write_text("# Set by hand, and by grains.setval.\nzeta: 1\nalpha: [a, b]\n")
    path.chmod(0o640)
    run(tmp_path, "setval", "omega", {"deep": ["é"]})
    assert path.read_text() == (
        "# Set by hand, and by grains.setval.\nzeta: 1\nalpha:\n- a\n- b\nomega:\n  deep:\n  - é\n"
    )
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_was_set_is_seen_by_the_next_function_of_the_same_job(tmp_path: Path) -> None:
    loader = Loader(INDEX, {"conf_file": str(tmp_path / "minion")}, FOUND, {})
    call(loader, "grains.setval", ("rack", 4), {})
    assert call(loader, "grains.get", ("rack",), {}).value == 4


@pytest.mark.parametrize(
    ("grains", "words"),
    [
        ({"id": "web2"}, "is the minion's own"),
        ({"fixed": 2}, "change it there"),
        ({"v": b"x"}, "not b'x'"),
        ({"v": {(1, 2): 3}}, "cannot be a key"),
        ({"v": "x" * FILE_BYTES_MAX}, "at most"),
        ([1], "are a map"),
    ],
)
def test_what_cannot_be_a_grain_is_refused_and_the_file_stays(tmp_path: Path, grains: Any, words: str) -> None:
    (tmp_path / "grains").write_text("rack: 4\n")
    outcome = run(tmp_path, "setvals", grains)
    assert outcome.retcode == 1
    assert words in outcome.value
    assert (tmp_path / "grains").read_text() == "rack: 4\n"


def test_maps_without_an_end_are_refused(tmp_path: Path) -> None:
    value: Any = 1
    for _ in range(grains.DEPTH_MAX + 1):
        value = [value]
    assert "inside of each other" in run(tmp_path, "setval", "deep", value).value


@pytest.mark.parametrize("text", ["a: [", "- 1\n", "\x00", "!!python/object:os.system {}"])
def test_a_file_that_is_no_map_is_never_overwritten_and_costs_its_own_grains_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    (tmp_path / "grains").write_text(text)
    outcome = run(tmp_path, "setval", "rack", 4)
    assert (outcome.retcode, "was not changed" in outcome.value) == (1, True)
    assert (tmp_path / "grains").read_text() == text
    assert static_grains({"conf_file": str(tmp_path / "minion")}) == {}
    assert "are missing" in caplog.text


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "grains").write_text("rack: 4\n")

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    outcome = run(tmp_path, "setval", "rack", 5)
    assert (outcome.retcode, "No space left" in outcome.value) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["grains"]
    assert in_file(tmp_path) == {"rack": 4}


def test_who_waits_too_long_for_others_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grains, "LOCK_S", 0.0)
    path = str(tmp_path / "grains")
    with (
        grains._changing(path),
        pytest.raises(CommandExecutionError, match="has locked the grains"),
        grains._changing(path),
    ):
        pass


def append_some(folder: Path, number: int) -> None:
    for each in range(5):
        run(folder, "append", "seen", f"{number}-{each}")


def test_jobs_that_set_grains_at_the_same_time_all_have_theirs_set(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    jobs = [context.Process(target=append_some, args=(tmp_path, number)) for number in range(4)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert sorted(in_file(tmp_path)["seen"]) == sorted(f"{number}-{each}" for number in range(4) for each in range(5))


FILTERS: list[tuple[tuple[Any, ...], dict[str, Any], Any]] = [
    (({"Debian": 1, "RedHat": 2},), {}, 1),
    (({"Deb*": 1},), {}, 1),
    (({"RedHat": 2, "default": 3},), {}, 3),
    (({"RedHat": 2},), {}, None),
    (({"RedHat": 2},), {"default": "RedHat"}, 2),
    (({"192.0.2.*": "net"}, "ips"), {}, "net"),
    (({"1": "one"}, "deep:a:b"), {}, "one"),
    (({"A": "B", "C": {"D": {"E": "F", "G": "H"}}}, "xxx", {"D": {"E": "I"}, "J": "K"}, "C"), {},
     {"D": {"E": "I", "G": "H"}, "J": "K"}),
    (({"default": {"A": {"B": "C"}, "D": "E"}, "F": {"A": {"B": "G"}}, "H": {"D": "I"}}, "xxx", {"D": "J"}, "F",
      "default"), {}, {"A": {"B": "G"}, "D": "J"}),
]  # fmt: skip


@pytest.mark.parametrize(("args", "kwargs", "said"), FILTERS)
def test_a_table_is_filtered_by_a_grain(tmp_path: Path, args: Any, kwargs: Any, said: Any) -> None:
    assert run(tmp_path, "filter_by", *args, **kwargs) == Outcome(said, 0)


@pytest.mark.parametrize(
    ("fun", "args", "said"),
    [
        ("equals", ("os", "Debian"), True),
        ("equals", ("deep:a:b", "1"), True),
        ("equals", ("os", "Arch"), False),
        ("has_value", ("deep:a:b",), True),
        ("has_value", ("deep:a:x",), False),
        ("fetch", ("deep:c:0",), 1),
        ("get", ("deep", "x", ""), {"a": {"b": 1}, "c": [1]}),
    ],
)
def test_grains_are_asked(tmp_path: Path, fun: str, args: Any, said: Any) -> None:
    assert run(tmp_path, fun, *args).value == said


def test_sanitized_items_hide_what_names_the_machine(tmp_path: Path) -> None:
    assert run(tmp_path, "item", "id", "os", sanitize=True).value == {"id": "MINION.DOMAINNAME", "os": "Debian"}


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "grains").write_text("a: " + "x" * FILE_BYTES_MAX)
    assert static_grains({"conf_file": str(tmp_path / "minion")}) == {}
    assert "more than" in caplog.text


def test_without_a_configuration_folder_nothing_can_be_set() -> None:
    outcome = call(Loader(INDEX, {}, FOUND, {}), "grains.setval", ("rack", 4), {})
    assert (outcome.retcode, "no minion's configuration folder" in outcome.value) == (1, True)
