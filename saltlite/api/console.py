"""The console: a page that shows the fleet, made of files in `static`, and of what /fleet, /docs and /events answer.

The files are served as they are; there is no build step. The page has Preact and htm, whose files are in
`static/vendor` with their licences, because the pages need components that update in place, and nothing else: together
they have 13 kB. Marked, 52 kB for the documents only, reads Markdown into a tree of tokens, which the page shows
as components: no text of a document becomes HTML. No third party is asked for anything, and the policy of the
page allows no inline code.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from tornado.web import HTTPError

from saltlite.api.endpoint import Endpoint
from saltlite.api.formats import HTML
from saltlite.model.dataclass import dataclass

START = "index.html"
"""The page."""
_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the console."""

    content: bytes
    packed: bytes
    """The same with gzip."""
    type: str
    digest: str


@cache
def assets() -> dict[str, Asset]:
    """Path below `static` -> file."""
    found: dict[str, Asset] = {}
    _collect(files("saltlite.api") / "static", "", found)
    return found


def _collect(folder: Traversable, prefix: str, found: dict[str, Asset]) -> None:
    for item in folder.iterdir():
        kind = _TYPES.get(item.name.rpartition(".")[2])
        if item.is_dir():
            _collect(item, f"{prefix}{item.name}/", found)
        elif kind is not None:
            content = item.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:32]
            found[prefix + item.name] = Asset(content, gzip.compress(content, mtime=0), kind, digest)


class ConsoleFiles(Endpoint):
    """/console/<path>: the files of the console, without a login."""

    def streams(self) -> bool:
        """Files have formats of their own, whatever Accept says."""
        return True

    def get(self, path: str = "") -> None:
        """One file, or 304 if the browser has it."""
        send(self, path or START)


def send(endpoint: Endpoint, path: str) -> None:
    """Answer with a file of the console. Raises HTTPError 404."""
    asset = assets().get(path) if endpoint.context.config.console else None
    if asset is None:
        raise HTTPError(404)
    if path == START:
        endpoint.context.documentation.begin()
    endpoint.set_header("Content-Security-Policy", _POLICY)
    endpoint.set_header("Referrer-Policy", "no-referrer")
    # The browser asks each time, so that a page of another version never runs.
    endpoint.set_header("Cache-Control", "no-cache")
    is_packed = "gzip" in endpoint.request.headers.get("Accept-Encoding", "")
    endpoint.add_header("Vary", "Accept-Encoding")
    endpoint.set_header("ETag", f'"{asset.digest}{"-gzip" if is_packed else ""}"')
    if endpoint.check_etag_header():
        endpoint.set_status(304)
        endpoint.finish()
        return
    endpoint.set_header("Content-Type", asset.type)
    if is_packed:
        endpoint.set_header("Content-Encoding", "gzip")
    endpoint.finish(asset.packed if is_packed else asset.content)


class DocsEndpoint(Endpoint):
    """The base of the endpoints below /docs, which need no login: everyone has the package.

    A browser is sent to the console, which renders what a program gets.
    """

    def prepare(self) -> None:
        """Checks the request as every endpoint does."""
        super().prepare()
        if self.kind == HTML and self.context.config.console:
            self.redirect(f"/#{self.request.uri}")


class Docs(DocsEndpoint):
    """/docs: the titles of the documents, and what the reference has."""

    async def get(self) -> None:
        """`version`, `pages` and `reference`."""
        self.answer(await self.context.documentation.contents())


class DocsPage(DocsEndpoint):
    """/docs/<name>: a document, in Markdown."""

    def get(self, name: str) -> None:
        """`name`, `title` and `text`."""
        self.answer(self.context.documentation.page(name))


class DocsEntry(DocsEndpoint):
    """/docs/reference/<section>/<name>: a module, a file of options, or the paths of a noun."""

    async def get(self, section: str, name: str) -> None:
        """`doc`, and `items` with their signatures."""
        self.answer(await self.context.documentation.entry(section, name))


class DocsSearch(DocsEndpoint):
    """/docs/search: where all of some `words` occur."""

    QUERY = frozenset({"words"})

    async def get(self) -> None:
        """`found`, the best first."""
        self.answer({"found": await self.context.documentation.search(self.get_query_argument("words", ""))})


DOCS_PATHS: dict[str, type[Endpoint]] = {
    r"/docs": Docs,
    r"/docs/search": DocsSearch,
    r"/docs/([^/]+)": DocsPage,
    r"/docs/reference/([^/]+)/([^/]+)": DocsEntry,
}
"""Path -> endpoint."""
