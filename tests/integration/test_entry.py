"""The command `saltlite` as it is installed: the shell script, the path of modules, the end of the process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.fleet import install_command
from tests.integration.fakemaster import FakeMaster, good_job

ROOT = Path(__file__).resolve().parents[2]
VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
PACKAGES = next(Path(folder) for folder in sys.path if Path(folder, "msgpack/__init__.py").exists())
"""Where the requirements of saltlite are."""

KINDS = ("editable environment", "wheel environment", "wheel for a user", "wheel of the system")


class Installed:
    """An installation: the folder of commands and the folder of packages."""

    def __init__(self, prefix: Path, packages: str = "site-packages") -> None:
        self.command = prefix / "bin/saltlite"
        self.packages = prefix / "lib" / VERSION / packages

    def run(
        self, *words: object, cwd: str | Path = "/", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [self.command, *map(str, words)],
            cwd=cwd,
            env={**clean, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
        )


def environment(folder: Path) -> Installed:
    """An empty virtual environment in which the requirements of saltlite are found."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    made = Installed(folder)
    (made.packages / "requirements.pth").write_text(f"{PACKAGES}\n")
    return made


def pip(*words: object) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", *map(str, words), "--no-deps", "--no-index", "--quiet"], check=True, cwd=ROOT
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        check=True,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installations(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Installed]:
    """The command in every way that it is installed in, with the scripts that pip makes."""
    folder = tmp_path_factory.mktemp("installed")
    editable, of_wheel = environment(folder / "editable"), environment(folder / "wheel")
    pip("--python", of_wheel.command.with_name("python"), "install", "--no-compile", wheel)
    install_command(folder / "editable-command")
    for script in ("saltlite", "saltlite-cli"):
        shutil.copy(folder / "editable-command/bin" / script, editable.command.with_name(script))
    shebang = f"#!{editable.command.with_name('python')}\n"
    ordinary = editable.command.with_name("saltlite-cli")
    ordinary.write_text(shebang + ordinary.read_text().partition("\n")[2])
    shutil.copy(folder / "editable-command/lib" / VERSION / "site-packages/_saltlite.pth", editable.packages)
    for prefix in ("home/.local", "usr"):
        pip("install", "--no-compile", "--prefix", folder / prefix, "--ignore-installed", wheel)
    system = Installed(folder / "usr", "dist-packages")  # as Debian has it
    (folder / "usr/lib" / VERSION / "site-packages").rename(system.packages)
    return dict(zip(KINDS, (editable, of_wheel, Installed(folder / "home/.local"), system), strict=True))


@pytest.fixture(params=KINDS)
def installed(request: pytest.FixtureRequest, installations: dict[str, Installed]) -> Installed:
    return installations[request.param]


@pytest.fixture
def of_wheel(installations: dict[str, Installed]) -> Installed:
    return installations["wheel environment"]


def imported(done: subprocess.CompletedProcess[str]) -> set[str]:
    """The modules in the profile of imports that Python wrote to stderr."""
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


PROFILED = {"PYTHONPROFILEIMPORTTIME": "1"}


def test_a_job_runs_without_site_in_every_installation(installed: Installed, tmp_path: Path) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        done = installed.run("-c", master.config_dir, "*", "test.ping", env=PROFILED)
    assert done.returncode == 0, done.stderr
    assert "web1" in done.stdout
    assert "site" not in imported(done)


def test_the_command_has_the_interpreter_of_its_installation(installed: Installed) -> None:
    done = installed.run("-c", "/nowhere", "config", "check", "nothing")
    assert "saltlite" in done.stderr
    assert done.returncode == 2


def test_what_is_not_in_the_folder_of_packages_is_found_by_site(of_wheel: Installed, tmp_path: Path) -> None:
    (tmp_path / "master").write_text("root_dir: /srv/it\nnonsense: {a: &b 1, c: *b}\n")
    done = of_wheel.run("-c", tmp_path, "config", "check", "master", env=PROFILED)
    assert {"site", "yaml"} <= imported(done)
    assert "nonsense" in done.stdout + done.stderr


