"""Parser and writer of sources.list(5), in the one-line and the deb822 format; it opens no file.

A `Document` keeps the text of everything that was not changed, comments included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from saltlite.errors import SaltInvocationError

_LINE = re.compile(
    r"(?P<off>#[#\s]*)?(?P<type>deb|deb-src)[ \t]+(?:\[(?P<options>[^\]]*)\][ \t]*)?"
    r"(?P<uri>cdrom:\[[^\]]*\]\S*|[A-Za-z][A-Za-z0-9+.-]*:\S+)[ \t]+(?P<rest>[^#]*?)[ \t]*(?:#(?P<comment>.*))?"
)
# A comment may begin with the word `deb`: it is a disabled source only if it contains an address.

_FIELDS = {"arch": "Architectures", "lang": "Languages", "target": "Targets"}
"""Options that the two forms call by different names; the others differ in capitals only."""

_LISTS = frozenset({"arch", "lang", "target"})
_OFF = frozenset({"no", "false", "without", "off", "disable", "0"})


@dataclass(slots=True)
class Source:
    """One line or one stanza. `options` has the names and the commas of the one-line format."""

    types: list[str]
    uris: list[str]
    suites: list[str]
    comps: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    disabled: bool = False
    comment: str = ""

    @property
    def architectures(self) -> list[str]:
        """The architectures that it is limited to."""
        return [each for each in self.options.get("arch", "").split(",") if each]

    def copy(self) -> Source:
        """A deep copy."""
        made = replace(self, types=list(self.types), uris=list(self.uris), suites=list(self.suites))
        made.comps, made.options = list(self.comps), dict(self.options)
        return made

    def without(self, kind: str, uri: str, suite: str, comps: list[str]) -> list[Source]:
        """What remains without these components of one type, address and suite, or without all of them for no
        components.
        """
        kept = [comp for comp in self.comps if comp not in comps] if comps else []
        parts = [
            replace(self.copy(), types=[each for each in self.types if each != kind]),
            replace(self.copy(), types=[kind], uris=[each for each in self.uris if each != uri]),
            replace(self.copy(), types=[kind], uris=[uri], suites=[each for each in self.suites if each != suite]),
        ]
        if kept:
            parts.append(replace(self.copy(), types=[kind], uris=[uri], suites=[suite], comps=kept))
        return [part for part in parts if part.types and part.uris and part.suites]

    def lines(self) -> Iterator[tuple[str, str, str, str]]:
        """Type, address, suite and one-line form of each source that it contains."""
        options = " ".join(f"{key}={' '.join(value.split())}" for key, value in self.options.items())
        for uri in self.uris:
            for suite in self.suites:
                for kind in self.types:
                    words = [kind, f"[{options}]" if options else "", uri, suite, *self.comps]
                    text = ("# " if self.disabled else "") + " ".join(word for word in words if word)
                    yield kind, uri, suite, text + (f" # {self.comment}" if self.comment else "")


@dataclass(slots=True)
class _Block:
    """A part of a file: its text, the source in it if any, and that source as it was read."""

    text: str
    source: Source | None = None
    was: Source | None = None


class Document:
    """A file of sources, deb822 if the path ends with `.sources`."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.deb822 = path.endswith(".sources")
        pieces = re.split(r"(\n(?:[ \t\r]*\n)+)" if self.deb822 else r"(?<=\n)", text)
        read = _of_stanza if self.deb822 else _of_line
        self._blocks: list[_Block] = []
        for piece in pieces:
            source = read(piece)
            self._blocks.append(_Block(piece, source, source.copy() if source else None))

    @property
    def sources(self) -> list[Source]:
        """Its sources in their order; `render` writes changes of them."""
        return [block.source for block in self._blocks if block.source is not None]

    def remove(self, source: Source) -> None:
        """Remove a source, with the comments of its stanza."""
        for place, block in enumerate(self._blocks):
            if block.source is source:
                after = self._blocks[place + 1 : place + 2] if self.deb822 else []
                del self._blocks[place : place + 1 + len(after)]
                return

    def replace(self, source: Source, parts: list[Source]) -> None:
        """Replace a source by others; the first of them keeps the stanza and its comments."""
        if not parts:
            self.remove(source)
            return
        for block in self._blocks:
            if block.source is source:
                block.source = parts[0]
        for part in parts[1:]:
            self.add(part)

    def add(self, source: Source) -> None:
        """Append a source."""
        text = "".join(block.text for block in self._blocks)
        if text and not text.endswith("\n"):
            self._blocks.append(_Block("\n"))
        if text.strip() and self.deb822 and not text.endswith("\n\n"):
            self._blocks.append(_Block("\n"))
        self._blocks.append(_Block("", source))

    def render(self) -> str:
        """The text of the file with all changes."""
        parts = []
        for block in self._blocks:
            if block.source is None or block.source == block.was:
                parts.append(block.text)
            elif self.deb822:
                parts.append(_stanza(block.text, block.source))
            else:
                parts.extend(f"{line}\n" for *_, line in block.source.lines())
        return "".join(parts)


