"""The pages of the documentation that ship in `saltlite/docs`: their names, titles and texts."""

from __future__ import annotations

import os

import saltlite

DOCS = os.path.join(os.path.dirname(saltlite.__file__), "docs")
_ENDING = ".md"


def titles() -> dict[str, str]:
    """The name of each page and its title, in the order of their names."""
    names = sorted(name.removesuffix(_ENDING) for name in os.listdir(DOCS) if name.endswith(_ENDING))
    return {name: page(name).partition("\n")[0].removeprefix("# ") for name in names}


def page(name: str) -> str:
    """The text of a page that `titles` names, in Markdown."""
    with open(os.path.join(DOCS, name + _ENDING), encoding="utf-8") as file:
        return file.read()
