"""Parses YAML text into a tree with positions, from the events of the YAML parser.

`yaml.compose` is not used: it recurses in C for every level, so that a file of brackets crashes the process, and lets
later keys replace earlier ones. Aliases are allowed up to a limit; tags, merge keys and second documents are refused.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any

import yaml

from saltlite.config.written import Map, PlacedError, Scalar, Sequence, Where, Written
from saltlite.model.dataclass import dataclass

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML was built without libyaml: slower, and reads the same
    from yaml import SafeLoader as _Loader  # type: ignore[assignment] # both have the parser's interface

DEPTH_MAX = 32
"""Levels of nested lists and maps, including the top level."""

ALIASED_VALUES_MAX = 1000
"""Values that aliases (`*name`) may add to one file, so that a few lines cannot become gigabytes."""

_HINTS = {
    "mapping values": " (is a space missing after a ':'?)",
    "alphabetic or numeric character": " (text that begins with * or & needs quotes around it)",
    "cannot start any token": " (text that begins with @, ` or % needs quotes around it)",
}
"""Words in a problem of either parser -> its most likely cause."""
_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(slots=True)
class _Open:
    """A list or map whose end has not been seen."""

    where: Where
    is_map: bool
    anchor: str | None
    first_value: int
    items: list[Written] = field(default_factory=list)
    pairs: dict[str, tuple[Scalar, Written]] = field(default_factory=dict)
    key: Scalar | None = None
    height: int = 1


@dataclass(frozen=True, slots=True)
class _Anchored:
    written: Written
    size: int
    height: int


def parse(content: bytes) -> tuple[Written | None, list[PlacedError]]:
    """The document in `content` (None if it is empty) and its duplicate keys.

    Raises PlacedError if it is not UTF-8 or YAML, or exceeds a limit.
    """
    text = _decode(content)
    tree = _Tree()
    try:
        for event in yaml.parse(text, Loader=_Loader):
            tree.feed(event)
    except yaml.YAMLError as error:
        raise _not_yaml(error, text) from error
    return tree.root, tree.duplicates


def _decode(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8", "replace")
        byte = error.object[error.start]
        sentence = f"the byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"
        raise PlacedError(_position(before), sentence) from error
    if odd := _NOT_YAML.search(text):
        raise PlacedError(
            _position(text[: odd.start()]),
            f"the character U+{ord(odd[0]):04X} is not allowed in YAML; remove it",
        )
    return text


def _position(before: str) -> Where:
    """The position that follows the text `before`."""
    return Where(before.count("\n") + 1, len(before) - before.rfind("\n"))


def _not_yaml(error: yaml.YAMLError, text: str) -> PlacedError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = _place(mark) if mark else Where(1, 1)
    lines = text.split("\n")
    line = lines[where.line - 1] if where.line <= len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())] or line[where.column - 1 : where.column] == "\t":
        return PlacedError(where, "YAML is not indented with tabs; use spaces")
    problem = getattr(error, "problem", None) or "it cannot be parsed"
    hint = next((text for words, text in _HINTS.items() if words in problem), "")
    return PlacedError(where, f"this is not YAML: {problem}{hint}")


def _place(mark: Any) -> Where:
    return Where(mark.line + 1, mark.column + 1)


class _Tree:
    """Builds the tree from events."""

    def __init__(self) -> None:
        self.root: Written | None = None
        self.duplicates: list[PlacedError] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._values = 0
        self._aliased = 0
        self._documents = 0

    def feed(self, event: yaml.Event) -> None:
        where = _place(event.start_mark)
        match event:
            case yaml.ScalarEvent():
                self._check_tag(event, where)
                self._values += 1
                scalar = Scalar(where, event.value, quoted=bool(event.style))
                self._remember(event.anchor, _Anchored(scalar, 1, 0))
                self._add(scalar, 0)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._check_tag(event, where)
                self._begin(event, where)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end()
            case yaml.AliasEvent():
                self._alias(str(event.anchor), where)
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise PlacedError(where, "a second YAML document starts here; keep one in a file")

    def _check_tag(self, event: Any, where: Where) -> None:
        if event.tag is not None:
            raise PlacedError(where, f"the tag {event.tag!r} is not supported; write the value without it")

    def _begin(self, event: Any, where: Where) -> None:
        self._values += 1
        self._check_depth(1, where)
        is_map = isinstance(event, yaml.MappingStartEvent)
        self._open.append(_Open(where, is_map, event.anchor, self._values))

    def _end(self) -> None:
        done = self._open.pop()
        written: Written = (
            Map(done.where, tuple(done.pairs.values())) if done.is_map else Sequence(done.where, tuple(done.items))
        )
        size = self._values - done.first_value + 1
        self._remember(done.anchor, _Anchored(written, size, done.height))
        self._add(written, done.height)

    def _alias(self, name: str, where: Where) -> None:
        anchored = self._anchors.get(name)
        if anchored is None:
            raise PlacedError(where, f"the alias '*{name}' has no finished value '&{name}' before it")
        self._check_depth(anchored.height, where)
        self._values += anchored.size
        self._aliased += anchored.size
        if self._aliased > ALIASED_VALUES_MAX:
            raise PlacedError(where, f"aliases add more than {ALIASED_VALUES_MAX} values; write them out")
        self._add(anchored.written, anchored.height)

    def _check_depth(self, height: int, where: Where) -> None:
        if len(self._open) + height > DEPTH_MAX:
            raise PlacedError(where, f"more than {DEPTH_MAX} lists and maps are nested here")

    def _remember(self, anchor: str | None, anchored: _Anchored) -> None:
        if anchor is not None:
            self._anchors[anchor] = anchored

    def _add(self, written: Written, height: int) -> None:
        if not self._open:
            self.root = written
            return
        parent = self._open[-1]
        parent.height = max(parent.height, height + 1)
        if not parent.is_map:
            parent.items.append(written)
        elif parent.key is None:
            parent.key = self._key(written)
        else:
            self._pair(parent, parent.key, written)
            parent.key = None

    def _pair(self, parent: _Open, key: Scalar, written: Written) -> None:
        if key.text not in parent.pairs:
            parent.pairs[key.text] = (key, written)
            return
        line = parent.pairs[key.text][0].where.line
        sentence = f"{key.text!r} occurs twice, first in line {line}; remove one of them"
        self.duplicates.append(PlacedError(key.where, sentence))

    def _key(self, written: Written) -> Scalar:
        if not isinstance(written, Scalar):
            raise PlacedError(written.where, "a list or map cannot be the key of a map")
        if written.text == "<<" and not written.quoted:
            raise PlacedError(written.where, "merge keys ('<<') are not supported; write the keys out")
        return written
