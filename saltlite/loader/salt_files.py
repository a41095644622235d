"""The files that were written for Salt's own loader, below everything else: of installed extensions, then of Salt.

They are found and read only when somebody asks for a function that nobody above them offers. On a minion that is a
job's process: the daemon, which every job is forked from, holds nothing of them. What they promise is read from their
text, once, and remembered in `cachedir`.

What Salt's modules of the names RESERVED do is to talk to Salt's daemons or to its loader, of which there are none
here; its grains of that name are about the process that looks for them. They are not loaded, also where saltlite has
no function of that name.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping

from saltlite.loader.entrypoints import SALTS
from saltlite.loader.finder import SALT_RANK, Index, ModuleFile
from saltlite.loader.indexfile import index_kept_in
from saltlite.loader.places import GRAINS, MODULES, SALT, Layer, entry_places
from saltlite.loader.salt_names import salt_folder

RESERVED: Mapping[str, frozenset[str]] = {
    MODULES: frozenset({
        "beacons", "cmd", "config", "cp", "event", "grains", "mine", "pillar", "publish", "saltutil", "schedule",
        "state", "sys", "test",
    }),
    GRAINS: frozenset({"minion_process"}),
}  # fmt: skip
"""Type -> names that are saltlite's, or nobody's."""


class SaltFiles:
    """The files of one type that were written for Salt. `hidden` are file names that somebody above has taken."""

    def __init__(self, layer: Layer, hidden: frozenset[str]) -> None:
        self._layer = layer
        self._hidden = hidden

    def names(self) -> list[str]:
        """Every virtual name that some file claims, sorted."""
        return [name for name in self._index.names() if any(True for _ in self.claimants(name))]

    def claimants(self, name: str) -> Iterator[ModuleFile]:
        """The files that may provide the virtual name, in the order in which they are asked."""
        if not self.is_reserved(name):
            yield from (file for file in self._index.claimants(name) if file.stem not in self._hidden)

    def file(self, stem: str) -> ModuleFile | None:
        """The file with that file name (without `.py`)."""
        return None if stem in self._hidden else self._index.file(stem)

    def files(self) -> list[ModuleFile]:
        """All files that may be loaded."""
        return [
            file
            for file in self._index.files
            if file.stem not in self._hidden and not all(map(self.is_reserved, file.claims))
        ]

    def function_names(self) -> list[str]:
        """Every `module.function` that the files promise, whether or not they will load here; sorted."""
        return sorted({
            f"{name}.{fun}"
            for file in self.files()
            for name in file.claims
            for fun in file.functions
            if not self.is_reserved(name)
        })  # fmt: skip

    def is_reserved(self, name: str) -> bool:
        """Whether no file of Salt may answer to that name."""
        return name in RESERVED.get(self._layer.kind, ())

    def refusal(self, name: str) -> str:
        """Why Salt's function of that name is not to be had, where it has one; else nothing."""
        module, _, function = name.partition(".")
        if self.is_reserved(module) and any(function in file.functions for file in self._index.claimants(module)):
            return f"Salt has it; its own module {module!r} is never loaded here"
        return ""

    @functools.cached_property
    def _index(self) -> Index:
        kind = self._layer.kind
        places = entry_places(SALTS, kind)
        if salt_folder():
            places.append((SALT, os.path.join(salt_folder(), kind)))
        layers = [Layer(name, path, kind, self._layer.forms, installed=True) for name, path in places]
        return index_kept_in(_own_file(self._layer.path, f"{SALT}-{kind}"), layers, first_rank=SALT_RANK)


def _own_file(folder: str, name: str) -> str:
    """The file of that name, if the folder above is this user's: what belongs to others is no place to write to."""
    try:
        own = bool(folder) and os.stat(os.path.dirname(folder)).st_uid == os.geteuid()
    except OSError:
        own = False
    return os.path.join(folder, name) if own else ""
