"""What callers give: names, lists of names, templates in names, how much of a list to return."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

TRIMMED_TO = 100
"""How many names are returned with `trim_output=True`."""


def operand(name: Any) -> str:
    """A file name that may stand in an argument list. Raises SaltInvocationError."""
    text = os.path.expanduser(str(name))
    if not text or text.startswith("-"):
        raise SaltInvocationError(f"{text!r} would be taken for an option: give an absolute path, or begin it with ./.")
    if "\0" in text or "\n" in text:
        raise SaltInvocationError(f"{text!r} has a line break or NUL in it, which no archive can be given by.")
    return text


def listed(names: Any) -> list[str]:
    """The names of a list, or of a text with commas between them."""
    if names is None:
        return []
    return [str(each).strip() for each in (names if isinstance(names, list | tuple) else str(names).split(","))]


def expanded(sources: Any, cwd: str | None) -> list[str]:
    """The paths that sources name, globs among them expanded from `cwd`; those that match nothing are left out."""
    from glob import glob

    found: list[str] = []
    for source in listed(sources):
        has_wildcard = any(each in source for each in "*?[")
        found += sorted(glob(source, root_dir=cwd)) if has_wildcard else [source]
    return found


def rendered(value: Any, template: str | None) -> Any:
    """The text, or each of a list, as a template makes it of grains and pillar; as it is without a template."""
    if not template or value is None:
        return value
    if isinstance(value, list | tuple):
        return [rendered(each, template) for each in value]
    made = __salt__["file.apply_template_on_contents"](str(value), template, {}, {}, "base")
    if isinstance(made, dict):
        raise SaltInvocationError(str(made["comment"]))
    return made


def trimmed(files: list[str], trim_output: bool | int) -> list[str]:
    """The first of them, and a line that says so, where the caller wants no more."""
    count = TRIMMED_TO if trim_output is True else int(trim_output)
    if not trim_output or len(files) <= count:
        return files
    return [*files[:count], f"List trimmed after {count} files."]
