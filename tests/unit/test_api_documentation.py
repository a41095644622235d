"""What /docs answers: the documents, the reference of what ships, and the search in both."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from saltlite.api import documentation
from saltlite.api.documentation import FOUND_MAX, WORDS_MAX, Documentation, NoReferenceError, pages, slug
from saltlite.api.openapi import document
from saltlite.api.reference import reference, runners
from saltlite.cli.verbs.help import titles
from saltlite.config.master import MasterConfig
from saltlite.config.options import options_of
from saltlite.errors import UsageError
from saltlite.wire.messages import VERBS

DOCS = Path(__file__).parents[2] / "saltlite/docs"


@pytest.fixture(scope="module")
def sections() -> list[dict[str, Any]]:
    return reference()


@pytest.fixture
def docs(sections: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Documentation:
    """With the reference made here, and not in a process."""

    async def made(*_words: str) -> list[dict[str, Any]]:
        return sections

    monkeypatch.setattr(documentation, "_made", made)
    return Documentation()


def entry(sections: list[dict[str, Any]], section: str, name: str) -> dict[str, Any]:
    (found,) = [row for one in sections if one["name"] == section for row in one["entries"] if row["name"] == name]
    return dict(found)


def item(row: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in row["items"] if one["name"] == name]
    return dict(found)


def test_every_document_of_the_package_is_a_page() -> None:
    assert set(pages()) == {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert list(pages()) == list(titles())


def test_links_between_documents_lead_to_pages_and_to_sections() -> None:
    for name, text in pages().items():
        for target, section in re.findall(r"\]\(([\w-]+)\.md(?:#([\w-]+))?\)", text):
            assert target in pages(), name
            assert not section or section in {slug(line.lstrip("# ")) for line in pages()[target].splitlines()}, name


def test_a_module_has_the_signatures_of_all_its_files(sections: list[dict[str, Any]]) -> None:
    assert "through apk. Packages of Debian" in entry(sections, "modules", "pkg")["summary"]
    install = item(entry(sections, "modules", "pkg"), "pkg.install")
    assert len(install["signatures"]) > 1
    assert "CLI Example" in install["doc"]
    assert "risk remove" in item(entry(sections, "modules", "pkg"), "pkg.remove")["notes"][0]


def test_the_reference_has_runners_options_paths_and_resources(sections: list[dict[str, Any]]) -> None:
    assert item(entry(sections, "runners", "manage"), "manage.up")["doc"]
    options = entry(sections, "options", "master")["items"]
    assert [one["name"] for one in options] == list(options_of(MasterConfig))
    assert item(entry(sections, "options", "master"), "port")["signatures"] == ["port: 4515"]
    assert item(entry(sections, "options", "minion"), "join_token")["notes"][1] == "It is a secret."
    paths = {
        text
        for one in sections
        if one["name"] == "api"
        for row in one["entries"]
        for i in row["items"]
        for text in i["signatures"]
    }
    wanted = {f"{method.upper()} {path}" for path, rows in document()["paths"].items() for method in rows}
    assert paths == wanted
    assert item(entry(sections, "resources", "ssh"), "cmd.retcode")["signatures"]


def test_the_reference_has_commands_events_messages_and_limits(sections: list[dict[str, Any]]) -> None:
    (accept,) = item(entry(sections, "commands", "key"), "key accept")["signatures"]
    assert accept.startswith("usage: saltlite key accept ID|GLOB...")
    (job,) = item(entry(sections, "commands", "saltlite"), "saltlite")["signatures"]
    assert "--batch" in job
    tags = entry(sections, "events", "tags")["items"]
    assert item({"items": tags}, "salt/job/JID/ret/TARGET")["doc"] == "A return was committed."
    ack = item(entry(sections, "wire", "messages"), "return_ack")
    assert (ack["signatures"], ack["notes"]) == (["return_ack: jids"], ["Sent by the master."])
    assert len(entry(sections, "wire", "messages")["items"]) == len(VERBS)
    body = item(entry(sections, "wire", "limits"), "JOB_BODY_MAX")
    assert body["signatures"] == ["JOB_BODY_MAX = 65536"]
    assert body["doc"].startswith("Bytes of one signed job body.")


def test_contents_name_the_version_and_every_entry(docs: Documentation, sections: list[dict[str, Any]]) -> None:
    found = asyncio.run(docs.contents())
    assert [row["name"] for row in found["pages"]] == list(pages())
    assert {"name": "http-api", "title": "The HTTP API", "section": "How to"} in found["pages"]
    assert [one["name"] for one in found["reference"]] == [one["name"] for one in sections]


@pytest.mark.parametrize(
    ("words", "path", "at"),
    [
        ("pkg.install", "reference/modules/pkg", "pkg.install"),
        ("auth_file", "reference/options/master", "auth_file"),
        ("the console", "http-api", "the-console"),
        ("/fleet/keys", "reference/api/fleet", "fleetKeys"),
    ],
)
def test_the_name_that_is_searched_for_comes_first(docs: Documentation, words: str, path: str, at: str) -> None:
    first = asyncio.run(docs.search(words))[0]
    assert (first["path"], first["at"]) == (path, at)


def test_all_words_have_to_occur_and_results_have_an_end(docs: Documentation) -> None:
    async def search(*searches: str) -> list[list[dict[str, str]]]:
        return [await docs.search(words) for words in searches]

    none, many = asyncio.run(search("certificate no-such-word", "e"))
    assert none == []
    assert len(many) == FOUND_MAX


@pytest.mark.parametrize("words", ["", "  ", "x" * (WORDS_MAX + 1)])
def test_a_search_for_nothing_or_for_too_much_is_refused(docs: Documentation, words: str) -> None:
    with pytest.raises(UsageError, match="has 1 to 200 characters"):
        asyncio.run(docs.search(words))


def test_what_does_not_exist_is_a_sentence(docs: Documentation) -> None:
    with pytest.raises(UsageError, match="there is no document 'nothing'"):
        docs.page("nothing")
    with pytest.raises(UsageError, match="the reference has no modules/nothing"):
        asyncio.run(docs.entry("modules", "nothing"))


def test_a_reference_that_could_not_be_made_is_made_at_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def twice() -> list[str]:
        docs = Documentation()
        with monkeypatch.context() as patch:
            patch.setattr("saltlite.api.documentation.sys.executable", "/bin/true")
            with pytest.raises(NoReferenceError):
                await docs.contents()
        found = await asyncio.gather(docs.contents(), docs.contents())
        return [one["name"] for one in found[0]["reference"]]

    assert "modules" in asyncio.run(twice())


def test_a_reference_that_was_begun_is_made_once_and_a_failure_of_it_hinders_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Any] = [NoReferenceError("no"), [{"name": "x", "title": "X", "entries": []}]]

    async def made() -> Any:
        await asyncio.sleep(0)
        if isinstance(found := answers.pop(0), NoReferenceError):
            raise found
        return found

    monkeypatch.setattr(documentation, "_made", made)

    async def asked() -> None:
        docs = Documentation()
        docs.begin()
        assert docs._begun is not None
        await docs._begun
        docs.begin()
        docs.begin()
        assert (await docs.contents())["reference"] == [{"name": "x", "title": "X", "entries": []}]
        docs.begin()
        assert (await docs.contents())["reference"]

    asyncio.run(asked())
    assert answers == []


def test_a_comment_in_an_example_is_no_section() -> None:
    titles = [passage.title for passage in documentation._passages_of_pages()]
    assert "The console" in titles
    assert not [title for title in titles if title.startswith("saltlite ")]


def test_the_runners_of_a_site_are_listed_without_being_run(tmp_path: Path) -> None:
    (tmp_path / "runners").mkdir()
    (tmp_path / "runners/site.py").write_text(
        'raise SystemExit\n__risk__ = {"wipe": "destroy"}\ndef wipe(name: str, hard=False):\n    """Wipe it."""\n'
    )
    (tmp_path / "master").write_text(f"runner_dirs: [{tmp_path}/runners]\n")
    found = runners(str(tmp_path))
    assert found["site.wipe"] == {"signatures": [ANY], "risk": "destroy", "doc": "Wipe it."}
    assert "name:str" in found["site.wipe"]["signatures"][0]
    assert found["manage.up"]["risk"] == ""


def test_the_list_of_runners_is_read_anew_after_a_minute_and_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [NoReferenceError("no"), {"a.b": {}}, {"c.d": {}}]

    async def made(*words: str) -> Any:
        assert words == ("/etc/x",)
        if isinstance(found := answers.pop(0), NoReferenceError):
            raise found
        return found

    monkeypatch.setattr(documentation, "_made", made)

    async def asked() -> None:
        docs = Documentation()
        with pytest.raises(NoReferenceError):
            await docs.runners("/etc/x")
        assert await docs.runners("/etc/x") == {"a.b": {}}
        assert await docs.runners("/etc/x") == {"a.b": {}}
        monkeypatch.setattr(documentation, "RUNNERS_S", 0.0)
        assert await docs.runners("/etc/x") == {"c.d": {}}

    asyncio.run(asked())
