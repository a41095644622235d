"""`pkg` of Debian on a root of the test's own: the real apt and dpkg, a repository of files, sources and keys."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import _packages
from tests.support.apt_roots import Package, build, make_root, publish

INDEX = build_index(search_layers({}))
GRAINS = {"os": "Debian", "os_family": "Debian", "osarch": "amd64", "oscodename": "bookworm"}
TINY = Package("slttiny", "1:1.0-1", {"usr/share/slttiny": "x"})
NEWER = Package("slttiny", "1:1.1-1", {"usr/share/slttiny": "y"})
OTHER = Package("sltother", "2.0", {"usr/share/sltother": "x"}, {"Depends": "slttiny", "Section": "misc"})

pytestmark = [
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="this machine has no apt"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can have dpkg install packages"),
]

ONE_LINE = """\
# The archive.
deb http://deb.debian.org/debian bookworm main contrib
deb-src http://deb.debian.org/debian bookworm main
# deb [arch=amd64,i386 signed-by=/k.gpg] https://x.org/apt/ stable main # by hand
# deb packages are nice
"""
DEB822 = """\
# Written by hand.
Types: deb deb-src
URIs: http://a.org/debian http://b.org/debian
Suites: sid
# The rest is too much.
Components: main
Architectures: amd64 arm64
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc

Types: deb
URIs: http://c.org
Suites: one two
Components: main extra
Enabled: no
"""
KEY = """
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEZ0AAABYJKwYBBAHaRw8BAQdA
-----END PGP PUBLIC KEY BLOCK-----
"""


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    """Call it with everything that its interface promises held against what it returns."""
    return call(Loader(INDEX, {"smi_returns": "strict"}, GRAINS, {}), fun, args, kwargs)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root whose only source has two packages."""
    line = publish(tmp_path / "repository", [TINY, OTHER])
    for name, value in make_root(tmp_path, line).items():
        monkeypatch.setenv(name, value)
    return tmp_path / "root"


@pytest.fixture
def sources(root: Path) -> Path:
    """The folder of the sources, filled with every form."""
    folder = root / "etc/apt"
    (folder / "sources.list").write_text(ONE_LINE)
    (folder / "sources.list.d/b.sources").write_text(DEB822)
    (folder / "sources.list.d/c.list").write_text("deb cdrom:[Debian 12 _Bookworm_]/ bookworm main\n")
    (folder / "sources.list.d/ignored.save").write_text("deb http://no.org x y\n")
    return folder


def test_a_package_goes_from_the_repository_to_the_root_and_away_again(root: Path, tmp_path: Path) -> None:
    assert True in run("pkg.refresh_db").value.values()
    assert run("pkg.latest_version", "slttiny", refresh=False).value == "1:1.0-1"
    both = {"slttiny": {"old": "", "new": "1:1.0-1"}, "sltother": {"old": "", "new": "2.0"}}
    assert run("pkg.install", "sltother", test=True).value == both
    assert run("pkg.list_pkgs").value == {}
    assert run("pkg.install", "sltother").value == both
    assert (root / "usr/share/slttiny").read_text() == "x"
    assert run("pkg.list_installed").value == {"slttiny": "1:1.0-1", "sltother": "2.0"}
    assert run("pkg.owner", "/usr/share/sltother").value == "sltother"

    publish(tmp_path / "repository", [NEWER, TINY, OTHER])
    assert run("pkg.list_upgrades").value == {"slttiny": "1:1.1-1"}
    assert run("pkg.list_repo_pkgs", "slt*").value == {"slttiny": ["1:1.1-1", "1:1.0-1"], "sltother": ["2.0"]}
    assert run("pkg.list_repo_pkgs").value["sltother"] == ["2.0"]
    assert run("pkg.list_repo_pkgs", "nosuch").value == {}
    assert run("pkg.upgrade").value == {"slttiny": {"old": "1:1.0-1", "new": "1:1.1-1"}}
    assert run("pkg.autoremove", list_only=True).value == []
    assert run("pkg.remove", "sltother").value == {"sltother": {"old": "2.0", "new": ""}}
    assert run("pkg.autoremove").value == {"slttiny": {"old": "1:1.1-1", "new": ""}}


