"""`CloudClient`: machines of clouds for programs, as `salt.cloud.CloudClient` is for Salt; and what runners know as
`__cloud__`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from saltlite.client.local import LocalClient
from saltlite.cloud.program import actions, app, query
from saltlite.cloud.program.files import load_map
from saltlite.cloud.program.parallel import Done
from saltlite.cloud.program.program import Program
from saltlite.cloud.program.query import Answers
from saltlite.cloud.rules.foreign import of_this_host
from saltlite.cloud.rules.providers import Provider
from saltlite.errors import CommandExecutionError, SaltliteError

ERROR = "Error"
"""The key under which the answer of what failed has the sentence why, as in Salt."""

MAPS = "cloud.maps.d"
"""The folder of the maps that can be run from here, in that of the configuration."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")

QUERIES: Mapping[str, Callable[[Program, Sequence[Provider]], Answers]] = {
    "list_nodes": query.machines,
    "list_nodes_full": query.machines_full,
    "list_nodes_select": query.machines_selected,
}


class CloudClient:
    """Every method answers plain data, and raises CommandExecutionError with the sentence of whatever went wrong.

    What fails for one machine or provider stands in its place as `{"Error": sentence}`; `failed` is then true. Settings
    that name files of this host, or options of ssh, are refused: who calls may have no shell here, and shall get none.
    """

    def __init__(self, config_dir: str, client: LocalClient) -> None:
        self._config_dir = config_dir
        self._client = client
        self.failed = False

    def profile(self, profile: str, names: Sequence[str], *, parallel: bool = False, **settings: Any) -> dict[str, Any]:
        """Make machines of a profile; `settings` win over those that it has: `{name: what its driver says}`."""
        require_foreign(settings)
        return self._made(lambda: app.make_machines(self._program, profile, names, settings, parallel=parallel))

    def map_run(self, name: str, *, parallel: bool = False, **settings: Any) -> dict[str, Any]:
        """Make the machines of a map that are not there: `name` is that of a file in MAPS of the configuration."""
        require_foreign(settings)
        if not _NAME.fullmatch(name):
            raise CommandExecutionError(f"{name!r} is no name of a map: say that of a file in {MAPS}")

        def make() -> Done:
            machines = load_map(os.path.join(self._config_dir, MAPS, name))
            there = app.there_of_map(self._program, machines)
            return app.make_map(self._program, machines, settings, there, parallel=parallel)

        return self._made(make)

    def destroy(self, names: Sequence[str], *, provider: str = "all", parallel: bool = False) -> dict[str, Any]:
        """Destroy these machines, with the keys of their minions."""
        return self._made(
            lambda: app.destroy_machines(self._program, names, self._providers(provider), parallel=parallel)
        )

    def action(self, fun: str, names: Sequence[str], *, provider: str = "all", **kwargs: Any) -> dict[str, Any]:
        """Call an action for these machines, but not `destroy`: `{alias: {driver: {name: answer}}}`."""
        # Who may run one of the two may not have been given the other.
        if fun == "destroy":
            raise CommandExecutionError("destroy is no action here: machines are destroyed by cloud.destroy")
        require_foreign(kwargs)
        return self._answered(lambda: actions.action(self._program, fun, names, kwargs, self._providers(provider)))

    def function(self, fun: str, provider: str, **kwargs: Any) -> dict[str, Any]:
        """Call a function for a provider: `{alias: {driver: answer}}`."""
        require_foreign(kwargs)
        return self._answered(
            lambda: actions.function(self._program, fun, self._program.catalogue.provider(provider), kwargs)
        )

    def query(self, query_type: str = "list_nodes", provider: str = "all") -> dict[str, Any]:
        """The machines of providers: `{alias: {driver: {name: details}}}`. `query_type` is one of QUERIES."""
        if query_type not in QUERIES:
            raise CommandExecutionError(f"there is no query {query_type!r}, but {', '.join(QUERIES)}")
        return self._answered(lambda: QUERIES[query_type](self._program, self._providers(provider)))

    def offers(self, what: str, provider: str = "all") -> dict[str, Any]:
        """`what` is images, sizes or locations: `{alias: {driver: {name: details}}}`."""
        return self._answered(lambda: query.offers(self._program, self._providers(provider), what))

    @cached_property
    def _program(self) -> Program:
        return app.open_program(self._config_dir, self._client, lambda _machine, _text: None)

    def _providers(self, name: str) -> list[Provider]:
        return self._program.catalogue.matching(name)

    def _made(self, do: Callable[[], Done]) -> dict[str, Any]:
        done = self._tried(do)
        self.failed = self.failed or bool(done.errors) or done.interrupted
        return {**done.answers, **{name: self._told(error) for name, error in done.errors.items()}}

    def _answered(self, ask: Callable[[], Answers]) -> dict[str, Any]:
        answers = self._tried(ask)
        self.failed = self.failed or bool(answers.errors)
        return {**answers.found, **{name: self._told(error) for name, error in answers.errors.items()}}

    def _told(self, error: SaltliteError) -> dict[str, str]:
        return {ERROR: self._program.secrets.text(str(error))}

    def _tried(self, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except SaltliteError as error:
            known = "_program" in self.__dict__
            text = self._program.secrets.text(str(error)) if known else str(error)
            raise CommandExecutionError(text) from None


def require_foreign(settings: Mapping[str, Any]) -> None:
    """Raises CommandExecutionError for settings that only the configuration may have."""
    refused = of_this_host(settings)
    if refused:
        raise CommandExecutionError(
            f"{', '.join(refused)}: files of the master's host and options of ssh are not taken from callers; "
            "write them into the profile"
        )
