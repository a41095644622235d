"""`pip` with the real pip, a virtualenv of the test's own and wheels built here: nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pip
import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import pip as pip_functions

INDEX = build_index(search_layers({}))
NO_NAMES = ["-r/etc/passwd", "--index-url=http://evil.org", "a\nb", "a\0b", "\x1b[1m"]


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {}, {}, {}), fun, args, kwargs)


def wheel(folder: Path, name: str, version: str) -> Path:
    """Write a wheel with one module."""
    module, about = name.lower(), f"{name}-{version}.dist-info"
    files = {
        f"{module}.py": f"VERSION = {version!r}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {path: hashlib.sha256(text.encode()).digest() for path, text in files.items()}
    rows = [
        f"{path},sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')},{len(files[path])}"
        for path, digest in digests.items()
    ]
    files[f"{about}/RECORD"] = "\n".join([*rows, f"{about}/RECORD,,"]) + "\n"
    made = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return made


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "1.1", "2.0rc1"):
        wheel(folder, "Slt_Tiny", version)
    wheel(folder, "sltother", "0.5")
    return folder


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtualenv with nothing in it but the pip that runs these tests, which is borrowed."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
    borrowed = folder / "borrowed"
    borrowed.mkdir()
    (borrowed / "pip").symlink_to(Path(pip.__file__).parent)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "borrowed.pth").write_text(f"{borrowed}\n")
    return folder


@pytest.fixture
def venv(empty: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The virtualenv, whose pip knows the wheels of the test and no index; what is installed goes again."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    yield str(empty)
    (site,) = empty.glob("lib/python3*/site-packages")
    for path in site.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.suffix != ".pth":
            path.unlink()


@pytest.fixture
def program() -> Iterator[Path]:
    """A pip that tells who runs it, where and with which words; everybody may run it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "pip"
        path.write_text(
            '#!/bin/sh\n[ "$1" = --version ] && echo "pip $(id -un):$PWD" || echo "$* $PIP_INDEX_URL $PIP_PROXY"\n'
        )
        path.chmod(0o755)
        yield path


def test_a_package_goes_through_its_whole_life(venv: str, tmp_path: Path) -> None:
    at = {"bin_env": venv}
    planned = run("pip.install", "Slt_Tiny==1.0", test=True, **at)
    assert (planned.retcode, "Would install Slt_Tiny-1.0" in planned.value["stdout"]) == (0, True)
    done = run("pip.install", "Slt_Tiny==1.0,sltother", **at).value
    assert (done["retcode"], set(done)) == (0, {"pid", "retcode", "stdout", "stderr"})
    assert sorted(run("pip.freeze", **at).value) == ["Slt_Tiny==1.0", "sltother==0.5"]
    planned = run("pip.upgrade", test=True, **at).value
    assert planned["changes"] == {"Slt_Tiny": {"old": "1.0", "new": "1.1"}}
    upgraded = run("pip.upgrade", **at).value
    assert (upgraded["result"], upgraded["changes"]) == (True, {"slt-tiny": {"old": "1.0", "new": "1.1"}})
    assert run("pip.uninstall", "slt.tiny", test=True, **at).value["stdout"] == "Would uninstall slt-tiny-1.1"
    (tmp_path / "gone.txt").write_text("Slt_Tiny\nsltother\n")
    assert run("pip.uninstall", requirements=str(tmp_path / "gone.txt"), **at).retcode == 0
    assert run("pip.list", **at).value == {}