def test_a_dry_run_tells_what_would_change_and_changes_nothing(root: Path, tmp_path: Path) -> None:
    run("pkg.refresh_db")
    run("pkg.install", "slttiny")
    publish(tmp_path / "repository", [NEWER, OTHER])
    run("pkg.refresh_db")
    newer = {"slttiny": {"old": "1:1.0-1", "new": "1:1.1-1"}}
    gone = {"slttiny": {"old": "1:1.0-1", "new": ""}}
    for fun, args, planned in (
        ("pkg.install", ["slttiny"], newer),
        ("pkg.upgrade", [], newer),
        ("pkg.remove", ["slttiny"], gone),
        ("pkg.purge", ["slttiny"], gone),
        ("pkg.autoremove", [], {}),
    ):
        assert run(fun, *args, test=True).value == planned
    assert run("pkg.list_pkgs").value == {"slttiny": "1:1.0-1"}


def test_a_changed_configuration_file_is_kept_without_asking(root: Path, tmp_path: Path) -> None:
    def version(number: str) -> str:
        files = {"etc/slt.conf": f"a = {number}\n", "DEBIAN/conffiles": "/etc/slt.conf\n"}
        return str(build(tmp_path, Package("slttiny", number, files)))

    run("pkg.install", sources=[version("1")])
    (root / "etc/slt.conf").write_text("a = mine\n")
    assert run("pkg.install", sources=[version("2")]).retcode == 0
    assert (root / "etc/slt.conf").read_text() == "a = mine\n"
    assert run("pkg.install", sources=[version("3")], force_conf_new=True).retcode == 0
    assert (root / "etc/slt.conf").read_text() == "a = 3\n"
    assert run("pkg.remove", "slttiny").value == {"slttiny": {"old": "3", "new": ""}}
    assert run("pkg.list_pkgs", removed=True).value == {"slttiny": "3"}
    assert run("pkg.purge", "slttiny").value == {"slttiny": {"old": "3", "new": ""}}


def test_what_package_lists_say_is_shown_field_by_field(root: Path) -> None:
    run("pkg.refresh_db")
    shown = run("pkg.show", "slt*").value
    assert set(shown) == {"slttiny", "sltother"}
    assert shown["sltother"]["2.0"]["Depends"] == "slttiny"
    assert shown["slttiny"]["1:1.0-1"]["Description"].endswith("\n It has: a colon in its second line.")
    assert run("pkg.show", "sltother", filter="SECTION").value == {"sltother": {"2.0": {"Section": "misc"}}}
    assert run("pkg.show", "nosuch").value == {}


def test_downloaded_packages_are_listed(root: Path, tmp_path: Path) -> None:
    path = build(root / "var/cache/apt/archives", TINY)
    row = run("pkg.list_downloaded").value["slttiny"]["1:1.0-1"]
    assert (row["path"], row["size"]) == (str(path), path.stat().st_size)
    assert row["creation_date_time_t"] == int(path.stat().st_ctime)


def test_selections_are_read_and_set(root: Path, tmp_path: Path) -> None:
    run("pkg.install", sources=[{"slttiny": str(build(tmp_path, TINY))}])
    hold = {"slttiny": {"old": "install", "new": "hold"}}
    planned = run("pkg.hold", "slttiny", test=True).value["slttiny"]
    assert (planned["result"], planned["changes"]) == (None, hold["slttiny"])
    assert run("pkg.set_selections", selection={"hold": ["slttiny"]}, test=True).value == hold
    assert run("pkg.get_selections").value == {"install": ["slttiny"]}
    assert run("pkg.set_selections", selection={"hold": ["slttiny"]}).value == hold
    assert run("pkg.get_selections", "slt*", state="hold").value == {"hold": ["slttiny"]}
    assert run("pkg.unhold", sources=[{"slttiny": "/x.deb"}]).value["slttiny"]["changes"]["new"] == "install"
    (tmp_path / "wanted").write_text("# mine\nslttiny\tpurge\n")
    assert run("pkg.set_selections", str(tmp_path / "wanted")).value == {"slttiny": {"old": "install", "new": "purge"}}


