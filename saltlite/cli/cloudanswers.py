"""What `saltlite cloud` prints and asks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from saltlite.cli.configs import config_dir_of
from saltlite.cli.custom_output import master_opts
from saltlite.cli.printing import Printing
from saltlite.cloud.rules.profiles import explanation as explain
from saltlite.errors import RefusedError, UsageError
from saltlite.model.redaction import is_secret_name
from saltlite.model.secretargs import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.cloud.program.program import Program

_KEY = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


def printed(value: Any, parsed: Parsed, console: Console) -> None:
    """Print data in the format that was asked for."""
    printing(parsed, console).show(value)


def printing(parsed: Parsed, console: Console) -> Printing:
    """How it is printed. Raises UsageError when there is no such outputter."""
    return Printing(parsed, console, lambda: master_opts(config_dir_of(parsed)))


def confirm(what: str, parsed: Parsed, console: Console) -> None:
    """Return when a person agrees, or -y did. Raises RefusedError, and UsageError where nobody is there to ask."""
    if parsed.on("assume_yes"):
        return
    if not console.can_ask():
        raise UsageError(f"{what} Nobody is there to ask: add -y, and it is done")
    console.error(what)
    if not console.ask("Proceed?"):
        raise RefusedError("nothing was done")


def split_words(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Names, and the settings behind them as `KEY=VALUE`; values are texts. Raises UsageError for a key twice."""
    names: list[str] = []
    settings: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not _KEY.fullmatch(key):
            names.append(word)
        elif key in settings:
            raise UsageError(f"{key} is given twice")
        else:
            settings[key] = value
    return names, settings


def print_explanation(rows: Mapping[str, Any], parsed: Parsed, console: Console) -> None:
    """Print what `explanation` found: a line for each setting, or data where a format is asked for."""
    if "out" in parsed.options:
        printed(rows, parsed, console)
        return
    for name, row in rows.items():
        over = "".join(f", over {one}" for one in row.get("over", ()))
        console.data(f"{name}: {row['value']}\n    {row['from']}{over}\n")


def explanation(program: Program, profile: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """`{setting: {value, from, over}}` of a machine of this profile; secrets are told of and not shown."""
    wanted = program.catalogue.profile(profile)
    rows = {}
    for row in explain(wanted, program.levels(wanted, None, given)):
        hidden = any(is_secret_name(part) for part in row.path)
        rows[":".join(row.path)] = {
            "value": HIDDEN if hidden else program.secrets.value(row.value),
            "from": row.origins[0] if row.origins else "",
            **({"over": list(row.origins[1:])} if len(row.origins) > 1 else {}),
        }
    return rows


def errors_of(program: Program) -> list[str]:
    """Sentences about settings that drivers have missed."""
    return [
        f"{where}: {shown} lacks the setting {' and '.join(map(repr, missing))}"
        for what, missing in program.lacking.items()
        for where, shown in [_place_of(program, what)]
    ]


def _place_of(program: Program, what: str) -> tuple[str, str]:
    """Where `alias:driver`, or `profile NAME`, is written, and how it is called."""
    alias, _, driver = what.partition(":")
    provider = program.catalogue.providers.get(alias, {}).get(driver)
    if provider is not None:
        return provider.settings.where, f"provider {alias}"
    profile = program.catalogue.profiles.get(what.removeprefix("profile "))
    return (profile.settings.where if profile is not None else program.opts["conf_file"]), what
