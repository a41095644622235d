"""`salt.utils.yaml`: the loader and the dumpers in one module."""

from yaml import YAMLError, parser, scanner

from saltlite.salt.utils.yamldumper import (
    IndentedSafeOrderedDumper,
    OrderedDumper,
    SafeOrderedDumper,
    dump,
    get_dumper,
    safe_dump,
)
from saltlite.salt.utils.yamlloader import SaltYamlSafeLoader, load, safe_load

__all__ = [
    "IndentedSafeOrderedDumper",
    "OrderedDumper",
    "SafeOrderedDumper",
    "SaltYamlSafeLoader",
    "YAMLError",
    "dump",
    "get_dumper",
    "load",
    "parser",
    "safe_dump",
    "safe_load",
    "scanner",
]