@pytest.mark.parametrize("fun", ["pkg.hold", "pkg.unhold"])
def test_to_hold_nothing_is_refused(root: Path, fun: str) -> None:
    said = run(fun)
    assert (said.retcode, said.value) == (1, f"ERROR executing '{fun}': Say which packages: name, pkgs or sources.")


@pytest.mark.parametrize("selection", [{"keep": ["x"]}, {"hold": "x"}, {"hold": ["x\nbash deinstall"]}, ["x"]])
def test_what_is_no_selection_is_refused(root: Path, selection: Any) -> None:
    assert run("pkg.set_selections", selection=selection).retcode == 1


def test_a_locked_database_is_said_with_who_holds_it(root: Path, tmp_path: Path) -> None:
    path = build(tmp_path, TINY)
    with (root / "var/lib/dpkg/lock-frontend").open("w") as stream:
        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for fun, kwargs in (
            ("pkg.install", {"sources": [str(path)]}),
            ("pkg.upgrade", {"refresh": False}),
            ("pkg.set_selections", {"selection": {"hold": ["slttiny"]}}),
        ):
            said = run(fun, **kwargs)
            assert (said.retcode, f"another package manager (process {os.getpid()}" in said.value) == (1, True)
    assert run("pkg.list_pkgs").value == {}


def test_what_dpkg_has_not_yet_merged_is_listed(root: Path) -> None:
    (root / "var/lib/dpkg/status").write_text(
        "Package: a\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n\n"
        "Package: a\nStatus: install ok installed\nArchitecture: i386\nVersion: 1\n\n"
        "Package: b\nStatus: deinstall ok config-files\nArchitecture: all\nVersion: 3\n"
    )
    new = "Package: a\nStatus: install ok triggers-pending\nArchitecture: amd64\nVersion: 2\n"
    (root / "var/lib/dpkg/updates/0001").write_text(new)
    (root / "var/lib/dpkg/updates/tmp.i").write_text("Package: half")
    assert run("pkg.list_pkgs").value == {"a": "2", "a:i386": "1"}
    assert run("pkg.list_pkgs", removed=True).value == {"b": "3"}


def test_a_database_that_cannot_be_read_is_an_error(root: Path) -> None:
    shutil.rmtree(root / "var/lib/dpkg")
    assert run("pkg.list_pkgs").value.startswith("ERROR: The dpkg database cannot be read: No such file or directory")


@pytest.mark.parametrize(
    ("name", "parsed", "plain"),
    [
        ("zsh:amd64", {"name": "zsh", "arch": "amd64"}, "zsh"),
        ("zsh:i386", {"name": "zsh", "arch": "i386"}, "zsh:i386"),
        ("zsh", {"name": "zsh", "arch": None}, "zsh"),
    ],
)
def test_names_are_taken_apart(name: str, parsed: dict[str, Any], plain: str) -> None:
    assert (run("pkg.parse_arch", name).value, run("pkg.normalize_name", name).value) == (parsed, plain)


def test_which_tells_no_file_from_no_package(root: Path, tmp_path: Path) -> None:
    run("pkg.install", sources=[str(build(tmp_path, Package("slttiny", "1", {"usr/bin/env": "x"})))])
    found = [run("pkg.which", path).value for path in ("/usr/bin/env", str(tmp_path), "/nowhere", "env")]
    assert found == ["slttiny", None, False, False]


def test_services_of_processes_with_replaced_files_are_named(tmp_path: Path) -> None:
    maps = "7f00-7f01 r-xp 00000000 08:01 12  /usr/lib/libssl.so.3 (deleted)\n"
    for pid, text, group in (
        ("1", maps, "0::/system.slice/ssh.service"),
        ("2", maps.replace(" (deleted)", ""), "0::/system.slice/cron.service"),
        ("3", maps.replace("/usr/lib/libssl.so.3", "/memfd:x"), "0::/system.slice/own.service"),
        ("4", maps, "0::/user.slice/user-0.slice/session-1.scope"),
    ):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "maps").write_text(text)
        (tmp_path / pid / "cgroup").write_text(f"{group}\n")
    (tmp_path / "5").mkdir()
    assert _packages.services_running_replaced_files(str(tmp_path)) == ["ssh"]
    assert isinstance(run("pkg.services_need_restart").value, list)


