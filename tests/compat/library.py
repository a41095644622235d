"""The functions of our library and of Salt's, called with the same values.

    SALTLITE_COMPAT_PYTHON -m tests.compat.library      prints JSON: the calls whose results differ

for a Python that has both Salt and saltlite. The calls are those of the table `tests/data/salt_library.txt`, and CASES
of each function of FUNCTIONS with random values, which are the same in each run.
"""

from __future__ import annotations

import copy
import importlib
import json
import logging
import pprint
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.salt_library import result, table

OURS = "saltlite.salt"
CASES = 1500
_WORDS = ["a", "b", "A", "ab", "a:b", "*", "a*", "", "1", "0", "-1", "1.5", "true", "None", "ä", " a ", "[x]", "{a: b}"]
_VERSIONS = ["1", "1.2", "1.2.3", "1.10", "2:1.0", "1.0-1", "1.0rc1", "1.0a", "1.0.post1", "v1.0", "1.0.dev3", "x", ""]
_URLS = ["salt://", "/", "|", "a", "?saltenv=b", "?env=c"]
_YAML = ["a: 1", "- b", "b: [1, 2]", "c: 010", " d: e"]

Draw = Callable[[random.Random], Any]


def word(choice: random.Random) -> Any:
    return choice.choice(_WORDS)


def version(choice: random.Random) -> Any:
    return choice.choice(_VERSIONS)


def flag(choice: random.Random) -> Any:
    return choice.random() < 0.5


def path(choice: random.Random) -> Any:
    return ":".join(choice.choice(["a", "b", "c", "0", "1", "*"]) for _ in range(choice.randint(1, 4)))


def value(choice: random.Random, depth: int = 3) -> Any:
    """Nested data of few keys, so that two of them often meet."""
    kind = choice.randint(0, 9) if depth else choice.randint(4, 9)
    if kind <= 1:
        return mapping(choice, depth)
    if kind <= 3:
        return [value(choice, depth - 1) for _ in range(choice.randint(0, 3))]
    return choice.choice([None, True, False, 0, 1, 2.5, "a", "b", "x:y", "1"])


def mapping(choice: random.Random, depth: int = 3) -> Any:
    keys = choice.sample(["a", "b", "c", "0", 1], choice.randint(0, 4))
    return {key: value(choice, depth - 1) for key in keys}


def rows(choice: random.Random) -> Any:
    return [value(choice, 2) for _ in range(choice.randint(0, 3))]


FUNCTIONS: list[tuple[str, list[Draw]]] = [
    ("utils.args.yamlify_arg", [word]),
    ("utils.args.parse_function", [lambda choice: "".join(choice.choices("ab.,(=)[]{} ", k=12))]),
    ("utils.args.split_input", [value]),
    ("utils.data.compare_dicts", [mapping, mapping]),
    ("utils.data.compare_lists", [rows, rows]),
    ("utils.data.decode", [value]),
    ("utils.data.encode", [value]),
    ("utils.data.filter_falsey", [value, lambda choice: choice.randint(0, 3)]),
    ("utils.data.flatten", [rows, lambda choice: choice.choice([None, 0, 1, 2]), flag]),
    ("utils.data.get_value", [mapping, lambda choice: choice.choice(["a:b", "{k}:b", "a:{i}:c", "a", "{x}"])]),
    ("utils.data.is_dictlist", [value]),
    ("utils.data.is_true", [value]),
    ("utils.data.recursive_diff", [mapping, mapping, lambda choice: choice.choice([None, ["a"]]), flag, flag]),
    ("utils.data.repack_dictlist", [rows, flag, flag]),
    ("utils.data.simple_types_filter", [value]),
    ("utils.data.subdict_match", [mapping, path]),
    ("utils.data.to_lowercase", [value]),
    ("utils.data.traverse_dict", [mapping, path]),
    ("utils.data.traverse_dict_and_list", [mapping, path]),
    ("utils.dictdiffer.deep_diff", [mapping, mapping]),
    ("utils.dictupdate.merge", [mapping, mapping, lambda choice: choice.choice(["smart", "recurse", "list", "none"])]),
    ("utils.dictupdate.update", [mapping, mapping, flag, flag]),
    ("utils.jid.is_jid", [value]),
    ("utils.json.dumps", [value]),
    ("utils.locales.normalize_locale", [lambda choice: "".join(choice.choice("aB_.@ -8") for _ in range(8))]),
    ("utils.path.join", [lambda choice: choice.choice(["/a", "a", "", "/", "a/../b", "//a"]) for _ in range(3)]),
    ("utils.pkg.rpm.version_to_evr", [version]),
    ("utils.stringutils.camel_to_snake_case", [lambda choice: "".join(choice.choice("aB1_C") for _ in range(6))]),
    ("utils.stringutils.expr_match", [word, word]),
    ("utils.stringutils.human_to_bytes", [lambda choice: "".join(choice.choice("12. KMGib") for _ in range(5))]),
    ("utils.stringutils.is_binary", [lambda choice: bytes(choice.choices([0, 1, 7, 65, 195, 164, 255], k=6))]),
    ("utils.stringutils.to_num", [word]),
    ("utils.url.parse", [lambda choice: "".join(choice.choices(_URLS, k=3))]),
    ("utils.versions.compare", [version, lambda choice: choice.choice(["<", "<=", "==", "!=", ">=", ">"]), version]),
    ("utils.versions.version_cmp", [version, version, flag]),
    ("utils.yaml.safe_dump", [value]),
    ("utils.yaml.safe_load", [lambda choice: "\n".join(choice.choices(_YAML, k=3))]),
]  # fmt: skip


def differences() -> Iterator[str]:
    """`call: theirs, ours` for each that differs."""
    for expression, expected in table():
        theirs = result(expression, "salt")
        if theirs != expected:
            yield f"{expression}: Salt gives {theirs}, and the table says {expected}"
    for name, draws in FUNCTIONS:
        choice = random.Random(name)
        functions = [_function(f"{package}.{name}") for package in ("salt", OURS)]
        for _ in range(CASES):
            given = [draw(choice) for draw in draws]
            both = [_shown(function, copy.deepcopy(given)) for function in functions]
            if both[0] != both[1]:
                yield f"{name}(*{given!r}): {both[0]}, {both[1]}"


def _function(name: str) -> Callable[..., Any]:
    module, _, last = name.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(module), last)
    return found


def _shown(function: Callable[..., Any], given: list[Any]) -> str:
    try:
        return pprint.pformat(function(*given))
    except Exception as error:  # noqa: BLE001 - an error is a result
        return f"raises {type(error).__name__}"


def main() -> None:
    """See the docstring of the file."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    json.dump(list(differences()), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
