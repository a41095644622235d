"""Keys of minions by state."""

from __future__ import annotations

from saltlite.model.plain import printable
from saltlite.plugins.output import nested
from saltlite.plugins.output.nested import BAD, CHANGED, KEY, TEXT, Paint

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from typing import Any

_HEADINGS = {
    "minions": ("Accepted Keys:", TEXT),
    "minions_denied": ("Denied Keys:", BAD),
    "minions_pre": ("Unaccepted Keys:", BAD),
    "minions_rejected": ("Rejected Keys:", CHANGED),
    "minions_revoked": ("Revoked Keys:", CHANGED),
    "local": ("Local Keys:", TEXT),
}


def _are_keys(data: dict[str, Any]) -> bool:
    return all(isinstance(keys, dict | list | tuple) for keys in data.values())


def _lines(value: Any) -> str:
    """A fingerprint, or the lines of a public key."""
    return "\n".join(printable(line) for line in str(value).rstrip("\n").split("\n"))


def output(data: Any, color: bool = False, **kwargs: Any) -> str:
    """Return the ids, or the fingerprints by id, under Salt's headings; other data as `nested` prints it."""
    if not isinstance(data, dict) or not data or not set(data) <= set(_HEADINGS) or not _are_keys(data):
        return nested.output(data, color=color, **kwargs)
    paint, text = Paint(color=color), ""
    for name, (heading, code) in _HEADINGS.items():
        if name not in data:
            continue
        text += paint(KEY, heading) + "\n"
        keys = data[name]
        for key in sorted(keys, key=str):
            shown = paint(code, printable(str(key)))
            text += f"{shown}:  {_lines(keys[key])}\n" if isinstance(keys, dict) else f"{shown}\n"
    return text