# --- sources


def test_sources_of_both_forms_are_listed_by_address(sources: Path) -> None:
    found = run("pkg.list_repos").value
    assert {address: len(rows) for address, rows in found.items()} == {
        "http://deb.debian.org/debian": 2,
        "https://x.org/apt/": 1,
        "http://a.org/debian": 2,
        "http://b.org/debian": 2,
        "http://c.org": 2,
        "cdrom:[Debian 12 _Bookworm_]/": 1,
    }
    assert found["https://x.org/apt/"][0] == {
        "file": str(sources / "sources.list"),
        "line": "# deb [arch=amd64,i386 signed-by=/k.gpg] https://x.org/apt/ stable main # by hand",
        "type": "deb",
        "types": ["deb"],
        "uri": "https://x.org/apt/",
        "uris": ["https://x.org/apt/"],
        "dist": "stable",
        "suites": ["stable"],
        "comps": ["main"],
        "architectures": ["amd64", "i386"],
        "signedby": "/k.gpg",
        "trusted": "",
        "disabled": True,
        "enabled": False,
    }
    assert set(run("pkg.list_repos", disabled=True).value) == {"https://x.org/apt/", "http://c.org"}
    assert found["http://b.org/debian"][1]["type"] == "deb-src"
    assert found["http://a.org/debian"][0]["signedby"].startswith("-----BEGIN PGP")


@pytest.mark.parametrize(
    ("repo", "comps"),
    [
        ("deb http://deb.debian.org/debian/ bookworm contrib", ["main", "contrib"]),
        ("deb http://deb.debian.org/debian bookworm", ["main", "contrib"]),
        ("deb http://b.org/debian sid main", ["main"]),
        ("deb http://c.org two extra", ["main", "extra"]),
        ("deb http://deb.debian.org/debian bookworm non-free", None),
        ("deb http://deb.debian.org/debian trixie main", None),
    ],
)
def test_one_source_is_found_by_its_line(sources: Path, repo: str, comps: list[str] | None) -> None:
    assert run("pkg.get_repo", repo).value.get("comps") == comps


def changed(path: Path, before: str) -> list[str]:
    """Lines that a file has more (`+`) or less (`-`) than before."""
    old, new = before.splitlines(), path.read_text().splitlines()
    return [f"-{line}" for line in old if line not in new] + [f"+{line}" for line in new if line not in old]


