"""YAML in block style."""

from __future__ import annotations

import re

import yaml

from saltlite.model.plain import BIDI_CONTROLS

TYPE_CHECKING = False  # as in every outputter
if TYPE_CHECKING:
    from typing import Any


try:
    from yaml import CSafeDumper as SafeDumper  # 50 times faster; writes some symbols as escapes
except ImportError:
    from yaml import SafeDumper  # type: ignore[assignment]  # the same interface


INDENT_MIN, INDENT_MAX = 2, 9
"""The range that PyYAML accepts."""

# YAML permits these characters, but terminals obey them. Text with one is quoted, so that it can be escaped.
_ESCAPES = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029, *BIDI_CONTROLS)}
_ESCAPED = re.compile(f"[{''.join(map(chr, _ESCAPES))}]")


class _Dumper(SafeDumper):
    """Writes no anchors: equal values are repeated, so that each minion's part can be read alone."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True

    def represent_text(self, data: str) -> yaml.ScalarNode:
        """Quote text that contains a character to escape."""
        if data.isascii() or not _ESCAPED.search(data):
            return self.represent_str(data)
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"')


_Dumper.add_representer(str, _Dumper.represent_text)


def output(data: Any, indent: int | None = None, **_kwargs: Any) -> str:
    """Return the data with sorted keys; bytes as `!!binary`."""
    text: str = yaml.dump(
        data,
        Dumper=_Dumper,
        default_flow_style=False,
        allow_unicode=True,
        indent=None if indent is None else min(max(indent, INDENT_MIN), INDENT_MAX),
    )
    return text if text.isascii() else text.translate(_ESCAPES)
