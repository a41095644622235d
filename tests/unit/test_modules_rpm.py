"""What dnf5, dnf and yum print, and what they are asked, by recorded cases: one file each in `tests/data`."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from saltlite.loader.call import call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import _packages, _rpm
from saltlite.plugins.modules.yumpkg import dnf

DATA = Path(__file__).parents[1] / "data"
READERS = {
    "list": lambda text: [list(row) for row in dnf.read_list(text, "x86_64")],
    "plan": lambda text: dnf.read_plan(text, "x86_64"),
    "groups": dnf.read_groups,
    "group": dnf.read_group,
    "advisories": dnf.read_advisories,
}
GRAINS = {"os": "CentOS", "os_family": "RedHat", "osarch": "x86_64", "kernel": "Linux"}


@pytest.mark.parametrize("path", sorted(DATA.glob("rpm_outputs/*.json")), ids=lambda path: path.stem)
def test_recorded_output_is_read(path: Path) -> None:
    case = json.loads(path.read_text())
    assert READERS[case["reader"]]("\n".join(case["text"]) + "\n") == case["expect"]


@pytest.mark.parametrize("path", sorted(DATA.glob("rpm_calls/*.json")), ids=lambda path: path.stem)
def test_recorded_call_asks_the_program_so_and_gives(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = json.loads(path.read_text())
    left = list(case["answers"])

    def run(argv: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        del env
        answer = left.pop(0)
        assert list(argv) == answer["argv"]
        return subprocess.CompletedProcess(list(argv), answer["retcode"], answer["stdout"], answer["stderr"])

    monkeypatch.setattr(_packages, "run", run)
    installed = {case["program"], "rpm"}
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}" if name in installed else None)
    opts = {"providers": {"pkg": "yumpkg"}, "smi_returns": "strict"}
    outcome = call(Loader(build_index(search_layers({})), opts, GRAINS, {}), case["fun"], case["args"], case["kwargs"])
    assert (outcome.value, outcome.retcode, left) == (case["value"], case["retcode"], [])


LOCKS_OF_DNF5 = """
version = "1.0"

[[packages]]
name = "bash"
comment = "Added by 'versionlock add' command"
[[packages.conditions]]
key = "evr"
comparator = "="
value = "5.2.37-1.fc41"

[[packages]]
name = "kernel"
[[packages.conditions]]
key = "evr"
comparator = "<"
value = "6.12"
"""


def test_dnf5_has_its_locks_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc/dnf").mkdir(parents=True)
    (tmp_path / "etc/dnf/versionlock.toml").write_text(LOCKS_OF_DNF5)
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}" if name in {"dnf5", "rpm"} else None)
    loader = Loader(build_index(search_layers({})), {"providers": {"pkg": "yumpkg"}}, GRAINS, {})
    assert call(loader, "pkg.list_holds", [], {"root": str(tmp_path)}).value == ["bash-0:5.2.37-1.fc41.*"]


@pytest.mark.parametrize(
    ("name", "arch", "native", "shown"),
    [
        ("zlib", "x86_64", "x86_64", "zlib"),
        ("zlib", "noarch", "x86_64", "zlib"),
        ("zlib", "i686", "x86_64", "zlib.i686"),
        ("zlib", "i686", "i386", "zlib"),
        ("zlib", "x86_64_v2", "x86_64", "zlib"),
        ("zlib", "armv6hl", "armv7hl", "zlib"),
        ("gpg-pubkey", "(none)", "x86_64", "gpg-pubkey"),
    ],
)
def test_a_foreign_architecture_stands_behind_the_name(name: str, arch: str, native: str, shown: str) -> None:
    assert _rpm.shown_name(name, arch, native) == shown


@pytest.mark.parametrize(
    ("name", "bare"),
    [("zsh.x86_64", "zsh"), ("zsh.noarch", "zsh"), ("zsh.i686", "zsh.i686"), ("python3.11", "python3.11")],
)
def test_an_architecture_that_goes_without_saying_is_left_out(name: str, bare: str) -> None:
    assert _rpm.normalised(name, "x86_64") == bare


def test_several_versions_of_a_package_are_parted_by_commas() -> None:
    kernels = [_rpm.Package("kernel", None, "5.14.0", f"{release}.el9", "x86_64", 1) for release in (427, 70)]
    keys = [_rpm.Package("gpg-pubkey", None, name, "4ae0493b", "(none)", None) for name in ("fd431d51", "5a6340b3")]
    found = _rpm.list_pkgs({"kernel": kernels, "gpg-pubkey": keys}, False, None)
    assert found == {"kernel": "5.14.0-427.el9,5.14.0-70.el9", "gpg-pubkey": "5a6340b3-4ae0493b,fd431d51-4ae0493b"}


def test_attributes_are_given_for_each_version() -> None:
    bind = _rpm.Package("bind", "32", "9.16.23", "18.el9", "x86_64", 0)
    found = _rpm.list_pkgs({"bind": [bind]}, False, "epoch,version,install_date")
    assert found == {"bind": [{"epoch": "32", "version": "9.16.23", "install_date": "1970-01-01T00:00:00Z"}]}


def test_the_providers_offer_the_functions_of_their_shared_file() -> None:
    texts = {file.stem: file.texts for file in build_index(search_layers({})).files}
    for stem in ("yumpkg", "zypperpkg"):
        assert (
            "verify(*names:str,ignore_types:str|list|None=None,verify_options:str|list|None=None,root:str|None=None)"
            in texts[stem]
        )
