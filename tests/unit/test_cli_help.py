"""`saltlite help`: the pages that ship, and links that lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from saltlite.cli.main import main
from saltlite.cli.verbs.help import DOCS, titles

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / ".github").glob("*.md"), *Path(DOCS).glob("*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#]+)")


def test_without_a_topic_every_page_is_listed_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    listed = capsys.readouterr().out
    assert len(titles()) > 10
    for name, title in titles().items():
        assert re.search(rf"^  {name} +{re.escape(title)}$", listed, re.MULTILINE)


@pytest.mark.parametrize("topic", ["targeting", "Targeting", "targeting.md"])
def test_a_page_is_shown_whole(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", topic]) == 0
    assert capsys.readouterr().out == (Path(DOCS) / "targeting.md").read_text()


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_the_documentation_leads_somewhere(page: Path) -> None:
    text = re.sub(r"(?s)```.*?```", "", page.read_text())
    for target in LINK.findall(text):
        assert (page.parent / target).exists(), target


def test_the_readme_names_every_page_and_is_short() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [name for name in titles() if f"saltlite/docs/{name}.md" not in readme] == []
    assert len(readme.splitlines()) <= 150
