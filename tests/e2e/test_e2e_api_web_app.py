"""A web page that the API serves for others, as SaltGUI: which files are public, and which are not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.served import serve
from tests.support.api import Api, Said

pytestmark = pytest.mark.e2e

PAGE = "<!doctype html><title>A page</title><script src='static/a.js'></script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A web page with its files, and with what nobody may have."""
    folder = tmp_path_factory.mktemp("gui")
    folder.chmod(0o755)
    static = folder / "static"
    (static / "deep" / "er").mkdir(parents=True)
    (static / ".git").mkdir()
    (static / "closed").mkdir(mode=0o700)
    texts = {
        "index.html": PAGE, "secret.txt": "secret", "static/a.js": "alert(1)", "static/deep/er/b.css": "b {}",
        "static/.git/config": "secret", "static/.hidden": "secret", "static/private.txt": "secret",
        "static/closed/c.txt": "secret", "static/with space.txt": "a space", "static/data": "\0\1",
        "static/large.txt": "x" * 300_000,
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)
    (static / "private.txt").chmod(0o640)
    (static / "link.txt").symlink_to(folder / "secret.txt")
    (static / "up").symlink_to(folder)
    (static / "inside.js").symlink_to("a.js")
    os.mkfifo(static / "pipe", 0o644)
    (folder / "as-link").symlink_to(static)
    return folder


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Api]:
    """An API with that page; the folder of its files is behind a symbolic link."""
    with serve(tmp_path_factory.mktemp("served"), app=str(folder / "index.html"), static=str(folder / "as-link")) as (
        _fleet,
        url,
    ):
        yield Api(url)


def browse(api: Api, path: str) -> Said:
    return api.get(path, Accept="text/html,application/xhtml+xml,*/*;q=0.8")


@pytest.mark.parametrize("path", ["/", "/?reason=no-session&page=jobs", "/app", "/app/", "/app/any/thing?x=1"])
def test_a_browser_gets_the_page_with_a_policy_of_its_own(api: Api, path: str) -> None:
    said = browse(api, path)
    assert (said.status, said.body) == (200, PAGE)
    policy = str(said.headers["Content-Security-Policy"])
    assert "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'" in policy
    assert "frame-ancestors 'none'" in policy
    assert said.headers["Cache-Control"] == "no-store"
    assert said.headers["X-Content-Type-Options"] == "nosniff"


def test_programs_get_the_api_at_the_same_address_and_the_console_moves(api: Api) -> None:
    assert api.get("/").json()["return"] == "Welcome"
    assert api.get("/?x=1").status == 400
    console = browse(api, "/console")
    assert "style-src 'self';" in str(console.headers["Content-Security-Policy"])
    assert "saltlite" in console.body


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("/static/a.js", "alert(1)", "text/javascript; charset=utf-8"),
        ("/static/a.js?version=1", "alert(1)", "text/javascript; charset=utf-8"),
        ("/static/deep/er/b.css", "b {}", "text/css; charset=utf-8"),
        ("/static/with%20space.txt", "a space", "text/plain; charset=utf-8"),
        ("/static/data", "\0\1", "application/octet-stream"),
        ("/static/large.txt", "x" * 300_000, "text/plain; charset=utf-8"),
    ],
)
def test_files_are_public(api: Api, path: str, text: str, kind: str) -> None:
    said = api.get(path)
    assert (said.status, said.body, said.headers["Content-Type"]) == (200, text, kind)
    again = api.get(path, If_None_Match=str(said.headers["ETag"]))
    assert (again.status, again.body) == (304, "")
    assert api.ask("HEAD", path).body == ""


@pytest.mark.parametrize(
    "path",
    [
        "/static", "/static/", "/static/deep", "/static/deep/", "/static/nothing.js",
        "/static/../secret.txt", "/static/%2e%2e/secret.txt", "/static/%2e%2e%2fsecret.txt", "/static/..%2fsecret.txt",
        "/static/deep/../../secret.txt", "/static/%252e%252e/secret.txt", "/static/..%5csecret.txt",
        "/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/a.js%00.txt", "/static/./a.js",
        "/static/deep//er/b.css",
        "/static/.git/config", "/static/.hidden", "/static/private.txt", "/static/closed/c.txt",
        "/static/link.txt", "/static/up/secret.txt", "/static/inside.js", "/static/pipe", "/static/" + "x" * 5000,
        "/static/%ff", "/staticx/a.js",
    ],
)  # fmt: skip
def test_nothing_else_is(api: Api, path: str) -> None:
    said = api.get(path)
    assert said.status in (400, 404)
    assert "secret" not in said.body


def test_a_path_may_end_with_a_slash_as_in_salt(api: Api) -> None:
    admin = api.log_in("admin")
    assert admin.get("/keys/").json() == admin.get("/keys").json()
    assert admin.get("/minions/").json()["return"][0].keys() == {"a", "b"}
    assert admin.get("/minions/a/").json()["return"][0].keys() == {"a"}
    assert admin.ask("POST", "/logout/").status == 200
