"""An edit of one text file, from finding the file to the answer: what all functions have in common that edit here.

What belongs here: the file that has to be there, its text before and after, writing it with a copy, and what the caller
is told. What is done to the text belongs to the functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from saltlite.errors import SaltInvocationError
from saltlite.plugins.modules._safe_files import checked_path, regular, shown

from ._backups import write_keeping
from ._text import Encoding, diff, lines_of, read_text


class Edit(NamedTuple):
    """A file that is being edited: its path, its text, and the way back to bytes."""

    path: str
    old: str
    way: Encoding

    def finished(self, new: str, *, suffix: str, dry: bool, told: bool, keep_hard_links: bool = True) -> str | bool:
        """Write the new text, unless `dry`; the diff, or without `told` whether there is a difference.

        `suffix` is of the copy of the old file, "" for none. Raises CommandExecutionError; a dry edit does, too, when
        the encoding of the file cannot express the text.
        """
        content = self.way.encode(new)
        if new != self.old and not dry:
            write_keeping(self.path, content, suffix=suffix, keep_hard_links=keep_hard_links)
        return diff(lines_of(self.old), lines_of(new)) if told else new != self.old


def begun(path: Any, encoding: str | None = None, *, to_edit: bool = True) -> Edit:
    """Begin to edit a file, or with `to_edit` False only look at it.

    Raises SaltInvocationError when there is none, and what `read_text` raises.
    """
    place = checked_path(path)
    if regular(place) is None:
        raise SaltInvocationError(f"File not found: {shown(place)}")
    return Edit(place, *read_text(place, encoding, to_edit=to_edit))