@pytest.mark.parametrize(
    ("repo", "kwargs", "file", "difference"),
    [
        (
            "deb http://deb.debian.org/debian bookworm main",
            {"comps": "main,non-free"},
            "sources.list",
            [
                "-deb http://deb.debian.org/debian bookworm main contrib",
                "+deb http://deb.debian.org/debian bookworm main non-free",
            ],
        ),
        (
            "deb https://x.org/apt stable main",
            {"enabled": True, "architectures": "amd64"},
            "sources.list",
            [
                "-# deb [arch=amd64,i386 signed-by=/k.gpg] https://x.org/apt/ stable main # by hand",
                "+deb [arch=amd64 signed-by=/k.gpg] https://x.org/apt/ stable main # by hand",
            ],
        ),
        (
            "deb http://new.org/x stable main",
            {"signedby": "/etc/apt/keyrings/new.asc", "comments": ["for", "us"]},
            "sources.list",
            ["+deb [signed-by=/etc/apt/keyrings/new.asc] http://new.org/x stable main # for us"],
        ),
        (
            "deb http://a.org/debian sid main",
            {"comps": ["main", "contrib"], "architectures": "arm64"},
            "sources.list.d/b.sources",
            [
                "-Components: main",
                "-Architectures: amd64 arm64",
                "+Components: main contrib",
                "+Architectures: arm64",
            ],
        ),
        (
            "deb http://c.org two main",
            {"enabled": True, "uri": "http://d.org", "comps": "main,extra"},
            "sources.list.d/b.sources",
            ["-URIs: http://c.org", "-Enabled: no", "+URIs: http://d.org"],
        ),
        (
            "deb http://new.org/x stable main",
            {"trusted": True, "file": "sources.list.d/new.sources"},
            "sources.list.d/new.sources",
            [
                "+Types: deb",
                "+URIs: http://new.org/x",
                "+Suites: stable",
                "+Components: main",
                "+Trusted: yes",
            ],
        ),
    ],
)
def test_a_source_is_changed_and_the_rest_of_its_file_is_not(
    sources: Path, repo: str, kwargs: dict[str, Any], file: str, difference: list[str]
) -> None:
    path = sources / file
    before = path.read_text() if path.exists() else ""
    given = {**kwargs, "file": str(path)} if "file" in kwargs else kwargs
    planned = run("pkg.mod_repo", repo, refresh=False, test=True, **given)
    assert (path.read_text() if path.exists() else "") == before
    done = run("pkg.mod_repo", repo, refresh=False, **given)
    assert done.value == planned.value
    assert list(done.value) == [repo]
    assert sorted(changed(path, before)) == sorted(difference)
    row = done.value[repo]
    assert row in run("pkg.list_repos").value[row["uri"]]
    again = path.read_text()
    if "uri" not in kwargs:
        run("pkg.mod_repo", repo, refresh=False, **given)
        assert path.read_text() == again


@pytest.mark.parametrize(
    ("repo", "file", "left"),
    [
        (
            "deb http://deb.debian.org/debian bookworm contrib",
            "sources.list",
            ONE_LINE.replace(" main contrib", " main"),
        ),
        (
            "deb-src http://deb.debian.org/debian bookworm main",
            "sources.list",
            ONE_LINE.replace("deb-src http://deb.debian.org/debian bookworm main\n", ""),
        ),
        ("deb http://c.org one", "sources.list.d/b.sources", DEB822.replace("one two", "two")),
        (
            "deb http://c.org two extra",
            "sources.list.d/b.sources",
            DEB822.replace("one two", "one")
            + "\nTypes: deb\nURIs: http://c.org\nSuites: two\nComponents: main\nEnabled: no\n",
        ),
        (
            "deb-src http://a.org/debian sid",
            "sources.list.d/b.sources",
            DEB822.replace("deb deb-src", "deb")
            + "\nTypes: deb-src\nURIs: http://b.org/debian\nSuites: sid\nComponents: main\n"
            "Architectures: amd64 arm64\nSigned-By:\n"
            + DEB822.partition("Signed-By:\n")[2].partition("\n\n")[0]
            + "\n",
        ),
    ],
)
def test_a_source_is_removed_and_the_rest_of_its_file_is_not(sources: Path, repo: str, file: str, left: str) -> None:
    before = (sources / file).read_text()
    assert run("pkg.del_repo", repo, refresh=False, test=True).retcode == 0
    assert (sources / file).read_text() == before
    assert run("pkg.del_repo", repo, refresh=False).value == f"Repo {repo} has been removed from {sources / file}."
    assert (sources / file).read_text() == left


def test_a_file_that_holds_no_other_source_goes_with_it(sources: Path) -> None:
    said = run("pkg.del_repo", "deb cdrom:[Debian 12 _Bookworm_]/ bookworm main", refresh=False)
    assert (said.retcode, (sources / "sources.list.d/c.list").exists()) == (0, False)


def test_removing_a_source_that_is_not_there_is_an_error(sources: Path) -> None:
    said = run("pkg.del_repo", "deb http://deb.debian.org/debian bookworm non-free")
    assert said.value.endswith("is in none of the source lists of this minion.")


