"""Pillar: top files, sls files and templates of an operator, for grains of a minion that chooses them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saltlite.errors import LocalProtocolError, ProtocolError, RenderError, UsageError
from saltlite.model.ids import MinionId
from saltlite.pillar.compiler import names_of, pillar_of
from saltlite.pillar.files import DiskPillarFiles
from saltlite.pillar.jinja_templates import load_jinja
from saltlite.wire.codec import decode_document, encode_document
from tests.fuzz.surface import mutate_bytes, mutate_text, mutate_value, packed, unpacked

NAMES = ("top.sls", "a.sls", "b/init.sls", "b/c.sls", "d.jinja")
WORDS = (
    "base:\n", "  '*':\n", "    - a\n", "include:\n", "  - b\n", "  - .c\n", "  - a:\n      key: k\n", "- match: grain",
    "- ignore_missing: true", "{{ ", " }}", "{% for i in range(9) %}", "{% endfor %}", "{% if grains.os %}",
    "{% endif %}", "{% include 'd.jinja' %}", "{% import 'd.jinja' as d %}", "{% set x = [] %}", "{% do x.append(x) %}",
    "grains", "pillar", "minion_id", "| json", "| yaml", "| upper", "| join", "*a", "&a ", "<<: *a", "!!set {a, b}",
    "!!python/none", "!!binary aGk=", "? [a, b]\n: c\n", "2027-01-01", ".nan", ".inf", "1e999", "0x1ffffffffffffffff",
    "null: 1\n", "true: 2\n", "1: 3\n", "'1': 4\n", "- [", "}", "\u2028", "\x00", "#!yaml\n", "#!jinja|yaml\n",
    "#!py\n", "G@os:Debian and not E@w.*", "I@a:b", "(" * 40, "[" * 200,
)  # fmt: skip


class Pillar:
    """The input is a map: names of files to texts, and `grains`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # As a master does at its start: else the first template takes the second that its import takes.
        load_jinja()

    def seeds(self) -> Sequence[bytes]:
        plain = {
            "top.sls": "base:\n  '*':\n    - a\n    - b\n  'os:Debian':\n    - match: grain\n    - b.c\n",
            "a.sls": "include:\n  - b\nuser: root\nports: [22, 80]\nnested: {x: {y: z}}\n1: one\n",
            "b/init.sls": "include:\n  - .c\nb: {{ grains.os | json }}\n",
            "b/c.sls": "{% import 'd.jinja' as d %}\nc: {{ d.value }}\n{% for i in range(3) %}k{{i}}: 1\n{% endfor %}",
            "d.jinja": "{% set value = 5 %}",
            "grains": {"os": "Debian", "roles": ["web"], "n": 1},
        }
        aliased = {"top.sls": "base: {'*': [a]}", "a.sls": "x: &a [1, 2]\ny: *a\nz: {<<: {q: 1}}\n", "grains": {}}
        return [packed(plain), packed(aliased)]

    def run(self, data: bytes) -> None:
        case = unpacked(data)
        if not isinstance(case, dict):
            return
        for name in NAMES:
            path = self._folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(_bytes(case.get(name)))
        grains = case.get("grains")
        if not isinstance(grains, dict):
            grains = {}
        try:
            # What grains a minion may have is checked before: here are those that passed.
            grains = decode_document(encode_document(grains))
        except ProtocolError:
            return
        files = DiskPillarFiles({"base": [str(self._folder)]})
        for make in (pillar_of, names_of):
            try:
                found: Any = make(files, MinionId("web1"), grains, {})
            except RenderError:
                continue
            if make is pillar_of:
                _sent(found)

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        case = unpacked(data)
        if rng.random() < 0.1 or not isinstance(case, dict):
            return mutate_bytes(data, rng)
        name = rng.choice((*NAMES, "grains"))
        if name == "grains":
            case["grains"] = mutate_value(case.get("grains", {}), rng)
        else:
            text = _bytes(case.get(name)).decode("utf-8", "replace")
            case[name] = mutate_text(text, rng, WORDS).encode("utf-8", "replace")
        return packed(case)

    def close(self) -> None:
        pass


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value or "").encode("utf-8", "replace")


def _sent(found: dict[Any, Any]) -> None:
    """The minion gets it as it was made, or the error says why not."""
    try:
        data = encode_document(found)
    except (LocalProtocolError, UsageError):
        return
    decode_document(data)
