"""The file that holds the configuration of a new minion: its text, and what the minion will make of it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from saltlite.config.load import load_minion
from saltlite.config.minion import MinionConfig
from saltlite.errors import ConfigError


def lines_of(options: Mapping[str, Any]) -> str:
    """The text of the file: a line for each option, with its value as JSON, which is YAML."""
    return "".join(
        f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False, default=str)}\n"
        for name, value in options.items()
    )


def read_back(options: Mapping[str, Any]) -> MinionConfig:
    """What a minion reads in such a file. Raises ConfigError for what it could not read, without values of secrets."""
    with tempfile.TemporaryDirectory(prefix="saltlite-") as folder:
        with open(os.path.join(folder, "minion"), "w", encoding="utf-8") as file:
            file.write(lines_of(options))
        try:
            return load_minion(folder).config
        except ConfigError as error:
            # The places are those of a file that nobody sees.
            raise ConfigError("; ".join(line.split(": ", 1)[-1] for line in str(error).splitlines())) from error
