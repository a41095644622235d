"""`salt.utils.yamldumper`: YAML as Salt writes it, with ordered dicts in their order and characters beyond ASCII."""

from __future__ import annotations

import collections
from typing import Any

import yaml

__all__ = ["IndentedSafeOrderedDumper", "OrderedDumper", "SafeOrderedDumper", "dump", "get_dumper", "safe_dump"]

_DUMPER: Any = getattr(yaml, "CDumper", yaml.Dumper)
_SAFE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class OrderedDumper(_DUMPER):  # type: ignore[misc] # PyYAML chooses the class when it is imported
    """For any object; ordered dicts are maps."""


class SafeOrderedDumper(_SAFE):  # type: ignore[misc] # as above
    """For plain data; ordered dicts are maps, and what is no plain data is NULL."""


class IndentedSafeOrderedDumper(yaml.SafeDumper):
    """As SafeOrderedDumper, with lists below their key indented by two spaces."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's signature
        super().increase_indent(flow, indentless=False)


def _represent_ordered(dumper: Any, data: Any) -> Any:
    return dumper.represent_dict(list(data.items()))


def _represent_unknown(dumper: Any, _data: Any) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:null", "NULL")


_class: Any
for _class in (OrderedDumper, SafeOrderedDumper, IndentedSafeOrderedDumper):
    _class.add_representer(collections.OrderedDict, _represent_ordered)
    _class.add_representer(collections.defaultdict, yaml.representer.SafeRepresenter.represent_dict)
for _class in (SafeOrderedDumper, IndentedSafeOrderedDumper):
    _class.add_multi_representer(collections.OrderedDict, _represent_ordered)
    _class.add_representer(None, _represent_unknown)


def get_dumper(dumper_name: str) -> Any:
    """The class of that name, or None."""
    known = (OrderedDumper, SafeOrderedDumper, IndentedSafeOrderedDumper)
    return next((one for one in known if one.__name__ == dumper_name), None)


def dump(data: Any, stream: Any = None, **kwargs: Any) -> Any:
    """The YAML of any object, or None if it was written to a stream."""
    return yaml.dump(data, stream, **{"allow_unicode": True, "default_flow_style": None, **kwargs})


def safe_dump(data: Any, stream: Any = None, **kwargs: Any) -> Any:
    """The YAML of plain data, or None if it was written to a stream."""
    return dump(data, stream, **{"Dumper": SafeOrderedDumper, **kwargs})
