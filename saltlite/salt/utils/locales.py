"""`salt.utils.locales`: names of locales."""

from __future__ import annotations

import sys


def get_encodings() -> list[str]:
    """Encodings to try, the system's first."""
    return list(dict.fromkeys((sys.getdefaultencoding(), "utf-8", "latin-1")))


def split_locale(loc: str) -> dict[str, str]:
    """The parts of `language_territory.codeset@modifier charmap`; "" for those that are missing."""
    rest, _, charmap = loc.partition(" ")
    rest, _, modifier = rest.partition("@")
    rest, _, codeset = rest.partition(".")
    language, _, territory = rest.partition("_")
    return {
        "charmap": charmap,
        "modifier": modifier,
        "codeset": codeset,
        "language": language,
        "territory": territory,
    }


def join_locale(comps: dict[str, str]) -> str:
    """The name of a locale of its parts."""
    marks = (("territory", "_"), ("codeset", "."), ("modifier", "@"), ("charmap", " "))
    return comps["language"] + "".join(f"{mark}{comps[part]}" for part, mark in marks if comps.get(part))


def normalize_locale(loc: str) -> str:
    """The name as `locale -a` prints it: `en_US.UTF-8 UTF-8` -> `en_US.utf8`."""
    comps = split_locale(loc)
    codeset = comps["codeset"].lower().replace("-", "")
    return join_locale({**comps, "territory": comps["territory"].upper(), "codeset": codeset, "charmap": ""})
