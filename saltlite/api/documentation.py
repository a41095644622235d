"""The documents and the reference of the version that runs, and the search in both.

The documents are the Markdown files of the package. `saltlite.api.reference` makes the reference in a process of its
own, because it reads every plug-in file, which takes seconds: when a service starts, once a browser has opened the
console, or at the first request.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from saltlite import __version__
from saltlite.errors import SaltliteError, UsageError

log = logging.getLogger(__name__)

WORDS_MAX = 200
"""Characters of a search."""
FOUND_MAX = 50
"""Results of a search."""
EXCERPT = 160
"""Characters of a text that a result shows."""
REFERENCE_S = 60.0
"""How long the process that makes the reference may take."""
RUNNERS_S = 60.0
"""How long the list of the site's runners is kept."""

PATHS = "api"
"""The section of the reference whose items are searched for by their paths."""

_KEPT_NAMES = ("PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LANG", "LC_ALL")
_HEADING = re.compile(r"(#{1,6}) +(.+?) *", re.ASCII)
_FENCE = "```"
_LISTED = re.compile(r"## (.+)|- \[([a-z-]+)\]\(.+", re.ASCII)
"""A line of the page `index` that begins a section, or names a page."""


class NoReferenceError(SaltliteError):
    """The reference could not be made."""


