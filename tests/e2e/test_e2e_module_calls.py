"""What operators call every day, through master and minion: with the arguments, and the data of the job, as there."""

from __future__ import annotations

import time
from typing import Any

import pytest

from saltlite.client.follower import Progress, WaitPolicy
from saltlite.client.local import JobCall
from tests.support.fleet import Fleet

pytestmark = pytest.mark.e2e

CALLS: list[tuple[str, list[Any], dict[str, Any], type]] = [
    ("archive.list", ["{tar}"], {}, list),
    ("cmd.run", ["id"], {"cwd": "/"}, str),
    ("cmd.run_all", ["id"], {"env": {"A": "b"}}, dict),
    ("cmd.run_stdout", ["id"], {}, str),
    ("cmd.retcode", ["true"], {}, int),
    ("cmd.which", ["sh"], {}, str),
    ("cmd.script", ["{script}"], {}, dict),
    ("config.get", ["id"], {}, str),
    ("config.option", ["id"], {}, str),
    ("cp.list_master", [], {}, list),
    ("disk.usage", [], {}, dict),
    ("disk.inodeusage", [], {}, dict),
    ("environ.get", ["PATH"], {}, str),
    ("event.send", ["my/tag", {"a": 1}], {"with_grains": True}, bool),
    ("file.find", ["{folder}"], {"type": "f", "name": "*.txt"}, list),
    ("file.find", ["{folder}"], {"mindepth": 1, "print": "path,size", "test": True}, list),
    ("file.read", ["{folder}/a.txt"], {}, str),
    ("file.write", ["{folder}/b.txt", "one", "two"], {}, str),
    ("file.append", ["{folder}/b.txt", "three"], {}, str),
    ("file.replace", ["{folder}/b.txt", "one", "1"], {}, str),
    ("file.get_hash", ["{folder}/a.txt"], {}, str),
    ("file.stats", ["{folder}/a.txt"], {}, dict),
    ("file.check_hash", ["{folder}/a.txt", "{hash}"], {}, bool),
    ("git.version", [], {}, str),
    ("git.init", ["{folder}/repository"], {}, str),
    ("git.status", ["{folder}/repository"], {}, dict),
    ("grains.filter_by", [{"Debian": {"a": 1}, "default": {}}], {}, dict),
    ("grains.items", [], {}, dict),
    ("group.info", ["root"], {}, dict),
    ("hashutil.digest", ["abc"], {"checksum": "sha256"}, str),
    ("hosts.list_hosts", [], {}, dict),
    ("http.query", ["http://127.0.0.1:9/"], {"method": "HEAD"}, dict),
    ("locale.list_avail", [], {}, list),
    ("match.compound", ["a or b"], {}, bool),
    ("match.glob", ["*"], {}, bool),
    ("mount.active", [], {"extended": True}, dict),
    ("mount.fstab", [], {}, dict),
    ("network.interfaces", [], {}, dict),
    ("network.ip_addrs", [], {"include_loopback": True}, list),
    ("pillar.get", ["x"], {"default": "y"}, str),
    ("pip.version", [], {}, str),
    ("pkg.list_installed", ["dpkg"], {}, dict),
    ("pkg.list_pkgs", [], {"versions_as_list": True}, dict),
    ("pkg.list_repos", [], {}, dict),
    ("pkg.owner", ["/usr/bin/dpkg"], {}, str),
    ("pkg.version", ["dpkg"], {}, str),
    ("pkg.version_cmp", ["1.0-1", "1.0-2"], {}, int),
    ("ps.pgrep", ["no.such.process"], {}, type(None)),
    ("random.get_str", [], {"length": 8}, str),
    ("random.hash", ["abc"], {}, str),
    ("service.get_all", [], {}, list),
    ("shadow.info", ["root"], {}, dict),
    ("status.loadavg", [], {}, dict),
    ("status.meminfo", [], {}, dict),
    ("status.uptime", [], {}, dict),
    ("sysctl.get", ["kernel.hostname"], {}, str),
    ("system.get_computer_name", [], {}, str),
    ("temp.dir", [], {"parent": "{folder}"}, str),
    ("test.arg", [1, "a"], {"b": 2}, dict),
    ("test.kwarg", [], {"a": 1}, dict),
    ("user.info", ["root"], {}, dict),
    ("user.list_groups", ["root"], {}, list),
]
"""Function, arguments, keyword arguments, and of what type its return is."""


@pytest.fixture(scope="module")
def places(shared: Fleet, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What stands in braces."""
    folder = tmp_path_factory.mktemp("calls")
    (folder / "a.txt").write_text("hello\n")
    (folder / "script").write_text("#!/bin/sh\necho done\n")
    tar = folder / "a.tar"
    with shared.client() as client:
        client.cmd("a", "cmd.run", [f"tar cf {tar} -C {folder} a.txt"])
        found = client.cmd("a", "file.get_hash", [str(folder / "a.txt"), "sha256"])
    return {"folder": str(folder), "script": str(folder / "script"), "tar": str(tar), "hash": f"sha256:{found['a']}"}


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "kind"), CALLS, ids=[f"{number}-{one[0]}" for number, one in enumerate(CALLS)]
)
def test_it_returns_what_it_is_called_for(
    shared: Fleet, places: dict[str, str], fun: str, args: list[Any], kwargs: dict[str, Any], kind: type
) -> None:
    def filled(value: Any) -> Any:
        return value.format(**places) if isinstance(value, str) else value

    named = {name: filled(one) for name, one in kwargs.items()}
    with shared.client() as client:
        published = client.publish(JobCall("a", fun, arg=[*map(filled, args)], kwarg=named), follow=True)
        [reply] = client.watch(Progress(published, now=time.monotonic()), WaitPolicy(30))
    assert (reply.retcode, type(reply.value)) == (0, kind), reply.value
