"""Actions for machines (`-a`) and functions for providers (`-f`), with their settings as one map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from saltlite.cloud.api import port
from saltlite.cloud.api.exceptions import SaltCloudSystemExit
from saltlite.cloud.program.destroy import destroy
from saltlite.cloud.program.program import Program
from saltlite.cloud.program.query import Answers, ask_all, find
from saltlite.cloud.rules import listing
from saltlite.cloud.rules.providers import Provider
from saltlite.errors import SaltliteError

_OF_THE_CORE = {"create": "-p PROFILE", "bootstrap": "-p PROFILE"}
"""Functions of drivers that are no actions -> what is meant."""


def action(
    program: Program, function: str, names: Sequence[str], kwargs: Mapping[str, Any], providers: Sequence[Provider]
) -> Answers:
    """Call an action for each of these machines: `{alias: {driver: {machine: answer}}}`.

    Raises SaltliteError for a machine that is not there; what fails for one machine keeps no other from its turn.
    """
    if function in _OF_THE_CORE:
        raise SaltCloudSystemExit(f"{function} is no action: machines are made with {_OF_THE_CORE[function]} NAME")
    answers = Answers()
    program.learn(kwargs)
    for name, driver in find(program, names, providers).items():
        try:
            if function == "destroy":
                answer = destroy(program, driver, name)
            else:
                with port.running(program):
                    answer = driver.action(function, name, kwargs)
        except SaltliteError as error:
            answers.errors[name] = error
        else:
            of_alias = answers.found.setdefault(driver.provider.alias, {})
            of_alias.setdefault(driver.provider.driver, {})[name] = listing.plain(answer)
    return answers


def function(program: Program, name: str, provider: Provider, kwargs: Mapping[str, Any]) -> Answers:
    """Call a function for a provider: `{alias: {driver: answer}}`."""
    program.learn(kwargs)
    return ask_all(program, [provider], lambda driver: listing.plain(driver.provider_function(name, kwargs)))