def of_text(text: str) -> Source:
    """The source in one line of a user. Raises SaltInvocationError."""
    line = text.strip()
    if any(ord(character) < 32 or ord(character) == 127 for character in line):
        raise SaltInvocationError(f"{text!r} is not a source: it holds control characters.")
    found = _of_line(line)
    if found is None or found.disabled:
        raise SaltInvocationError(
            f"{text!r} is not a source: write it as in 'deb http://deb.debian.org/debian sid main'."
        )
    return found


def is_off(text: str) -> bool:
    """Whether apt reads the word as no."""
    return text.strip().lower() in _OFF


def _of_line(line: str) -> Source | None:
    match = _LINE.fullmatch(line.strip())
    words = match["rest"].split() if match else []
    if match is None or not words:
        return None
    options = dict(part.partition("=")[::2] for part in (match["options"] or "").split())
    return Source(
        [match["type"]],
        [match["uri"]],
        words[:1],
        words[1:],
        {key.lower(): value for key, value in options.items()},
        disabled=match["off"] is not None,
        comment=(match["comment"] or "").strip(),
    )


def _of_stanza(text: str) -> Source | None:
    fields = {name.lower(): value for name, value, _ in _fields(text) if name}
    if not all(fields.get(name) for name in ("types", "uris", "suites")):
        return None
    own = {"types", "uris", "suites", "components", "enabled"}
    options = {}
    for name, value in fields.items():
        if name in own:
            continue
        key = next((short for short, long in _FIELDS.items() if long.lower() == name), name)
        options[key] = ",".join(value.split()) if key in _LISTS else value.strip()
    lists = [fields.get(name, "").split() for name in ("types", "uris", "suites", "components")]
    return Source(lists[0], lists[1], lists[2], lists[3], options, is_off(fields.get("enabled", "yes")))


def _fields(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, value and text of each field; the name is empty for comments and other lines."""
    for part in re.split(r"\n(?![ \t])", text):
        name, colon, value = part.partition(":")
        if part.startswith("#") or not colon or not re.fullmatch(r"[A-Za-z0-9-]+", name):
            yield "", "", part
        else:
            yield name, value, part


def _stanza(text: str, source: Source) -> str:
    wanted = {
        "Types": " ".join(source.types),
        "URIs": " ".join(source.uris),
        "Suites": " ".join(source.suites),
        "Components": " ".join(source.comps),
        "Enabled": "no" if source.disabled else "",
    }
    for key, value in source.options.items():
        shown = value.replace(",", " ") if key in _LISTS else f"\n {value}" if "\n" in value else value
        wanted[_FIELDS.get(key, key.title())] = shown
    left = {name.lower(): (name, value) for name, value in wanted.items()}
    comments = [f"# {line}" for line in source.comment.splitlines()]
    lines = [line for line in comments if line not in text.splitlines()]
    for name, value, part in _fields(text) if text else ():
        if not name:
            lines.append(part)
            continue
        _, now = left.pop(name.lower(), ("", ""))
        if now and now.split() == value.split():
            lines.append(part)
        elif now:
            lines.append(f"{name}: {now}".replace(": \n", ":\n"))
    lines += [f"{name}: {value}".replace(": \n", ":\n") for name, value in left.values() if value]
    return "\n".join(line for line in lines if line) + ("\n" if not text or text.endswith("\n") else "")
