"""The console transcripts of a page of the documentation: its commands run in one shell, and print what the page says.

In a page, a block of ```console has commands after `$ `, or after `# ` for root, with further lines after `> `, and
below each what it prints. Words are compared, apart from those that differ from run to run: job ids, times,
fingerprints, ids of tokens, and the user `ann`, who is anybody. A line `...` stands for any lines. A command without
output below it must succeed. A block that starts with ```console not-run: REASON is not run.
"""

from __future__ import annotations

import getpass
import os
import pty
import re
import select
import subprocess
import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

COMMAND_S = 60.0
"""How long one command may take."""
_BLOCK = re.compile(r"^( *)```(\w+)(?: not-run: ([^\n]+))?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_PROMPTS = ("$ ", "# ")
_VARYING = {
    r"\b20\d{18}\b": "JID",
    r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b": "DATE",
    r"\b\d+(?:\.\d+)?(?:ms|s|m|h)\b": "TIME",
    r"\b[A-Z2-7]{5}(?:-[A-Z2-7]{5}){7,}\b": "FINGERPRINT",
    r"\bjoin token \w+": "join token ID",
}
_END = "transcript-command-ended"


@dataclass
class Step:
    """A command, and the lines that the page has below it."""

    command: str
    expected: list[str] = field(default_factory=list)

    def differs(self, shell: Shell, command: str, omitted: str = "") -> str:
        """Run the step as `command`; what is different from the page, "" for nothing. `omitted` is not in the page."""
        printed = shell.run(command).replace(omitted, "")
        if matches(self.expected, printed) if self.expected else shell.code == 0:
            return ""
        wanted = "\n".join(self.expected) or "nothing, and the exit code 0"
        return f"$ {self.command}\n{printed}exit code {shell.code}\nThe page has:\n{wanted}"


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of that language that are run, in order; those of a list item without its indentation."""
    found = _BLOCK.findall(page.read_text())
    return [textwrap.dedent(text) for _indent, of, reason, text in found if of == language and not reason]


def reasons(page: Path) -> list[str]:
    """Why blocks of the page are not run, one for each of them."""
    return [reason for _indent, _language, reason, _text in _BLOCK.findall(page.read_text()) if reason]


def steps(page: Path) -> list[Step]:
    """The commands of all ```console blocks."""
    found: list[Step] = []
    for line in "".join(blocks(page, "console")).splitlines():
        if line.startswith(_PROMPTS):
            found.append(Step(line[2:]))
        elif line.startswith(">") and not found[-1].expected:
            found[-1].command += "\n" + line[2:]
        else:
            found[-1].expected.append(line)
    return found


def _lines(text: str) -> list[str]:
    """Lines with single blanks and without what differs from run to run."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)  # the colours of programs that know no NO_COLOR
    text = re.sub(rf"\b(?:ann|{re.escape(getpass.getuser())})\b", "USER", text)
    for pattern, word in _VARYING.items():
        text = re.sub(pattern, word, text)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in lines if line]


def matches(expected: list[str], printed: str) -> bool:
    """Whether the output is what the page says."""
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(line) + "\n" for line in _lines("\n".join(expected)))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(printed))) is not None


class Shell:
    """Bash at a terminal without colours and cursor movements, in `folder`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._terminal, inner = pty.openpty()
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=folder,
            env={**os.environ, **environment, "TERM": "dumb", "NO_COLOR": "1", "PS1": "", "PS2": "", "COLUMNS": "120"},
            start_new_session=True,
        )
        os.close(inner)
        self.code = 0
        """The exit code of the last command."""
        self.run("stty -echo")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._terminal)

    def run(self, command: str) -> str:
        """What the command prints. Raises AssertionError when it does not end in time."""
        # The end is written in two parts: the echo of the command, before `stty -echo`, is not taken for it.
        os.write(self._terminal, f"{command}\necho {_END[:6]}''{_END[6:]} $?\n".encode())
        printed, deadline = "", time.monotonic() + COMMAND_S
        while not (end := re.search(rf"{_END} (\d+)\r\n", printed)):
            assert select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))[0], (
                f"no end of {command!r}: {printed}"
            )
            printed += os.read(self._terminal, 65536).decode(errors="replace")
        self.code = int(end[1])
        return printed[: end.start()].replace("\r\n", "\n")
