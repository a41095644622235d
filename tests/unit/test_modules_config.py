"""`config`: configuration, grains, pillar and the master's options, in this order."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.config.minion import MinionConfig
from saltlite.config.opts import opts_of
from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers

INDEX = build_index(search_layers({}))
OPTS = {"id": "web1", "who": "opts", "m": {"a": 1}, "l": [1], "mod.a": 1, "mod.b": 2, "backup_mode": "minion"}
GRAINS = {"who": "grains", "place": {"rack": 4}, "m": {"b": 2}}
PILLAR = {
    "who": "pillar", "m": {"a": 0, "c": 3}, "l": [2], "colon:key": 5,
    "master": {"who": "master", "hash_type": "md5", "mod.c": 3, "m": {"d": 4}, "l": [3]},
}  # fmt: skip


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, OPTS, GRAINS, PILLAR), f"config.{fun}", args, kwargs)


def test_all_of_it_is_shown_without_what_is_named_like_a_secret_and_modules_find_theirs() -> None:
    opts = {**OPTS, "mysql.pass": "tea", "etcd": {"password": "tea", "port": 1}, "proxy": "http://me:tea@proxy/"}
    said = call(Loader(INDEX, opts, {}, {}), "config.items", (), {}).value
    hidden = {"mysql.pass": "***", "etcd": {"password": "***", "port": 1}, "proxy": "http://***@proxy/"}
    assert said == {**OPTS, **hidden}
    assert call(Loader(INDEX, opts, {}, {}), "config.get", ("mysql.pass",), {}).value == "tea"


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "said"),
    [
        ("get", ("who",), {}, "opts"),
        ("get", ("who",), {"omit_opts": True}, "grains"),
        ("get", ("who",), {"omit_opts": True, "omit_grains": True}, "pillar"),
        ("get", ("who",), {"omit_opts": True, "omit_grains": True, "omit_pillar": True}, "master"),
        ("get", ("hash_type",), {}, "md5"),
        ("get", ("hash_type",), {"omit_master": True}, "sha256"),
        ("get", ("renderer",), {"default": "x"}, "jinja|yaml"),
        ("get", ("nosuch",), {}, ""),
        ("option", ("hash_type",), {"omit_all": True}, "sha256"),
        ("get", ("place:rack",), {}, 4),
        ("get", ("place|rack",), {"delimiter": "|"}, 4),
        ("get", ("place:shelf",), {"default": 7}, 7),
        ("get", ("l:0",), {}, 1),
        ("get", ("test.foo",), {}, "unconfigured"),
        ("get", ("m",), {}, {"a": 1}),
        ("get", ("m",), {"merge": "recurse"}, {"a": 1, "b": 2, "c": 3, "d": 4}),
        ("get", ("m:c",), {"merge": "recurse"}, 3),
        ("get", ("m",), {"merge": "overwrite"}, {"a": 1}),
        ("get", ("m:a",), {"merge": "recurse", "omit_opts": True}, 0),
        ("option", ("who",), {}, "opts"),
        ("option", ("place:rack",), {}, ""),
        ("option", ("colon:key",), {}, 5),
        ("option", ("mod.*",), {"wildcard": True}, {"mod.a": 1, "mod.b": 2, "mod.c": 3}),
        ("option", ("who",), {"omit_all": True}, ""),
        ("option", ("test.*",), {"omit_all": True, "wildcard": True}, {"test.foo": "unconfigured"}),
        ("option", ("nosuch*",), {"wildcard": True}, {}),
        ("merge", ("m",), {}, {"a": 1, "c": 3, "d": 4}),
        ("merge", ("l",), {}, [1, 3, 2]),
        ("merge", ("who",), {}, "opts"),
        ("merge", ("nosuch",), {"default": 3}, 3),
        ("items", (), {}, OPTS),
        ("dot_vals", ("mod",), {}, {"mod.a": 1, "mod.b": 2, "mod.c": 3}),
        ("valid_fileproto", ("salt://a/b",), {}, True),
        ("valid_fileproto", ("HTTPS://a/b",), {}, True),
        ("valid_fileproto", ("file:///etc/passwd",), {}, True),
        ("valid_fileproto", ("/etc/passwd",), {}, False),
        ("manage_mode", (644,), {}, "0644"),
        ("manage_mode", ("0644",), {}, "0644"),
        ("manage_mode", ("4755",), {}, "4755"),
        ("manage_mode", (0,), {}, "0000"),
        ("manage_mode", ("'0o755'",), {}, "0755"),
        ("manage_mode", (None,), {}, None),
        ("manage_mode", ("keep",), {}, "keep"),
        ("backup_mode", (), {}, "minion"),
        ("backup_mode", ("master",), {}, "master"),
    ],
)  # fmt: skip
def test_configuration_is_read_as_salt_reads_it(fun: str, args: Any, kwargs: Any, said: Any) -> None:
    assert run(fun, *args, **kwargs) == Outcome(said, 0)


def test_an_unknown_way_to_merge_is_refused() -> None:
    assert "recurse, overwrite" in run("get", "m", merge="sideways").value


def test_secrets_of_the_configuration_are_not_shown() -> None:
    opts = opts_of(MinionConfig(join_token="aa.sesame"), "web1")
    loader = Loader(INDEX, opts, {}, {})
    shown = [call(loader, f"config.{fun}", args, {}).value for fun, args in (("items", ()), ("get", ("join_token",)))]
    assert "sesame" not in str(shown)


def test_the_master_has_the_names_and_the_form_of_salt() -> None:
    loader = Loader(INDEX, {"id": "web1", "master": ["salt.example.net:4600", "b"], "port": 4515}, {}, {})
    names = ("master", "master_list", "master_port", "master_uri")
    wanted = ["salt.example.net", ["salt.example.net", "b"], 4600, "tcp://salt.example.net:4600"]
    for function in ("config.get", "config.option"):
        assert [call(loader, function, (name,), {}).value for name in names] == wanted