@pytest.mark.parametrize(
    "repo",
    [
        "",
        "http://x.org stable main",
        "deb stable main",
        "deb http://x.org",
        "deb http://x.org stable main\ndeb http://evil.org stable main",
        "deb http://x.org stable \0",
        "# deb http://x.org stable main",
        "-o",
        "ppa:nobody",
    ],
)
@pytest.mark.parametrize("fun", ["pkg.get_repo", "pkg.mod_repo", "pkg.del_repo"])
def test_what_is_no_source_is_refused(sources: Path, fun: str, repo: str) -> None:
    said = run(fun, repo)
    assert (said.retcode, "is not a source" in said.value) == (1, True)
    assert (sources / "sources.list").read_text() == ONE_LINE


@pytest.mark.parametrize(
    "kwargs",
    [
        {"comments": "x\ndeb http://evil.org a b"},
        {"signedby": "/k\n"},
        {"comps": ["a b"]},
        {"file": "relative.list"},
        {"file": "/etc/passwd"},
        {"keyid": "0123ABCD"},
        {"colour": "red"},
    ],
)
def test_bad_words_about_a_source_change_nothing(sources: Path, kwargs: dict[str, Any]) -> None:
    assert run("pkg.mod_repo", "deb http://new.org/x stable main", **kwargs).retcode == 1
    assert (sources / "sources.list").read_text() == ONE_LINE