def test_a_module_that_exists_nowhere_is_not_found(of_wheel: Installed) -> None:
    program = (
        f"import sys; sys.path.append({str(ROOT)!r}); from saltlite.cli import start\n"
        "sys.meta_path.append(start.FullPath)\n"
        "try:\n import there_is_no_such_module\nexcept ModuleNotFoundError as error: print(error.name)\n"
        "print(start.FullPath in sys.meta_path, sys.prefix)"
    )
    python = of_wheel.command.with_name("python")
    done = subprocess.run([python, "-S", "-P", "-c", program], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.split() == ["there_is_no_such_module", "False", str(of_wheel.command.parent.parent)]


def test_no_module_of_the_current_folder_is_imported(installed: Installed, tmp_path: Path) -> None:
    for module in ("re", "os", "saltlite/__init__", "saltlite/cli/main", "msgpack", "site", "sitecustomize", "yaml"):
        hostile = tmp_path / f"{module}.py"
        hostile.parent.mkdir(parents=True, exist_ok=True)
        hostile.write_text("print('taken over')\n")
    for words in (["--version"], ["-c", tmp_path / "none", "*", "test.ping"], ["config", "check", "-c", tmp_path]):
        done = installed.run(*words, cwd=tmp_path)
        assert "saltlite" in done.stdout + done.stderr
        assert "taken over" not in done.stdout + done.stderr


def test_pythonpath_is_in_force_as_for_every_python_program(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "nt.py").write_text("")
    (tmp_path / "saltlite").mkdir()
    (tmp_path / "saltlite/__init__.py").write_text("print('mine'); raise SystemExit(9)\n")
    done = installed.run("--version", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (9, "mine\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize(("owner", "found"), [(0, True), (4321, False)])
def test_packages_in_the_home_of_another_user_are_not_imported(tmp_path: Path, owner: int, found: bool) -> None:
    """As for root after `sudo` with HOME kept, with the interpreter of the system."""
    theirs = tmp_path / ".local/lib" / VERSION / "site-packages"
    theirs.mkdir(parents=True)
    (theirs / "usercustomize.py").write_text("print('taken over')\n")
    (theirs / "hook.pth").write_text("import sys; print('taken over')\n")
    os.chown(theirs, owner, owner)
    program = (
        f"import sys; sys.path.append({str(ROOT)!r}); from saltlite.cli import start\n"
        "sys.meta_path.append(start.FullPath); start.complete_path()\n"
        "print(*sys.path)"
    )
    base = os.path.join(sys.base_prefix, "bin", VERSION)
    done = subprocess.run(
        [base, "-S", "-P", "-c", program], env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert ("taken over" in done.stdout, str(theirs) in done.stdout) == (found, found)


def test_a_link_to_the_command_runs_it(of_wheel: Installed, tmp_path: Path) -> None:
    link, link_of_link = tmp_path / "slt", tmp_path / "link"
    link.symlink_to(os.path.relpath(of_wheel.command, tmp_path))
    link_of_link.symlink_to("slt")
    for path in (link, link_of_link):
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, cwd="/")
        assert done.stdout.startswith("saltlite ")


def test_the_command_runs_by_a_relative_path_and_by_PATH(of_wheel: Installed) -> None:  # noqa: N802 - the variable
    folder = of_wheel.command.parent
    for words, path, cwd in (
        (["./saltlite", "--version"], "", folder),
        (["bin/saltlite", "--version"], "", folder.parent),
        (["sh", "-c", "saltlite --version"], f"{folder}:/usr/bin:/bin", Path("/")),
        (["sh", "-c", "saltlite --version"], ":/usr/bin:/bin", folder),
    ):
        done = subprocess.run(
            words, env={"PATH": path or os.environ["PATH"]}, cwd=cwd, capture_output=True, text=True, check=True
        )
        assert done.stdout.startswith("saltlite ")


@pytest.mark.parametrize(
    "first_lines",
    [
        "#!/usr/bin/env python3",
        "#!{python} -I",
        "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''",
        "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''",
    ],
)
def test_an_unusual_script_of_the_installer_is_run_itself(
    of_wheel: Installed, tmp_path: Path, first_lines: str
) -> None:
    """`env`, flags, and what pip and uv write where the path of the interpreter is long, has a space or may move."""
    bin_folder = tmp_path / "with a space"
    bin_folder.mkdir()
    (bin_folder / "python").symlink_to(of_wheel.command.with_name("python"))
    shutil.copy(of_wheel.command, bin_folder)
    ordinary = bin_folder / "saltlite-cli"
    python = str(of_wheel.command.with_name("python"))
    ordinary.write_text(first_lines.replace("{python}", python) + "\nimport sys; print('ordinary', *sys.argv[1:])\n")
    ordinary.chmod(0o755)
    done = subprocess.run([bin_folder / "saltlite", "a b", "*"], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout == "ordinary a b *\n"


def test_without_the_script_of_the_installer_the_command_says_what_is_missing(
    of_wheel: Installed, tmp_path: Path
) -> None:
    shutil.copy(of_wheel.command, tmp_path)
    done = subprocess.run([tmp_path / "saltlite", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode not in (0, 1)
    assert "saltlite-cli" in done.stderr


def test_the_links_of_the_installation_page_put_every_command_on_the_path(of_wheel: Installed, tmp_path: Path) -> None:
    page = (ROOT / "saltlite/docs/install.md").read_text()
    line = "ln -s /opt/saltlite/bin/saltlite* /usr/local/bin/\n"
    assert page.index(line) < page.index("# saltlite key token create --uses")
    here = line.replace("/opt/saltlite/bin", str(of_wheel.command.parent)).replace("/usr/local/bin", str(tmp_path))
    subprocess.run(["sh", "-c", here], check=True)
    for command in ("saltlite", "saltlite-key", "saltlite-call", "saltlite-run", "saltlite-master", "saltlite-minion"):
        done = subprocess.run(
            [command, "--help"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "usage: " in done.stdout) == (0, True), (command, done.stderr)


def test_words_reach_the_command_unchanged(of_wheel: Installed, tmp_path: Path) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        of_wheel.run("-c", master.config_dir, "*", "test.arg", "a  b", "$HOME", "*", "'\"\\", "\t", "", "ä=ü")
    [(_fun, arg, kwarg)] = master.requests[0]["calls"]
    assert arg == ["a  b", "$HOME", "*", "'\"\\", "\t", ""]
    assert kwarg == {"ä": "ü"}


def test_the_exit_code_and_the_whole_output_survive_the_quick_end(of_wheel: Installed, tmp_path: Path) -> None:
    (tmp_path / "master").write_text(f"root_dir: {tmp_path}\n")
    assert of_wheel.run("-c", tmp_path, "*", "test.ping").returncode == 7
    assert of_wheel.run("--nonsense").returncode == 2
    text = of_wheel.run("--help").stdout
    assert text == (ROOT / "tests/golden/cli/help.txt").read_text()


def test_a_closed_pipe_and_a_full_disk_are_reported_as_before(of_wheel: Installed) -> None:
    argv = [str(of_wheel.command), "--help"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "No space left" in done.stderr
    piped = ["sh", "-c", '"$0" --help | true', str(of_wheel.command)]
    assert subprocess.run(piped, stderr=subprocess.PIPE, text=True, check=True).stderr == ""
