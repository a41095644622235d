"""`selinux`: what the programs of Debian's policycoreutils print, played by scripts, and the files of the kernel."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import _machinefiles

INDEX = build_index(search_layers({}))
DATA = Path(__file__).parent.parent / "data/selinux"
WWW = "/var/www(/.*)?"


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {}, {}, {}), f"selinux.{fun}", args, kwargs)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is `/` for the files; its `log` has the words of programs that change something.

    A program fails with the text of its file NAME.fails, and `restorecon -n` prints `differing`.
    """
    monkeypatch.setattr(_machinefiles, "ROOT", str(tmp_path))
    folder = tmp_path / "bin"
    folder.mkdir()
    script = f"""#!/bin/sh
case "$(basename $0) $*" in
    "semanage "*" --list") exec cat {DATA}/$1 ;;
    "semodule --list-modules=full") exec cat {DATA}/modules ;;
    "restorecon -n "*) exec cat {tmp_path}/differing ;;
esac
echo "$(basename $0) $*" >>{tmp_path}/log
[ ! -e {tmp_path}/$(basename $0).fails ] || {{ cat {tmp_path}/$(basename $0).fails >&2; exit 1; }}
"""
    for name in ("semanage", "setsebool", "semodule", "restorecon"):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    (tmp_path / "differing").touch()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return tmp_path


LABEL = {"sel_user": "system_u", "sel_role": "object_r", "sel_level": "s0"}


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "value"),
    [
        (
            "getsebool",
            ["allow_execheap"],
            {},
            {"State": "on", "Default": "on"},
        ),
        ("getsebool", ["nosuch"], {}, {}),
        ("list_semod", [], {}, {"ssh": {"Enabled": True, "Version": None}, "zosremote": {"Enabled": False}}),
        ("getsemod", ["acct"], {}, {"Enabled": True}),
        ("filetype_id_to_string", ["d"], {}, "directory"),
        ("fcontext_get_policy", ["/"], {}, {"filespec": "/", "filetype": "directory", "sel_type": "root_t", **LABEL}),
        ("fcontext_get_policy", [WWW, "a"], {}, {"sel_type": "httpd_sys_content_t", "filetype": "all files"}),
        ("fcontext_get_policy", [WWW, "d"], {}, None),
        ("fcontext_get_policy", [WWW], {"sel_type": "etc_t"}, None),
        ("fcontext_get_policy", ["/proc"], {}, None),
        ("fcontext_get_policy", ["/bin"], {}, None),
        ("port_get_policy", ["tcp/443"], {}, {"sel_type": "http_port_t", "protocol": "tcp"}),
        ("port_get_policy", ["web"], {"protocol": "tcp", "port": 22}, {"sel_type": "ssh_port_t", "port": "22"}),
        ("port_get_policy", ["tcp/10001-10010"], {}, {"sel_type": "http_cache_port_t"}),
        ("port_get_policy", ["tcp/44"], {}, None),
        ("port_get_policy", ["udp/443"], {}, None),
        ("port_get_policy", ["tcp/443", "ssh_port_t"], {}, None),
    ],
)
def test_what_the_policy_lists_has_salts_form(fun: str, args: list[Any], kwargs: dict[str, Any], value: Any) -> None:
    outcome = run(fun, *args, **kwargs)
    assert outcome.retcode == 0, outcome.value
    assert _within(value, outcome.value)


def _within(expected: Any, found: Any) -> bool:
    """Whether a value has what is expected; maps may have more keys."""
    if not expected or not isinstance(expected, dict):
        return bool(expected == found)
    return all(_within(value, found[key]) for key, value in expected.items())


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "words"),
    [
        ("setsebool", ["a_b", "off"], {"persist": True}, "setsebool -P a_b=0"),
        ("setsebools", [{"a": True, "b": "0"}], {}, "setsebool a=1 b=0"),
        ("setsemod", ["ssh", "Disabled"], {}, "semodule --disable=ssh"),
        ("install_semod", ["/srv/web.pp"], {}, "semodule --install=/srv/web.pp"),
        ("remove_semod", ["web"], {}, "semodule --remove=web"),
        ("fcontext_add_policy", [WWW], {"sel_type": "t"}, f"semanage fcontext --modify --type t -- {WWW}"),
        (
            "fcontext_add_policy",
            [WWW, "d", "t", "u", "s0"],
            {},
            f"semanage fcontext --add --ftype d --type t --seuser u --range s0 -- {WWW}",
        ),
        ("fcontext_delete_policy", ["/x y"], {}, "semanage fcontext --delete -- /x y"),
        ("port_add_policy", ["udp/20-21", "t"], {}, "semanage port --add --proto udp --type t -- 20-21"),
        ("port_modify_policy", ["x", "t", "tcp", 8], {}, "semanage port --modify --proto tcp --type t -- 8"),
        ("port_delete_policy", ["tcp/8"], {}, "semanage port --delete --proto tcp -- 8"),
    ],
)
def test_changes_run_these_words_and_a_failure_is_one(
    machine: Path, fun: str, args: list[Any], kwargs: dict[str, Any], words: str
) -> None:
    done = run(fun, *args, **kwargs)
    assert done.value is True or done.value["retcode"] == 0
    assert (machine / "log").read_text() == f"{words}\n"
    program = words.split(maxsplit=1)[0]
    (machine / f"{program}.fails").write_text("ValueError: it is not defined\n")
    failed = run(fun, *args, **kwargs)
    assert failed.retcode == 1
    assert failed.value is False or failed.value["stderr"] == "ValueError: it is not defined"
    assert failed.value or failed.warnings == (f"{program} failed: ValueError: it is not defined",)


