"""YAML in block style, one entry a minion."""

from __future__ import annotations

import yaml

TYPE_CHECKING = False  # as in every outputter
if TYPE_CHECKING:
    from typing import Any


try:
    from yaml import CSafeDumper as SafeDumper  # fifty times as fast; writes some symbols as escapes
except ImportError:
    from yaml import SafeDumper  # type: ignore[assignment]  # the same interface


INDENT_MIN, INDENT_MAX = 2, 9
"""What YAML's writer can do."""


class _Dumper(SafeDumper):
    """No anchors: two equal values are written twice, so that every minion's part can be read alone."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def output(data: Any, indent: int | None = None, **_kwargs: Any) -> str:
    """Keys sorted, bytes as `!!binary`."""
    text: str = yaml.dump(
        data,
        Dumper=_Dumper,
        default_flow_style=False,
        allow_unicode=True,
        indent=None if indent is None else min(max(indent, INDENT_MIN), INDENT_MAX),
    )
    return text