@pytest.mark.parametrize(
    ("fun", "args", "value"),
    [
        ("list", (), {"slt-tiny": "1.0", "slt-other": "0.5", "z": "1"}),
        ("list", ("SLT.t",), {"slt-tiny": "1.0"}),
        ("is_installed", ("SLT-tiny",), True),
        ("is_installed", ("slt",), False),
        ("list_upgrades", (), {"Slt_Tiny": "1.1 [wheel]"}),
        ("upgrade_available", ("slt.tiny",), True),
        ("upgrade_available", ("slt-other",), False),
    ],
)
def test_names_are_compared_as_indexes_do(program: Path, fun: str, args: tuple[str, ...], value: Any) -> None:
    rows = [{"name": "Slt_Tiny", "version": "1.0", "latest_version": "1.1", "latest_filetype": "wheel"}]
    more = [{"name": "slt.other", "version": "0.5"}, {"name": "z", "version": "1"}]
    outdated, every = json.dumps(rows), json.dumps(rows + more)
    program.write_text(f"#!/bin/sh\n[ \"$2\" = --outdated ] && echo '{outdated}' || echo '{every}'\n")
    assert run(f"pip.{fun}", *args, bin_env=str(program)).value == value


def test_versions_of_the_index_are_listed_from_old_to_new(venv: str) -> None:
    assert run("pip.list_all_versions", "slt-tiny", bin_env=venv).value == ["1.0", "1.1"]
    every = run("pip.list_all_versions", "slt-tiny", bin_env=venv, include_rc=True)
    assert every == Outcome(["1.0", "1.1", "2.0rc1"], 0)
    assert run("pip.list_all_versions", "nosuch-slt", bin_env=venv) == Outcome(None, 0)