@pytest.mark.parametrize(
    ("fun", "args", "words"),
    [
        ("setenforce", ["strict"], "Invalid mode strict"),
        ("setsebool", ["a", "maybe"], "on or off"),
        ("setsebool", ["-N", "on"], "not the name of a boolean"),
        ("setsebools", [{}], "at least one"),
        ("setsemod", ["ssh", "off"], "Invalid state off"),
        ("remove_semod", ["--build"], "not the name of a module"),
        ("filetype_id_to_string", ["x"], "expected one of: a, f, d"),
        ("fcontext_add_policy", ["/x", "x"], "expected one of: a, f, d"),
        ("fcontext_add_policy", ["/x", "a", "--noreload"], "cannot be a part of a label"),
        ("port_get_policy", ["tcp/80x"], 'Invalid name "tcp/80x"'),
        ("port_add_policy", ["tcp/80"], "Type is required"),
    ],
)
def test_what_the_policy_cannot_have_runs_nothing(machine: Path, fun: str, args: list[Any], words: str) -> None:
    outcome = run(fun, *args)
    assert outcome.retcode == 1
    assert words in str(outcome.value)
    assert not (machine / "log").exists()


def test_labels_are_applied_and_the_changed_parts_are_returned(machine: Path) -> None:
    assert run("fcontext_apply_policy", "/srv", recursive=True).value.get("changes") is None
    (machine / "differing").write_text(
        "Would relabel /srv/a b from u:object_r:default_t:s0 to u:object_r:var_t:s0\n"
        "Would relabel /srv/c from <no context> to u:object_r:var_t:s0:c1,c2\n"
    )
    found = run("fcontext_apply_policy", "/srv").value
    assert found["changes"]["/srv/a b"] == {"old": {"sel_type": "default_t"}, "new": {"sel_type": "var_t"}}
    assert found["changes"]["/srv/c"]["new"]["sel_level"] == "s0:c1,c2"
    assert (machine / "log").read_text() == "restorecon -F -v -R -- /srv\nrestorecon -F -v -- /srv\n"
    (machine / "differing").write_text("something else\n")
    assert "Unrecognized response" in run("fcontext_apply_policy", "/srv").value["error"]


def test_the_mode_is_that_of_the_kernel_and_of_the_next_boot(machine: Path) -> None:
    assert [run(fun).value for fun in ("getenforce", "getconfig", "selinux_fs_path")] == ["Disabled", None, None]
    assert "/etc/selinux/config cannot be read" in str(run("setenforce", "enforcing").value)
    config, enforce = machine / "etc/selinux/config", machine / "sys/fs/selinux/enforce"
    for path, text in ((config, "SELINUX=disabled\n# SELINUX=x\nSELINUXTYPE=default\n"), (enforce, "0")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert [run(fun).value for fun in ("getenforce", "getconfig")] == ["Permissive", "Disabled"]
    assert run("setenforce", "Enforcing").value == "Enforcing"
    assert config.read_text() == "SELINUX=enforcing\n# SELINUX=x\nSELINUXTYPE=default\n"
    assert run("setenforce", "disabled").value == "Permissive"
    assert run("getconfig").value == "Disabled"


def test_a_machine_without_the_programs_says_which_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nosuch")
    assert run("getenforce").value == "Disabled"
    assert "there is no such program" in str(run("list_sebool").value)
    assert "there is no such program" in str(run("fcontext_delete_policy", "/srv").value)