def test_a_source_list_that_cannot_be_written_is_as_it_was(sources: Path) -> None:
    full = ["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(sources)]
    if subprocess.run(full, check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        (sources / "sources.list").write_text(ONE_LINE)
        said = run("pkg.mod_repo", "deb http://new.org/x stable main", refresh=False)
        assert "sources.list cannot be written: No space left on device." in said.value
        assert (sources / "sources.list").read_text() == ONE_LINE
        assert os.listdir(sources) == ["sources.list"]
    finally:
        subprocess.run(["umount", str(sources)], check=True)


def test_a_ppa_is_a_source_of_the_minions_release(sources: Path) -> None:
    ubuntu = Loader(INDEX, {}, {**GRAINS, "os": "Ubuntu", "oscodename": "noble"}, {})
    made = call(ubuntu, "pkg.mod_repo", ("ppa:ondrej/php",), {"refresh": False}).value["ppa:ondrej/php"]
    assert made["line"] == "deb https://ppa.launchpadcontent.net/ondrej/php/ubuntu noble main"
    assert "is not a source" in run("pkg.mod_repo", "ppa:ondrej/php").value


def test_a_new_source_is_fetched_from_at_once(root: Path, tmp_path: Path) -> None:
    line = publish(tmp_path / "more", [Package("sltmore", "3", {}, {"Section": "misc"})])
    assert run("pkg.mod_repo", line, file=f"{root}/etc/apt/sources.list.d/more.list").retcode == 0
    assert run("pkg.latest_version", "sltmore", refresh=False).value == "3"
    assert run("pkg.del_repo", line).value.startswith("File ")
    assert run("pkg.latest_version", "sltmore", refresh=False).value == ""


def test_a_source_is_said_to_be_there_when_its_lists_cannot_be_fetched_now(root: Path) -> None:
    with (root / "var/lib/apt/lists/lock").open("w") as stream:
        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        said = run("pkg.mod_repo", "deb file:/nowhere ./")
    assert "deb file:/nowhere ./" in (root / "etc/apt/sources.list").read_text()
    begin = "ERROR: The sources were changed. The package database is locked by another package manager (process "
    assert (said.retcode, said.value.startswith(begin)) == (1, True)


# --- keys


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """A key of the test's own, in its two forms."""
    assert shutil.which("gpg"), "gpg is not installed: apt-get install gpg gpg-agent"
    home = tmp_path_factory.mktemp("gpg")
    home.chmod(0o700)
    gpg = ["gpg", "--batch", "--no-options", "--homedir", str(home)]
    made = ["--passphrase", "", "--quick-gen-key", "slt <slt@example.org>", "ed25519", "sign", "1y"]
    subprocess.run([*gpg, *made], check=True, capture_output=True)

    def export(form: str) -> bytes:
        options = ["--armor"] if form == "asc" else []
        return subprocess.run([*gpg, *options, "--export"], check=True, capture_output=True).stdout

    forms = {form: export(form) for form in ("asc", "gpg")}
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False, capture_output=True)
    return forms.__getitem__


def test_a_key_goes_through_its_whole_life(root: Path, tmp_path: Path, key: Callable[[str], bytes]) -> None:
    path = tmp_path / "slt.pub"
    path.write_bytes(key("asc"))
    assert run("pkg.get_repo_keys").value == {}
    assert run("pkg.add_repo_key", str(path)).value is True
    assert (root / "etc/apt/trusted.gpg.d/slt.asc").stat().st_mode & 0o777 == 0o644
    ((keyid, row),) = run("pkg.get_repo_keys").value.items()
    assert (row["uid"], row["fingerprint"][-16:]) == ("slt <slt@example.org>", keyid)
    assert run("pkg.del_repo_key", keyid="01234567").retcode == 1
    assert run("pkg.del_repo_key", keyid=keyid[-8:]).value == keyid[-8:]
    assert run("pkg.get_repo_keys").value == {}


def test_a_key_in_two_files_is_not_trusted_any_more_once_it_is_removed(root: Path, key: Callable[[str], bytes]) -> None:
    folder = root / "etc/apt/trusted.gpg.d"
    for name in ("a.asc", "b.asc"):
        (folder / name).write_bytes(key("asc"))
    (keyid,) = run("pkg.get_repo_keys").value
    assert run("pkg.del_repo_key", keyid=keyid).value == keyid
    assert list(folder.iterdir()) == []


def test_a_key_in_the_one_file_of_old_is_listed_and_removed(root: Path, key: Callable[[str], bytes]) -> None:
    old = root / "etc/apt/trusted.gpg"
    old.write_bytes(key("gpg"))
    ((keyid, row),) = run("pkg.get_repo_keys").value.items()
    assert row["file"] == str(old)
    assert run("pkg.get_repo_keys", aptkey=False).value == {}
    assert run("pkg.del_repo_key", keyid=keyid).value == keyid
    assert run("pkg.get_repo_keys").value == {}


def test_the_form_of_a_key_is_that_of_its_file(root: Path, tmp_path: Path, key: Callable[[str], bytes]) -> None:
    place = {"aptkey": False, "keydir": str(tmp_path / "keys"), "keyfile": "a.gpg"}
    assert run("pkg.add_repo_key", text=key("asc").decode(), **place).value is True
    assert (tmp_path / "keys/a.gpg").read_bytes() == key("gpg")
    assert len(run("pkg.get_repo_keys", aptkey=False, keydir=str(tmp_path / "keys")).value) == 1


def test_a_source_brings_its_key(sources: Path, tmp_path: Path, key: Callable[[str], bytes]) -> None:
    repo = f"deb [signed-by={tmp_path}/keys/x.asc] http://new.org/x stable main"
    assert run("pkg.mod_repo", repo, key_text=key("asc").decode(), refresh=False).value[repo]["dist"] == "stable"
    assert (tmp_path / "keys/x.asc").read_bytes().strip() == key("asc").strip()


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"text": KEY, "path": "/x"},
        {"path": "/nowhere.asc"},
        {"text": "no key"},
        {"text": KEY, "keyfile": "../x.asc"},
        {"text": KEY, "keyfile": "x.txt"},
        {"keyserver": "k.org", "keyid": "-x"},
        {"text": KEY, "keydir": "relative"},
    ],
)
def test_what_is_no_key_is_refused(root: Path, kwargs: dict[str, Any]) -> None:
    assert run("pkg.add_repo_key", **kwargs).retcode == 1
    assert os.listdir(root / "etc/apt/trusted.gpg.d") == []


def test_the_provider_has_all_that_the_interface_promises_for_debian() -> None:
    report = run("smi.conformance", "pkg").value["pkg"]
    assert (report["provider"], report["errors"], report["warnings"]) == ("aptpkg", 0, 0)
    assert {name for name, one in report["functions"].items() if one["state"] == "not_implemented"} == set()
