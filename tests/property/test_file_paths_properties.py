"""No text that a minion sends leads out of the folders of the file server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltlite.errors import UsageError
from saltlite.files.roots import FileRoots
from saltlite.files.server import FileService
from saltlite.model.files import parse_path

SECRET = b"s3cret"
PARTS = st.sampled_from(["..", ".", "", "a", "sub", "up", "out", "abs", "secret", "root", "outside", "\0", "etc", "ä"])
PATHS = st.one_of(st.lists(PARTS, max_size=8).map("/".join), st.text(max_size=40))


@pytest.fixture(scope="module")
def service() -> Iterator[FileService]:
    """A root with links of every kind, and the same file name inside and out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for place in (folder, folder / "outside"):
            place.mkdir(exist_ok=True)
            (place / "secret").write_bytes(SECRET)
            (place / "a").write_bytes(SECRET)
        root = folder / "root"
        (root / "sub").mkdir(parents=True)
        (root / "a").write_bytes(b"A")
        (root / "sub" / "up").symlink_to("..")
        (root / "out").symlink_to("../outside")
        (root / "abs").symlink_to(folder)
        (root / "sub" / "out").symlink_to("../../outside")
        yield FileService(FileRoots({"base": [str(root)]}, areas=str(folder)))


@given(
    path=PATHS, env=st.one_of(st.just("base"), st.sampled_from(["..", "root", "outside", "copy-"]), st.text(max_size=9))
)
def test_no_path_and_no_environment_reaches_a_file_outside(service: FileService, path: str, env: str) -> None:
    for act in ("read", "files", "folders", "find"):
        question = {
            "t": "file_request",
            "n": 1,
            "operation": act,
            "env": env,
            "path": path,
            "after": "",
            "offset": 0,
            "nonce": b"",
        }
        (said,) = service.ask([question])
        assert said["data"] in (b"", b"A")
        assert said["size"] in (0, 1)
        assert not any("secret" in name for name in said["names"])


@given(path=PATHS)
def test_a_normal_form_is_its_own_normal_form_and_has_no_way_up(path: str) -> None:
    try:
        normal = parse_path(path)
    except UsageError:
        return
    assert parse_path(normal) == normal
    assert not {"..", "."} & set(normal.split("/"))
    assert not normal.startswith("/")
    assert "\0" not in normal
