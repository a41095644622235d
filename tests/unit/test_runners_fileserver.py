"""The runners `fileserver.*`, over a master that a test plays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api import Client, run

SERVED = {
    "envs": {"base": "", "dev": ""},
    "files": {"a": "", "d/b": ""},
    "folders": {"d": "", "d/empty": "", "none": "", "none/inside": ""},
    "links": {"l": "a"},
}


def client() -> Client:
    """A master that tells one name at a time."""

    def file_list(operation: str, env: str, after: str = "") -> dict[str, Any]:
        names = {name: target for name, target in SERVED[operation].items() if name > after and env == "base"}
        return {"names": dict(list(names.items())[:1]), "more": len(names) > 1}

    return Client(file_list=file_list)


@pytest.mark.parametrize(
    ("fun", "args", "value"),
    [
        ("envs", {}, ["base", "dev"]),
        ("envs", {"sources": True, "backend": "roots"}, {"roots": ["base", "dev"]}),
        ("file_list", {}, ["a", "d/b"]),
        ("file_list", {"saltenv": "dev"}, []),
        ("dir_list", {}, ["d", "d/empty", "none", "none/inside"]),
        ("empty_dir_list", {}, ["d/empty", "none/inside"]),
        ("symlink_list", {"backend": ["roots"]}, {"l": "a"}),
        ("update", {}, True),
        ("clear_cache", {}, "No cache was cleared"),
        ("clear_file_list_cache", {"saltenv": "base"}, {}),
    ],
)
def test_what_is_served_is_listed_whole(fun: str, args: dict[str, Any], value: Any) -> None:
    outcome = run(client(), f"fileserver.{fun}", **args)
    assert (outcome.retcode, outcome.value) == (0, value)


@pytest.mark.parametrize("backend", ["git", "roots,git", "-roots", ["hg"]])
@pytest.mark.parametrize("fun", ["envs", "file_list", "update", "clear_cache"])
def test_backends_that_there_are_not_are_refused(fun: str, backend: Any) -> None:
    outcome = run(client(), f"fileserver.{fun}", backend=backend)
    assert (outcome.retcode, "is not supported" in outcome.value) == (1, True)
