"""Regular expressions over minion ids; as in Salt they match from the start of the id, not to its end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from saltlite.errors import UsageError
from saltlite.model.ids import MinionId


def match_pcre(expression: str, ids: Sequence[MinionId]) -> Iterable[MinionId]:
    """The ids that match. Raises UsageError, with the position, for what is no regular expression."""
    try:
        pattern = re.compile(expression)
    except (OverflowError, RecursionError):
        raise UsageError("the regular expression of -E is too large or too deeply nested") from None
    except re.error as error:
        where = f" at position {error.pos}" if error.pos is not None else ""
        raise UsageError(f"-E {expression!r} is not a regular expression: {error.msg}{where}") from None
    return [minion for minion in ids if pattern.match(minion)]