OLD_PIP = """\
#!/bin/sh
case "$*" in
index*) echo 'ERROR: unknown command "index"' >&2; exit 1 ;;
*nosuch*) echo 'ERROR: Could not find a version that satisfies nosuch==versions (from versions: none)' >&2; exit 1 ;;
*broken*) echo 'ERROR: no network' >&2; exit 1 ;;
esac
echo "$*" >>"$0.log"
case "$*" in
*FLAG*) echo 'ERROR: Could not find a version that satisfies it (from versions: 1.0, 1.1, 2.0rc1)' >&2; exit 1 ;;
*) echo 'ERROR: Could not find a version that satisfies it' >&2; exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("install", ["install -- slt-tiny==versions"]),
        (
            "--use-deprecated=legacy-resolver",
            ["install -- slt-tiny==versions", "install --use-deprecated=legacy-resolver -- slt-tiny==versions"],
        ),
    ],
)
def test_versions_of_the_index_are_listed_by_old_versions_of_pip(tmp_path: Path, flag: str, words: list[str]) -> None:
    old = tmp_path / "pip"
    old.write_text(OLD_PIP.replace("FLAG", flag))
    old.chmod(0o755)
    at = {"bin_env": str(old)}
    assert run("pip.list_all_versions", "slt-tiny", **at) == Outcome(["1.0", "1.1"], 0)
    assert Path(f"{old}.log").read_text().splitlines() == words
    assert run("pip.list_all_versions", "slt-tiny", include_rc=True, **at).value == ["1.0", "1.1", "2.0rc1"]
    assert run("pip.list_all_versions", "nosuch", **at) == Outcome(None, 0)
    assert "no network" in run("pip.list_all_versions", "broken", **at).value


def test_options_of_an_installation_reach_pip(venv: str, wheels: Path, tmp_path: Path) -> None:
    (tmp_path / "wanted.txt").write_text("Slt_Tiny>=1.0,<1.1\n")
    done = run(
        "pip.install",
        requirements=[str(tmp_path / "wanted.txt")],
        bin_env=f"{venv}/bin/python",
        target=str(tmp_path / "target"),
        find_links=[str(wheels)],
        no_deps=True,
        env_vars={"PIP_QUIET": 3},
        extra_args=["--no-compile", {"--progress-bar": "off"}],
    )
    assert (done.retcode, done.value["stdout"]) == (0, "")
    assert (tmp_path / "target/slt_tiny.py").read_text() == "VERSION = '1.0'\n"


def test_a_virtualenv_may_be_named_by_its_folder_of_programs(venv: str) -> None:
    for place in (f"{venv}/bin", f"{venv}/bin/", Path(venv, "bin")):
        assert run("pip.list_all_versions", "slt-tiny", bin_env=place).value == ["1.0", "1.1"]
        assert run("pip.list", bin_env=place) == run("pip.list", bin_env=venv)
    assert [pip_functions._virtualenv(place) for place in ("/bin", "/srv/bin/")] == ["/", "/srv"]


def test_a_failure_is_pips_own_words_and_a_return_code(venv: str) -> None:
    done = run("pip.install", "nosuch-slt", bin_env=venv)
    assert (done.retcode, done.value["retcode"]) == (1, 1)
    assert "No matching distribution found for nosuch-slt" in done.value["stderr"]


def test_no_module_of_the_folder_where_pip_runs_is_imported(venv: str, tmp_path: Path) -> None:
    for name in ("pip", "json", "runpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'pwned')!r}, 'w')\nraise SystemExit(3)\n")
    assert run("pip.list", bin_env=venv, cwd=str(tmp_path)).retcode == 0
    assert not (tmp_path / "pwned").exists()


def test_no_password_of_a_packages_address_is_logged(program: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    run("pip.install", "git+https://me:sesame@x.invalid/a", bin_env=str(program))
    assert "sesame" not in caplog.text


def test_commas_of_a_version_are_written_as_semicolons(program: Path) -> None:
    done = run("pip.install", "a>=0.5;<1.1,b", bin_env=str(program))
    assert done.value["stdout"].split() == ["install", "--", "a>=0.5,<1.1", "b"]


def test_nothing_to_do_is_no_failure(venv: str) -> None:
    assert run("pip.install", bin_env=venv).value == {"retcode": 0, "stdout": "No packages to install."}


def test_the_version_is_that_of_the_chosen_pip(venv: str) -> None:
    assert run("pip.version", bin_env=venv).value == pip.__version__
    assert run("pip.version").value == pip.__version__


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_pip_runs_as_the_user_and_in_the_folder_that_are_asked_for(program: Path) -> None:
    assert run("pip.version", bin_env=str(program), user="nobody", cwd="/usr").value == "nobody:/usr"


def test_passwords_in_addresses_stay_out_of_the_command_line(program: Path) -> None:
    index, proxy = "https://me:secret@x.org/simple", "http://me:hidden@proxy.org"
    done = run("pip.install", "a", bin_env=str(program), index_url=index, proxy=proxy)
    assert done.value["stdout"] == f"install -- a {index} {proxy}"


@pytest.mark.parametrize("name", NO_NAMES)
@pytest.mark.parametrize("fun", ["install", "uninstall", "is_installed", "upgrade_available", "list_all_versions"])
def test_what_is_no_package_is_refused_before_anything_runs(program: Path, fun: str, name: str) -> None:
    names = [name] if fun.endswith("install") else name
    outcome = run(f"pip.{fun}", names, bin_env=str(program))
    assert (outcome.retcode, "is not the name of a package" in outcome.value) == (1, True)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"requirements": "-x"},
        {"editable": "--evil"},
        {"target": "-t"},
        {"find_links": "-x"},
        {"index_url": "-x"},
        {"user": "-x"},
        {"bin_env": "relative/venv"},
        {"bin_env": "/nowhere/at/all"},
        {"bin_env": "/usr/share"},
        {"mirrors": "x"},
        {"no_index": True, "index_url": "https://x.org"},
    ],
)
def test_what_cannot_be_meant_is_refused(program: Path, kwargs: dict[str, Any]) -> None:
    said = run("pip.install", ["a"], **{"bin_env": str(program), **kwargs})
    assert (said.retcode, type(said.value)) == (1, str)


@pytest.mark.parametrize(("name", "plain"), [("requests_ntlm", "requests-ntlm"), ("A..b-_C", "a-b-c")])
def test_names_are_normalized_as_indexes_do(name: str, plain: str) -> None:
    assert run("pip.normalize", name).value == plain


def test_an_answer_that_is_no_list_is_said(program: Path) -> None:
    assert run("pip.list", bin_env=str(program)).value.startswith("ERROR: pip did not print a list of packages")


def test_a_python_without_pip_is_said(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True, capture_output=True)
    said = run("pip.list", bin_env=str(tmp_path)).value
    assert f"pip (there is none for {tmp_path})" in said
