"""`salt.utils.yamlloader`: YAML as Salt reads it.

A key that stands twice is an error, a number with leading zeros is decimal, a date is a text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, SequenceNode

__all__ = ["SaltYamlSafeLoader", "load", "safe_load"]

_MERGE = "tag:yaml.org,2002:merge"
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class SaltYamlSafeLoader(_BASE):  # type: ignore[misc] # PyYAML chooses the class when it is imported
    """`dictclass` is the class of the mappings."""

    def __init__(self, stream: Any, dictclass: type = dict) -> None:
        super().__init__(stream)
        self.dictclass = dictclass

    def construct_yaml_map(self, node: MappingNode) -> Iterator[Any]:
        made = self.dictclass()
        yield made
        made.update(self.construct_mapping(node))

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        if not isinstance(node, MappingNode):
            raise ConstructorError(None, None, f"expected a mapping node, but found {node.id}", node.start_mark)
        self.flatten_mapping(node)
        made = self.dictclass()
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=deep)
            problem = _problem_of(key, key_node, made)
            if problem:
                raise ConstructorError("while constructing a mapping", node.start_mark, problem, key_node.start_mark)
            made[key] = self.construct_object(value_node, deep=deep)
        return made

    def construct_scalar(self, node: Any) -> Any:
        if node.tag == "tag:yaml.org,2002:int" and not node.value.startswith(("0b", "0x")):
            node.value = node.value.lstrip("0") or "0"
        return super().construct_scalar(node)

    def construct_yaml_str(self, node: Any) -> Any:
        return self.construct_scalar(node)

    def construct_yaml_binary(self, node: Any) -> bytes:
        try:
            data = self.construct_scalar(node).encode("ascii")
            return base64.decodebytes(data + b"=" * (-len(data) % 4))
        except (UnicodeEncodeError, binascii.Error) as error:
            raise ConstructorError(None, None, f"the data is not base64: {error}", node.start_mark) from error

    def flatten_mapping(self, node: MappingNode) -> None:
        merged: list[tuple[Node, Node]] = []
        own: list[tuple[Node, Node]] = []
        for key, value in node.value:
            if key.tag == _MERGE:
                merged += self._merged(value, node)
                continue
            if key.tag == "tag:yaml.org,2002:value":
                key.tag = "tag:yaml.org,2002:str"
            own.append((key, value))
        names = [key.value for key, _ in own]
        node.value = [(key, value) for key, value in merged if key.value not in names] + own

    def _merged(self, value: Node, node: MappingNode) -> list[tuple[Node, Node]]:
        """The items of the mappings that `<<` names; of several, the last one first."""
        parts = [value] if isinstance(value, MappingNode) else value.value if isinstance(value, SequenceNode) else []
        wrong: Any = next((one for one in parts if not isinstance(one, MappingNode)), None if parts else value)
        if wrong is not None:
            problem = f"expected a mapping for merging, but found {wrong.id}"
            raise ConstructorError("while constructing a mapping", node.start_mark, problem, wrong.start_mark)
        found: list[tuple[Node, Node]] = []
        for part in reversed(parts):
            self.flatten_mapping(part)
            found += part.value
        return found


def _problem_of(key: object, node: Node, made: Any) -> str:
    try:
        hash(key)
    except TypeError:
        return f"found unacceptable key {node.value}"
    return f"found conflicting ID '{key}'" if key in made else ""


for _tag, _constructor in (
    ("map", SaltYamlSafeLoader.construct_yaml_map),
    ("str", SaltYamlSafeLoader.construct_yaml_str),
    ("timestamp", SaltYamlSafeLoader.construct_scalar),
    ("binary", SaltYamlSafeLoader.construct_yaml_binary),
    ("python/unicode", SaltYamlSafeLoader.construct_scalar),
):
    SaltYamlSafeLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _constructor)


def load(stream: Any, Loader: Any = SaltYamlSafeLoader) -> Any:
    """What a YAML text or file means. Raises YAMLError."""
    return yaml.load(stream, Loader=Loader)  # noqa: S506 - it is safe unless the caller names another one


def safe_load(stream: Any, Loader: Any = SaltYamlSafeLoader) -> Any:
    """As `load`."""
    return load(stream, Loader)
