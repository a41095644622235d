"""Which shipped functions take `**kwargs` in Salt and not here, read from both texts; prints JSON.

`differ` are those that calls from other modules do not treat like Salt, and `stale` the rows of TAKES_MORE that are not
needed any more.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from typing import Any

from saltlite.loader.cross_calls import TAKES_MORE
from saltlite.loader.index import build_index
from saltlite.loader.loader import read_documents
from saltlite.loader.search_path import SHIPPED, salt_folder, search_layers


def main() -> None:
    theirs = dict(_of_salt())
    compared, differ = 0, set()
    for file in build_index([layer for layer in search_layers({}) if layer.name == SHIPPED]).files:
        for name, ours in read_documents(file).functions.items():
            arguments = theirs.get(file.stem, {}).get(name)
            if arguments is None:
                continue
            compared += 1
            if arguments.kwarg and not ours.kwargs:
                differ.add(f"{file.claims[0]}.{name}")
    known = {f"{module}.{name}" for module, names in TAKES_MORE.items() for name in names}
    print(json.dumps({"compared": compared, "differ": sorted(differ - known), "stale": sorted(known - differ)}))


def _of_salt() -> Iterator[tuple[str, dict[str, ast.arguments]]]:
    folder = os.path.join(salt_folder(), "modules")
    for name in os.listdir(folder):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                tree = ast.parse(stream.read())
            alias: dict[str, Any] = {}
            for one in tree.body:
                if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "__func_alias__":
                    alias = ast.literal_eval(one.value)
            functions = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
            yield name.removesuffix(".py"), {alias.get(one.name, one.name): one.args for one in functions}


if __name__ == "__main__":
    main()
