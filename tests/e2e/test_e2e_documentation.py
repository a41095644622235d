"""The pages that a newcomer types from: their commands run on the fleet of `saltlite demo`, and print what they say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from saltlite.cli.verbs.help import DOCS
from tests.support.transcripts import Shell, blocks, matches, steps

BIN = Path(sys.executable).parent
PROGRAM = 'saltlite() { "$SALTLITE" -c fleet/master "$@"; }'
"""What the tutorial types with a path into the clone."""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a running fleet in `fleet`; a short path, because of the sockets in it."""
    folder = tmp_path_factory.mktemp("d")
    words = [sys.executable, "-m", "saltlite", "demo", "--dir", str(folder / "fleet")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as demo:
        assert demo.stderr is not None
        assert any("Ctrl-C stops the fleet" in line for line in demo.stderr)
        yield folder
        demo.terminate()


@pytest.mark.parametrize("name", ["tutorial", "python-client"])
def test_the_commands_of_a_page_print_what_the_page_says(name: str, folder: Path) -> None:
    differences = []
    with Shell(folder, {"SALTLITE": str(BIN / "saltlite")}) as shell:
        shell.run(PROGRAM)
        for step in steps(Path(DOCS) / f"{name}.md"):
            if step.command.startswith("saltlite() {"):
                continue
            printed = shell.run(step.command)
            if not matches(step.expected, printed):
                differences.append(f"$ {step.command}\n{printed}\nThe page has:\n" + "\n".join(step.expected))
    assert not differences, "\n\n".join(differences)


def test_the_programs_of_the_python_client_run_as_written(folder: Path) -> None:
    program = "\n".join(blocks(Path(DOCS) / "python-client.md", "python"))
    program = program.replace('"/etc/saltlite"', f'"{folder}/fleet/master"')
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["demo-1 Linux", "demo-2 Linux", "demo-3 Linux"]
    assert "'args': [1]" in lines[3]
    assert sorted(lines[4:7]) == ["demo-1 ok ", "demo-2 ok ", "demo-3 ok "]
    assert lines[7].startswith("2 none of the targeted minions has 'pkg.instal'; did you mean pkg.install?")
