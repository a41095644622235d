"""The completion scripts in real shells, as a person at a terminal drives them."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.completion import is_plain
from saltlite.cli.verbs.completion import SCRIPTS
from tests.integration.fakemaster import FakeMaster, Step
from tests.support.fleet import WAIT_S, wait_until

BIN = Path(sys.executable).parent
HOSTILE = [
    "$(touch PWNED)",
    "`touch PWNED`",
    "a;touch PWNED;b",
    "a\ntouch PWNED\n",
    "a|touch PWNED",
    "-E",
    "--out-file",
    "a b",
    "'a",
    '"a',
    "a\x1b]0;x\x07",
    "a>PWNED",
    "~root",
    "*",
    "{a,b}",
    "!!",
    "web1$(touch PWNED)",
    "web1\\",
    "a=b=",
    ":files",
    "",
    "w\u0435b1",
]
WORDS = {
    "target": ["web1", "web2", "dummy:d1", "dummy:d2"],
    "function": ["test.ping", "test.arg"],
    "argument": ["name=", "refresh="],
    "key": ["web3"],
    "jid": ["20260131235959123456"],
}


def _answer(request: dict[str, Any]) -> Iterable[Step]:
    words = [word for word in WORDS[request["kind"]] if word.startswith(request["prefix"])]
    yield {"ok": True, "words": [*HOSTILE, *words]}


def _environment(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SALTLITE", "BASH", "ZDOTDIR"))}
    return kept | {
        "PATH": f"{BIN}:{kept['PATH']}",
        "HOME": str(folder),
        "TERM": "dumb",
        "PS1": "READY> ",
        "LC_ALL": "C",
    }


def _asked(folder: Path, *words: str) -> list[str]:
    done = subprocess.run(
        [BIN / "saltlite", "__complete", "--", *words],
        env=_environment(folder),
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    assert done.stderr == ""
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, argv: list[str], folder: Path) -> None:
        self._fd, other = pty.openpty()
        # `setsid` makes it the terminal of the shell, which then works as it does for a person.
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *argv], stdin=other, stdout=other, stderr=other, cwd=folder, env=_environment(folder)
        )
        os.close(other)
        self._seen = ""

    def until(self, text: str) -> str:
        """Everything that was written up to and with `text`."""
        deadline = time.monotonic() + WAIT_S
        while text not in self._seen:
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self._fd], [], [], left)[0]
            assert ready, f"no {text!r} in {self._seen!r}"
            self._seen += os.read(self._fd, 4096).decode(errors="replace")
        before, _, self._seen = self._seen.partition(text)
        return before

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def close(self) -> None:
        os.close(self._fd)
        self._process.kill()
        self._process.wait(WAIT_S)


def _bash(folder: Path, script: str, line: str) -> list[str]:
    """What bash would insert for `line`, by its own cutting of the line into words."""
    terminal = Terminal(["/bin/bash", "--norc", "--noprofile", "-i"], folder)
    try:
        (folder / "script").write_text(script)
        # A key that shows what was found, so that nothing depends on how readline draws.
        (folder / "show").write_text(
            'show() { _saltlite "$@"; { printf \'%s\\n\' "${COMPREPLY[@]}"; echo END; } > shown; COMPREPLY=(); }\n'
            "complete -o nosort -F show saltlite saltlite-key\n"
        )
        terminal.type("source ./script; source ./show; echo SOUR''CED\n")
        terminal.until("SOURCED")
        terminal.type(f"{line}\t")
        shown = folder / "shown"
        wait_until(lambda: shown.exists() and shown.read_text().endswith("END\n"), "bash completes")
        return [word for word in shown.read_text().splitlines()[:-1] if word]
    finally:
        terminal.close()


CASES = [
    ("saltlite key acc", ["accept"]),
    ("saltlite web", ["web1", "web2"]),
    ("saltlite dum", ["dummy:d1", "dummy:d2"]),
    ("saltlite web1 test.p", ["test.ping"]),
    ("saltlite web1 pkg.install re", ["refresh="]),
    ("saltlite key accept web", ["web3"]),
    ("saltlite-key accept web", ["web3"]),
    ("saltlite-key acc", ["accept"]),
    ("saltlite-key --accept-", ["--accept-all"]),
    ("saltlite-key -a web", ["web3"]),
    ("saltlite-key -y -d db1,web", ["db1,web3"]),
    ("saltlite job kill 2026", ["20260131235959123456"]),
    ("saltlite -q 'web", ["web1", "web2"]),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def _with_config(line: str, folder: Path) -> str:
    program, _, rest = line.partition(" ")
    return f"{program} -c {folder} {rest}"


@pytest.mark.parametrize(("line", "words"), CASES)
def test_bash_completes(line: str, words: list[str], folder: Path) -> None:
    with FakeMaster(folder, _answer):
        assert _bash(folder, SCRIPTS["bash"], _with_config(line, folder)) == words


@pytest.mark.parametrize(
    ("line", "words"),
    [("saltlite --out=ya", ["yaml"]), ("saltlite key list --out=", ["text", "json"]), ("saltlite --out ya", ["yaml"])],
)
def test_bash_gets_the_part_behind_the_equals_sign(line: str, words: list[str], folder: Path) -> None:
    assert _bash(folder, SCRIPTS["bash"], line) == words


def test_bash_gets_the_part_behind_the_colon_of_an_srn(folder: Path) -> None:
    with FakeMaster(folder, _answer):
        assert _bash(folder, SCRIPTS["bash"], _with_config("saltlite dummy:d", folder)) == ["d1", "d2"]


def test_bash_inserts_the_word_on_the_line(folder: Path) -> None:
    with FakeMaster(folder, _answer):
        terminal = Terminal(["/bin/bash", "--norc", "--noprofile", "-i"], folder)
        try:
            (folder / "script").write_text(SCRIPTS["bash"])
            terminal.type("source ./script; echo SOUR''CED\n")
            terminal.until("SOURCED")
            terminal.type(f"saltlite -c {folder} web1 test.p\t")
            terminal.until("test.ping")
        finally:
            terminal.close()


def test_bash_takes_the_script_without_a_warning(folder: Path) -> None:
    (folder / "script").write_text(SCRIPTS["bash"])
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", "source ./script; complete -p saltlite"],
        cwd=folder, capture_output=True, text=True, check=True, timeout=WAIT_S,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("complete -o nosort -F _saltlite saltlite\n", "")


@pytest.mark.parametrize("place", [["web"], ["web1", "t"], ["web1", "test.arg", "n"], ["key", "accept", ""]])
def test_no_word_from_the_network_means_anything_to_a_shell(place: list[str], folder: Path) -> None:
    with FakeMaster(folder, _answer):
        asked = _asked(folder, "-c", str(folder), *place)
    assert asked
    assert not set(HOSTILE) & set(asked)
    for word in asked:
        assert word.startswith(":") or (shlex.quote(word) == word or word.rstrip("=") == shlex.quote(word.rstrip("=")))


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_words_are_dropped(word: str) -> None:
    assert not is_plain(word)


def test_hostile_words_do_nothing_in_bash(folder: Path) -> None:
    with FakeMaster(folder, _answer):
        assert _bash(folder, SCRIPTS["bash"], f"saltlite -c {folder} ") != []
    assert not (folder / "PWNED").exists()


def test_a_begun_word_is_never_run(folder: Path) -> None:
    with FakeMaster(folder, _answer):
        _bash(folder, SCRIPTS["bash"], f"saltlite -c {folder} $(touch PWNED) web")
    assert not (folder / "PWNED").exists()


def test_without_a_master_there_are_the_words_that_are_known_anyway(folder: Path) -> None:
    (folder / "master").write_text(f"sock_dir: {folder}\n")
    assert _asked(folder, "-c", str(folder), "k") == ["key"]
    assert _asked(folder, "-c", str(folder), "web1", "test.") == []


def test_a_master_that_hangs_is_not_waited_for(folder: Path) -> None:
    def hang(_request: dict[str, Any]) -> Iterable[Step]:
        return ()

    with FakeMaster(folder, hang):
        began = time.monotonic()
        assert _asked(folder, "-c", str(folder), "k") == ["key"]
        assert time.monotonic() - began < WAIT_S / 2


def test_a_configuration_with_mistakes_is_no_reason_to_disturb(folder: Path) -> None:
    (folder / "master").write_text("sock_dir: [1\n")
    assert _asked(folder, "-c", str(folder), "k") == ["key"]


def test_a_configuration_that_only_yaml_can_read_leads_to_the_master_too(folder: Path) -> None:
    with FakeMaster(folder, _answer):
        (folder / "master").write_text(f"{{sock_dir: '{folder}'}}\n")
        assert _asked(folder, "-c", str(folder), "web1", "test.p") == ["test.ping"]


# -- zsh and fish: their own way of quoting keeps what they insert harmless; the words are those of bash


def _need(shell: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed here (Debian package {shell})")
    return path


@pytest.mark.parametrize(("line", "words"), CASES)
def test_fish_completes(line: str, words: list[str], folder: Path) -> None:
    fish = _need("fish")
    (folder / "script").write_text(SCRIPTS["fish"])
    with FakeMaster(folder, _answer):
        done = subprocess.run(
            [fish, "--no-config", "-c", "source ./script; complete -C $argv[1]", _with_config(line, folder)],
            cwd=folder,
            env=_environment(folder),
            capture_output=True,
            text=True,
            check=True,
            timeout=WAIT_S,
        )
    assert done.stderr == ""
    assert [row.partition("\t")[0].lstrip("'") for row in done.stdout.splitlines()] == words


def _zsh(folder: Path, line: str, wanted: str) -> None:
    """Type the line and the tab key; returns when `wanted` is on the screen."""
    terminal = Terminal([_need("zsh"), "-f", "-i"], folder)
    try:
        (folder / "script").write_text(SCRIPTS["zsh"])
        terminal.type("autoload -U compinit; compinit -D -u; source ./script; print SOUR''CED\n")
        terminal.until("SOURCED")
        terminal.type(f"{line}\t")
        terminal.until(wanted)
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("saltlite key acc", "accept"),
        ("saltlite web", "web2"),
        ("saltlite web1 test.p", "test.ping"),
        ("saltlite web1 pkg.install re", "refresh="),
        ("saltlite-key accept we", "web3"),
        ("saltlite --out=ya", "--out=yaml"),
        ("saltlite job kill 2026", "20260131235959123456"),
    ],
)
def test_zsh_completes(line: str, wanted: str, folder: Path) -> None:
    with FakeMaster(folder, _answer):
        _zsh(folder, _with_config(line, folder), wanted)
    assert not (folder / "PWNED").exists()


@pytest.mark.parametrize(("shell", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "-n")])
def test_the_script_is_one_of_its_shell(shell: str, check: str, folder: Path) -> None:
    (folder / "script").write_text(SCRIPTS[shell])
    argv = [_need(shell), check, str(folder / "script")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=WAIT_S)
    assert (done.returncode, done.stderr) == (0, "")


SETUP = {
    "bash": (["--norc", "--noprofile", "-i"], "source ./script"),
    "zsh": (["-f", "-i"], "autoload -U compinit; compinit -D -u; source ./script"),
}


@pytest.mark.parametrize("shell", SETUP)
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("saltlite -c subf", "saltlite -c subfolder/"),
        ("saltlite --config-dir=subf", "saltlite --config-dir=subfolder/"),
        ("saltlite web1 test.ping --out-file subp", "--out-file subpaper"),
    ],
)
def test_folders_and_files_are_the_shells_own_work(shell: str, line: str, wanted: str, folder: Path) -> None:
    options, setup = SETUP[shell]
    (folder / "subfolder").mkdir()
    (folder / "subpaper").touch()
    (folder / "script").write_text(SCRIPTS[shell])
    terminal = Terminal([_need(shell), *options], folder)
    try:
        terminal.type(f"{setup}; echo SOUR''CED\n")
        terminal.until("SOURCED")
        terminal.type(f"{line}\t")
        terminal.until(wanted)
    finally:
        terminal.close()
