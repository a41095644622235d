"""YAML in block style, one entry a minion."""

from __future__ import annotations

import yaml

TYPE_CHECKING = False  # as in every outputter
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from saltlite.cli.render.outputters import Paint


try:
    from yaml import CSafeDumper as SafeDumper  # fifty times as fast; writes some symbols as escapes
except ImportError:
    from yaml import SafeDumper  # type: ignore[assignment]  # the same interface


class _Dumper(SafeDumper):
    """No anchors: two equal values are written twice, so that every minion's part can be read alone."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def render(returns: Mapping[str, Any], paint: Paint) -> str:  # noqa: ARG001 - YAML has no colours
    """Keys sorted, bytes as `!!binary`."""
    return _dump(dict(returns)) if returns else ""


def alone(value: Any, paint: Paint) -> str:  # noqa: ARG001 - as above
    """The value as a document."""
    return _dump(value)


def _dump(value: Any) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, default_flow_style=False, allow_unicode=True)
    return text
