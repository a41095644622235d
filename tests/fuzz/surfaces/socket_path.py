"""The fast readers of configuration: whenever one answers, the full reader says the same.

`fast` reads where the master's socket is; `parse_plain` reads files of plain lines without the YAML parser.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

from saltlite.config.fast import socket_path
from saltlite.config.load import load_master, parse_plain
from saltlite.config.paths import master_socket
from saltlite.config.yamlfile import parse
from saltlite.errors import ConfigError
from tests.fuzz.surface import mutate_bytes, mutate_text

CONF = Path(__file__).parents[3] / "conf" / "master"
BETWEEN = b"\0"
"""Separates the file `master` from `master.d/a.conf`."""
LINES = (
    "root_dir: /a", "root_dir: '/b'", 'root_dir: "/c" # d', "root_dir: a", "root_dir:", "root_dir: [/a]",
    " root_dir: /a", "sock_dir: /a", "sock_dir: b/c", "sock_dir: './d'", "sock_dir: /a: b", "sock_dir: /a#c",
    "sock_dir: |", "sock_dir: ~", "sock_dir: &x /a", "sock_dir: *x", "- sock_dir: /a", "  sock_dir: /a",
    '"sock_dir": /a', "? sock_dir", ": /a", "<<: *x", "user: a", "user: 'a", 'user: "a', "user: a'b", "user: |",
    "user: >-", "user: &x a", "user: [a, b", "user: {a: b", "timeout: 5", "interface: '::'", "nodegroups:",
    "  web: 'L@a,", "    b'", "  web: [a, 'b", "    c'] # d", "  a: |", "publisher_acl:", "  '*':", "    - test.*",
    "    - 'it''s'", '    - "a\\""', "    - a: 'b", "    - - [", "  - >-", "- abc", "- 'x", "-", "  abc", "    'x",
    '    "y', "    ]", "]", "}", "b'", 'b"', "---", "...", "# '", '# "', "", "\tb", "%YAML 1.1", "  ", "    }",
    "  # c", "user: a # '", "hooks:", "  x: &y", "  - *y", "\ufeffroot_dir: /z", "user: !!str a",
)  # fmt: skip
WORDS = (
    ": ", "- ", "\n", "\n  ", "'", '"', "#", " #", "|", ">", "[", "]", "{", "}", "&a ", "*a", "\r", "\x85", "\u2028",
    "root_dir", "sock_dir", "/", "..", ",", "\\", "''", "? ", "!", "%", "@", "`", "~", "null",
)  # fmt: skip
_ABOUT_PATHS = re.compile(r"(?<!did you mean ')\b(?:root_dir|sock_dir)\b")


class SocketPath:
    """The input is the file `master`, and behind a NUL `master.d/a.conf`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._included = folder / "master.d" / "a.conf"
        self._included.parent.mkdir()

    def seeds(self) -> Sequence[bytes]:
        sample = "\n".join(line.removeprefix("#") for line in CONF.read_text().splitlines() if line[:2] != "# ")
        return [
            sample.encode(),
            b"root_dir: /srv/a\nuser: saltlite\nnodegroups:\n  web: 'L@a,\n    b'\nsock_dir: run/x # here\n",
            b"nodegroups: {web: [a,\n  b], 'c': \"d\n  e\"}\nsock_dir: '/run/x'\nroot_dir: /b\n\0sock_dir: /run/y\n",
            b"hooks:\n  a:\n    tag: |\n      sock_dir: /no\nroot_dir: /srv/b\n\0---\nroot_dir: /c\n",
        ]

    def run(self, data: bytes) -> None:
        main, _nul, included = data.partition(BETWEEN)
        (self._folder / "master").write_bytes(main)
        self._included.write_bytes(included)
        for content in (main, included):
            plain = parse_plain(content)
            if plain is not None:
                assert plain == parse(content), f"{content!r} is read in two ways"
        quick = socket_path(str(self._folder))
        if quick is None:
            return
        problems = ""
        try:
            full = master_socket(load_master(str(self._folder)).config.sock_dir)
        except ConfigError as error:
            problems, full = str(error), quick
        # It may overlook mistakes elsewhere, never one about what it answered.
        assert not _ABOUT_PATHS.search(problems), f"{quick}, but: {problems}"
        assert quick == full, f"{quick} is not {full}"

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        if rng.random() < 0.1:
            return mutate_bytes(data, rng)
        if rng.random() < 0.3:
            return mutate_text(data.decode("utf-8", "replace"), rng, WORDS).encode("utf-8", "replace")
        lines = data.decode("utf-8", "replace").split("\n")
        if len(lines) > 40:  # so that a change is often about the lines beside it
            begin = rng.randrange(len(lines))
            lines = lines[begin : begin + 12]
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(lines) + 1)
            lines[at : at + rng.choice((0, 0, 0, 1, 2))] = [rng.choice(LINES)]
        return "\n".join(lines).encode("utf-8", "replace")

    def close(self) -> None:
        pass