class Passage(NamedTuple):
    """Something that a search can find: a section of a document, or an item of the reference."""

    path: str
    """As in the path below /docs."""
    at: str
    """The section of the document, or the item of the entry; "" for all of it."""
    title: str
    kind: str
    text: str

    def rank(self, words: list[str]) -> int | None:
        """0 for the best result; None if a word does not occur."""
        title = self.title.lower()
        if not all(word in title or word in self.text.lower() for word in words):
            return None
        if title == " ".join(words):
            return 0
        return 3 - title.startswith(words[0]) - all(word in title for word in words)

    def found(self, words: list[str]) -> dict[str, str]:
        """The row of the answer, with the text around the first word in it."""
        lower = self.text.lower()
        places = [lower.find(word) for word in words]
        start = max(0, min((one for one in places if one >= 0), default=0) - EXCERPT // 4)
        excerpt = " ".join(self.text[start : start + EXCERPT].split())
        return {"path": self.path, "at": self.at, "title": self.title, "kind": self.kind, "excerpt": excerpt}


class Documentation:
    """What /docs answers."""

    def __init__(self) -> None:
        self._making: asyncio.Task[Any] | None = None
        self._begun: asyncio.Task[None] | None = None
        self._runners: tuple[float, asyncio.Task[Any]] | None = None
        self._passages: list[Passage] = []

    def begin(self) -> None:
        """Start building the reference in the background, so that the first page of `/docs` need not wait for it."""
        if self._making is None:
            self._begun = asyncio.ensure_future(self._begin())

    async def _begin(self) -> None:
        try:
            await self._reference()
        except NoReferenceError as error:
            log.warning("%s", error)

    async def contents(self) -> dict[str, Any]:
        """`version`; `pages` with titles and sections; `reference`: sections, names and summaries of entries."""
        return {
            "version": __version__,
            "pages": [
                {"name": name, "title": _title(text), "section": _sections_of_pages()[name]}
                for name, text in pages().items()
            ],
            "reference": [
                {
                    "name": section["name"],
                    "title": section["title"],
                    "entries": [{"name": one["name"], "summary": one["summary"]} for one in section["entries"]],
                }
                for section in await self._reference()
            ],
        }

    def page(self, name: str) -> dict[str, str]:
        """A document: `name`, `title`, `text` in Markdown. Raises UsageError."""
        text = pages().get(name)
        if text is None:
            raise UsageError(f"there is no document {name[:80]!r}: GET /docs lists them")
        return {"name": name, "title": _title(text), "text": text}

    async def entry(self, section: str, name: str) -> dict[str, Any]:
        """An entry of the reference: `section`, `title` of the section, `name`, `doc`, `items`. Raises UsageError."""
        for one in await self._reference():
            for row in one["entries"]:
                if (one["name"], row["name"]) == (section, name):
                    return {"section": section, "title": one["title"], **row}
        raise UsageError(f"the reference has no {section[:80]}/{name[:80]}: GET /docs lists what it has")

    async def search(self, text: str) -> list[dict[str, str]]:
        """At most FOUND_MAX places that have all the words, the best first. Raises UsageError."""
        words = text.lower().split()
        if not words or len(text) > WORDS_MAX:
            raise UsageError(f"words, what to search for, has 1 to {WORDS_MAX} characters")
        if not self._passages:
            self._passages = [*_passages_of_pages(), *_passages_of_reference(await self._reference())]
        ranked = [(rank, place) for place in self._passages if (rank := place.rank(words)) is not None]
        ranked.sort(key=lambda row: row[0])
        return [place.found(words) for _rank, place in ranked[:FOUND_MAX]]

    async def runners(self, config_dir: str) -> dict[str, dict[str, Any]]:
        """The functions of runners, shipped ones and those of the site: name -> `signatures`, `risk`, `doc`.

        They are read anew after RUNNERS_S, because a site may add some. Raises NoReferenceError.
        """
        now = time.monotonic()
        known = self._runners
        if known is None or now - known[0] >= RUNNERS_S or (known[1].done() and known[1].exception() is not None):
            known = self._runners = now, asyncio.ensure_future(_made(config_dir))
        found: dict[str, dict[str, Any]] = await asyncio.shield(known[1])
        return found

    async def functions(self) -> dict[str, str]:
        """What the functions of the shipped execution modules do, by their names."""
        entries = (section["entries"] for section in await self._reference() if section["name"] == "modules")
        return {item["name"]: item["doc"] for group in entries for entry in group for item in entry["items"]}

    async def _reference(self) -> list[dict[str, Any]]:
        if self._making is None:
            self._making = asyncio.ensure_future(_made())
        making = self._making
        try:
            # Another request waits for the same process.
            found: list[dict[str, Any]] = await asyncio.shield(making)
        except NoReferenceError:
            if self._making is making:
                self._making = None
            raise
        return found


async def _made(*words: str) -> Any:
    """What `saltlite.api.reference` prints. Raises NoReferenceError."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "saltlite.api.reference",
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in _KEPT_NAMES if name in os.environ},
            cwd="/",
        )
    except OSError as error:
        raise NoReferenceError(f"the reference could not be made: {error.strerror}") from error
    try:
        async with asyncio.timeout(REFERENCE_S):
            out, _ = await process.communicate()
        return json.loads(out)
    except TimeoutError:
        process.kill()
        raise NoReferenceError(f"the reference was not made within {REFERENCE_S:g}s; try again") from None
    except ValueError:
        raise NoReferenceError("the reference could not be made; the API's log has the reason") from None


@cache
def pages() -> dict[str, str]:
    """Name -> Markdown, in the order of the page `index`, which is not among them: the console shows what it has."""
    return {name: _text(name) for name in _sections_of_pages()}


@cache
def _sections_of_pages() -> dict[str, str]:
    """Name of a page -> title of its section, in the order of the page `index`."""
    found, section = {}, ""
    for line in filter(None, map(_LISTED.fullmatch, _text("index").splitlines())):
        section = line[1] or section
        if line[2]:
            found[line[2]] = section
    return found


def _text(name: str) -> str:
    return (files("saltlite") / "docs" / f"{name}.md").read_text(encoding="utf-8")


def _title(text: str) -> str:
    return text.partition("\n")[0].lstrip("# ")


def slug(heading: str) -> str:
    """The name of a section; the console has the same rule."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _passages_of_pages() -> Iterator[Passage]:
    for name, text in pages().items():
        for heading, lines in _sections(text):
            yield Passage(name, slug(heading), heading, _title(text), "\n".join(lines))


def _sections(text: str) -> list[tuple[str, list[str]]]:
    """(heading, lines below it), in order. A comment in an example of a shell is not a heading."""
    found: list[tuple[str, list[str]]] = []
    within_code = False
    for line in text.splitlines():
        within_code ^= line.lstrip().startswith(_FENCE)
        heading = None if within_code else _HEADING.fullmatch(line)
        if heading is not None:
            found.append((heading[2], []))
        elif found:
            found[-1][1].append(line)
    return found


def _passages_of_reference(sections: list[dict[str, Any]]) -> Iterator[Passage]:
    for section in sections:
        for entry in section["entries"]:
            path = f"reference/{section['name']}/{entry['name']}"
            yield Passage(path, "", entry["name"], section["title"], entry["doc"])
            for item in entry["items"]:
                text = "\n".join([item["doc"], *item["signatures"], *item["notes"]])
                title = item["signatures"][0] if section["name"] == PATHS else item["name"]
                yield Passage(path, item["name"], title, section["title"], text)
