"""The fast reader of the socket path: what it answers, and when it leaves the answer to the full loader."""

from __future__ import annotations

from pathlib import Path

import pytest

from saltlite.config import paths
from saltlite.config.fast import socket_path


def answer(tmp_path: Path, content: str | bytes) -> str | None:
    (tmp_path / "master").write_bytes(content if isinstance(content, bytes) else content.encode())
    return socket_path(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "/run/saltlite/master/master.ipc"),
        ("# root_dir: /x\n\nport: 4515\n", "/run/saltlite/master/master.ipc"),
        ("root_dir: /srv/x # here\n", "/srv/x/run/saltlite/master/master.ipc"),
        ("sock_dir: /run/other\n", "/run/other/master.ipc"),
        ("sock_dir: run/other\nroot_dir: /srv\n", "/srv/run/other/master.ipc"),
        ("interface: '127.0.0.1'\nuser: \"\"\nsock_dir: /a/b", "/a/b/master.ipc"),
        ("root_dir: '/x'", "/x/run/saltlite/master/master.ipc"),
        ("---\nroot_dir: /x", "/x/run/saltlite/master/master.ipc"),
        ("# caf\u00e9\nuser: J\u00f6rg\n", "/run/saltlite/master/master.ipc"),
        (
            "publisher_acl:\n  'web*':\n    - test.*\n    - .*\n  '*':\n    - '@wheel'\nsock_dir: /a/b",
            "/a/b/master.ipc",
        ),
        ("nodegroups:\n  web: 'L@a,b'\ninterface: \"::\"\nsock_dir: /a/b", "/a/b/master.ipc"),
        ("publisher_acl: {joe: ['test.*',\n  {'G@a:b': [x]}]}\nsock_dir: /a/b", "/a/b/master.ipc"),
        ("motd: |\n  it's [so\nsock_dir: /a/b", "/a/b/master.ipc"),
        ("acl:\n- a\n- 'b'\nsock_dir: /a/b", "/a/b/master.ipc"),
        ("file_roots:\n  base:\n    - /srv/salt\n    - a: 'b'\nsock_dir: /a/b", "/a/b/master.ipc"),
    ],
)
def test_plain_files_are_answered(tmp_path: Path, content: str, expected: str) -> None:
    assert answer(tmp_path, content) == expected


@pytest.mark.parametrize(
    "content",
    [
        "root_dir: /x y",
        "root_dir: ~/x",
        "root_dir: *a",
        "root_dir: &a /x",
        "root_dir: !!str /x",
        "root_dir: |\n  /x",
        "root_dir: [/x]",
        "root_dir: /x\n  y",
        "root_dir: /x\n\n# c\n  y",
        "root_dir:\n  /x",
        "root_dir: relative",
        "root_dir: a/b",
        "sock_dir: null",
        "sock_dir: true",
        "root_dir: /a\nroot_dir: /b",
        "root_dir : /x",
        '"root_dir": /x',
        "? root_dir\n: /x",
        "  root_dir: /x",
        "{root_dir: /x}",
        "grains: {a: b,\nroot_dir: /x}",
        "user: 'a\nroot_dir: /x'",
        "user:\n  'a\nroot_dir: /x'",
        "user: 'a\nroot_dir: /x\n# '",
        'user: "a\nroot_dir: /x\n# "',
        'user:\n  "a\nroot_dir: /x\n# "',
        "grains: {\nroot_dir: /x\n}",
        "root_dir: /x\n...\n",
        "%YAML 1.1\n---\nroot_dir: /x",
        "acl: [\"']', \"\nroot_dir: /x\n]",
        'acl:\n  - abc\n    "x\n  - "y\nroot_dir: /x\n"',
        "acl:\n  a: |\n    'x\nroot_dir: /x",
        'acl:\n  - abc\n    "x\n  - "y\nroot_dir: /x\nuser: z"',
        "acl: 'it''s\nroot_dir: /x'",
        'acl: "a\\"\nroot_dir: /x"',
        "user: 'a",
        "root_dir:\t/x",
        "root_dir: /x\r\n",
        "# a\u2028root_dir: /x",
        "\ufeffroot_dir: /x",
        "a: &r\nroot_dir: /x",
        f"sock_dir: /{'s' * 100}",
    ],
)
def test_anything_else_is_left_to_the_full_loader(tmp_path: Path, content: str) -> None:
    assert answer(tmp_path, content) is None


def test_later_files_of_the_folder_win(tmp_path: Path) -> None:
    (tmp_path / "master.d").mkdir()
    (tmp_path / "master.d" / "2.conf").write_text("sock_dir: /b/b")
    (tmp_path / "master.d" / "1.conf").write_text("sock_dir: /a/a")
    assert answer(tmp_path, "sock_dir: /m/m\nroot_dir: /r") == "/b/b/master.ipc"


def test_a_named_folder_without_the_file_is_left_to_the_full_loader(tmp_path: Path) -> None:
    assert socket_path(str(tmp_path)) is None


def test_the_default_folder_without_the_file_means_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "DEFAULT_CONFIG_DIR", str(tmp_path))
    assert socket_path(str(tmp_path)) == "/run/saltlite/master/master.ipc"


def test_what_cannot_be_read_is_left_to_the_full_loader(tmp_path: Path) -> None:
    (tmp_path / "master").mkdir()
    assert socket_path(str(tmp_path)) is None
