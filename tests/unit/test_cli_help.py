"""`saltlite help`: the pages that ship, and links that lead somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from saltlite.cli import exitcodes
from saltlite.cli.commands import SALT_KEY
from saltlite.cli.main import main
from saltlite.cli.verbs.help import DOCS, page, sections, titles

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / ".github").glob("*.md"), *Path(DOCS).glob("*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#]+)")


def test_without_a_topic_every_page_is_listed_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    listed = capsys.readouterr().out
    assert len(titles()) > 10
    for name, about in titles().items():
        assert re.search(rf"^  {name} +{re.escape(about)}$", listed, re.MULTILINE)
    assert [title for title in sections() if f"\n{title}:\n" not in listed] == []


@pytest.mark.parametrize("topic", ["targeting", "Targeting", "targeting.md", "index"])
def test_a_page_is_shown_whole(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", topic]) == 0
    assert capsys.readouterr().out == page(topic.lower().removesuffix(".md"))


@pytest.mark.parametrize("words", [["help", "targeting"], ["version"], ["new", "module", "motd", "--dir", "."]])
def test_a_folder_of_a_configuration_before_a_command_that_reads_none_is_ignored(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["-c", "/nowhere", *words]) == 0
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["targting"], "did you mean targeting?"),
        (["qqq"], "`saltlite help` lists the pages"),
        (["../errors"], "`saltlite help` lists the pages"),
        (["install", "cloud"], "one page at a time"),
    ],
)
def test_what_is_no_page_is_an_error_with_the_way_out(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["help", *words]) == 2
    printed = capsys.readouterr()
    assert hint in printed.err
    assert not printed.out


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_of_the_documentation_leads_somewhere(path: Path) -> None:
    text = re.sub(r"(?s)```.*?```", "", path.read_text())
    for target in LINK.findall(text):
        assert (path.parent / target).exists(), target


COMMAND = re.compile(r"^[$#] (saltlite(?:-key|-run)? .*)", re.MULTILINE)
JID = "20261121043952177301"
REFUSED_ON_PURPOSE = (
    "no terminal to ask for the password",
    "there is no option --tset; did you mean --test?",
    "start saltlite-api, which serves the installer",
)
PROGRAMS = {"saltlite-run": ["runner"], "saltlite-key": [SALT_KEY]}
ASKS = re.compile(
    r"acl|auth token|events|job (?!\w+\|)|key (?!\w+\||fleet)|match|status|runner|__key|\S+ [a-z_]+\.[a-z_]|-"
)
"""Command lines that ask the master, after the program's name; others act on this machine."""


def typed_commands() -> Iterator[tuple[str, list[str]]]:
    """The command lines that ask a master in blocks that tests/e2e/test_e2e_documentation.py does not run; the page's
    name, and the words."""
    for path in PAGES:
        for block in re.findall(r"(?ms)^```console not-run[^\n]*\n(.*?)^```", path.read_text()):
            for line in COMMAND.findall(block):
                typed = " ".join(shlex.split(line.replace("$jid", JID), comments=True, posix=False))
                for part in re.split(r"; | && | \| | > ", typed):
                    program, *words = shlex.split(part)
                    words = [*PROGRAMS.get(program, []), *words]
                    # A runner with --async goes on in a fork, and ends the process that typed it.
                    ends = words[:1] == ["runner"] and "--async" in words
                    if program.startswith("saltlite") and not ends and ASKS.match(" ".join(words)):
                        yield path.name, words


@pytest.mark.parametrize(("page", "words"), list(typed_commands()))
def test_every_command_of_a_block_that_is_not_run_is_understood(
    page: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("master", "api"):
        (tmp_path / name).write_text(f"root_dir: {tmp_path}\n")
    monkeypatch.chdir(tmp_path)  # some commands write a file
    end = words.index("--") if "--" in words else len(words)
    code = main([*words[:end], "-c", str(tmp_path), *words[end:]])
    # The words are read before the master is asked, and there is none; some commands have an answer without it.
    error = capsys.readouterr().err
    assert "the master does not answer" in error or any(way in error for way in REFUSED_ON_PURPOSE), error
    assert code in (exitcodes.OK, exitcodes.INTERNAL, exitcodes.UNREACHABLE, exitcodes.USAGE)


def test_the_index_names_every_page_once_in_the_kinds_of_pages_that_there_are() -> None:
    named = [name for listed in sections().values() for name in listed]
    assert sorted(named) == sorted(path.stem for path in Path(DOCS).glob("*.md") if path.stem != "index")
    assert list(sections()) == ["Tutorial", "How to", "Reference", "Explanation", "Operations", "From Salt"]
    for name, about in titles().items():
        assert about, name
        assert f"- [{name}]({name}.md): {about}\n" in page("index")


def test_the_readme_leads_to_the_index_and_is_short() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "(saltlite/docs/index.md)" in readme
    assert len(readme.splitlines()) <= 150
