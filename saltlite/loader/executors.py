"""Chains of executors: what stands between a caller and a function, and what a caller may want of it.

Which executors a call goes through:

    asked for by the caller     these, as far as `executors_allowed` has them; those of the configuration that say
                                STAYS = True go before them
    else                        `module_executors` of the configuration
    `sudo_user` is set          `sudo` stands in the place of `direct_call`, and at the end where it stood nowhere; and
                                what any other executor gets as the function is the function as that user would call it

`[direct_call]` alone, the default, needs none of this: see `saltlite.model.execution.is_direct`. The rest is Salt's
contract: `execute(opts, data, func, args, kwargs)` of each is called in turn; None passes on, anything else is the
result. All of them are looked at before the first one is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saltlite.decorators.notes import note
from saltlite.loader.dunders import CrossCalls
from saltlite.loader.failure import FunctionUnavailable
from saltlite.loader.index import Index, build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.model.execution import DIRECT, RETURNED_NONE, SUDO, Execution

EXECUTORS = "executors"
"""The type of plug-in files that are executors."""

Function = Callable[..., Any]

_BEFORE = (
    ": module_executors of this minion names it, and no folder of executors has it. Nothing is called here until then: "
    "take it out there, run saltutil.sync_executors, and name it again; or put its file into a folder of module_dirs"
)
_KINDS: dict[type, tuple[type, ...]] = {float: (float, int)}
"""What else is taken for a value of a type."""


class ChainError(Exception):
    """The chain cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Link:
    """One executor of a chain.

    `safe` are the options that callers may give, with their types; None where the file does not say, and so decides by
    itself what it reads. `delay` and `limit` are what it would rather have its surroundings do, where these can.
    """

    name: str
    execute: Function
    safe: Mapping[str, type] | None
    stays: bool
    for_resources: bool
    takes_missing: Function | None
    delay: Function | None
    limit: Function | None
    finish: Function | None

    def given(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the caller's options that are for this executor."""
        return {name: value for name, value in options.items() if self.safe is None or name in self.safe}

    def opts(self, opts: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The configuration as this executor sees it: with the caller's safe options in it."""
        return {**opts, **given} if given and self.safe is not None else opts


class Executors:
    """The executors of one minion, each loaded when a chain has it.

    `loader` are the modules that they know as `__salt__`; `index` is what `executors_index` gives. `threads`: calls are
    made in threads of a process that outlives them, which looks after delays and time limits itself.
    """

    def __init__(self, loader: Loader, index: Index | None = None, *, threads: bool = False) -> None:
        self.opts = loader.opts
        self.threads = threads
        self.index = index or executors_index(self.opts)
        more = {"__executors__": CrossCalls(lambda: self._loader)}
        self._loader: Loader = loader.of_type(EXECUTORS, self.index, more)
        self._links: dict[str, Link] = {}

    def chain(self, asked: Execution, *, remote: bool) -> Chain:
        """The chain for a call. `remote`: somebody else than the user of this process asks."""
        try:
            if remote:
                self._check_allowed(asked)
            links = self._links_of(asked)
            self._check_options(links, asked.options)
        except ChainError as error:
            return Chain(self.opts, [], {}, problem=str(error))
        # What the others get as the function is the one of that user.
        sudo = self._link(SUDO) if self.opts.get("sudo_user") else None
        return Chain(self.opts, links, asked.options, sudo=sudo, threads=self.threads)

    def problem_of(self, name: str) -> str:
        """Why an executor cannot be used; "" when it can."""
        try:
            self._link(name)
        except ChainError as error:
            return str(error)
        return ""

    def _check_allowed(self, asked: Execution) -> None:
        allowed = self.opts.get("executors_allowed") or []
        # What the minion does by itself may also be asked for.
        refused = [name for name in asked.executors if name not in {*allowed, *self._configured()}]
        if refused:
            raise ChainError(
                f"Executor '{refused[0]}' may not be asked for here: "
                f"option executors_allowed of this minion has {', '.join(allowed) or 'none'}"
            )

    def _configured(self) -> list[str]:
        return list(self.opts.get("module_executors") or [DIRECT])

    def _links_of(self, asked: Execution) -> list[Link]:
        names = asked.executors or self._configured()
        if asked.executors:
            others = [name for name in self._configured() if name not in (*names, DIRECT)]
            names = [*(name for name in others if self._link(name).stays), *names]
        if self.opts.get("sudo_user"):
            names = [SUDO if name == DIRECT else name for name in names]
            names = names if SUDO in names else [*names, SUDO]
        links = [self._link(name) for name in names]
        unfit = [link.name for link in links if self.threads and not link.for_resources]
        if unfit:
            because = " (sudo_user is set)" if unfit[0] == SUDO else ""
            raise ChainError(
                f"Executor '{unfit[0]}' is not for resources{because}: "
                "their process serves many calls at once and keeps the rights of the minion"
            )
        return links

    def _link(self, name: str) -> Link:
        if name not in self._links:
            self._links[name] = self._load(name)
        return self._links[name]

    def _load(self, name: str) -> Link:
        try:
            execute = self._loader[f"{name}.execute"]
        except FunctionUnavailable as error:
            known = bool(self._loader.functions(name))
            reason = ": it has no function execute" if known else f": {error}"
            if str(error) == f"'{name}.execute' is not available." and not known:
                reason = _BEFORE if name in self._configured() else ""
            raise ChainError(f"Executor '{name}' is not available{reason}") from error
        safe = self._loader.constant(name, "SAFE_OPTS")
        if safe is not None and not (isinstance(safe, dict) and all(isinstance(kind, type) for kind in safe.values())):
            raise ChainError(f"Executor '{name}' is not available: its SAFE_OPTS is no map from names to types")
        found = {hook: self._hook(name, hook) for hook in ("delay", "limit", "finish")}
        return Link(
            name=name,
            execute=execute,
            safe=safe,
            stays=self._loader.constant(name, "STAYS") is True,
            for_resources=self._loader.constant(name, "FOR_RESOURCES") is not False,
            takes_missing=self._hook(name, "allow_missing_func") or self._hook(name, "all_missing_func"),
            **found,
        )

    def _hook(self, name: str, function: str) -> Function | None:
        return self._loader.get(f"{name}.{function}")

    @staticmethod
    def _check_options(links: Sequence[Link], options: Mapping[str, Any]) -> None:
        for name, value in options.items():
            takers = [link for link in links if link.safe is None or name in link.safe]
            if not takers:
                raise ChainError(
                    f"none of the executors {', '.join(link.name for link in links)} takes the option {name!r} "
                    "from a caller; others are set in the configuration of the minion"
                )
            for kind in (link.safe[name] for link in takers if link.safe is not None):
                wanted = _KINDS.get(kind, (kind,))
                if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
                    raise ChainError(f"the option {name!r} of an executor takes {kind.__name__}, not {value!r:.80}")


class Chain:
    """The executors of one job. `problem` says why nothing can be called; it is empty where all is well."""

    def __init__(
        self,
        opts: Mapping[str, Any],
        links: Sequence[Link],
        options: Mapping[str, Any],
        *,
        sudo: Link | None = None,
        threads: bool = False,
        problem: str = "",
    ) -> None:
        self.problem = problem
        self._opts = opts
        self._links = links
        self._options = options
        self._sudo = sudo
        self._threads = threads

    def steps(self) -> list[tuple[str, Function]]:
        """The executors in their order, each with its function `execute`."""
        return [(link.name, link.execute) for link in self._links]

    def takes_missing(self, fun: str) -> bool:
        """Whether an executor knows what to do with a function that is not there. Raises what executors raise."""
        return any(link.takes_missing is not None and link.takes_missing(fun) for link in self._links)

    def delay(self, target: str) -> float:
        """How many seconds a call on `target` is to wait; where its surroundings look after that. Raises anything."""
        return sum((self._asked(link, link.delay, target) for link in self._links if link.delay is not None), 0.0)

    def limit(self) -> float:
        """How many seconds a call may take; 0 for as long as it wants. As `delay`."""
        limits = [self._asked(link, link.limit, "") for link in self._links if link.limit is not None]
        return min(filter(None, limits), default=0.0)

    def _asked(self, link: Link, hook: Function, target: str) -> float:
        given = link.given(self._options)
        return float(hook(link.opts(self._opts, given), {"id": target, "executor_opts": given}))

    def run(
        self, func: Function | str, args: Sequence[Any], kwargs: Mapping[str, Any], about: Mapping[str, Any]
    ) -> Any:
        """The result of the call. `func` is the name of a function that is not there, if it is a text.

        `about` tells about the job: jid, fun, user; id and more of a resource; `delayed_s`. Raises what executors and
        the function raise.
        """
        raw = [*args, {"__kwarg__": True, **kwargs}] if kwargs else list(args)
        data = {
            "id": self._opts.get("id"), "ret": "", **about, "arg": raw, "tgt_type": "list",
            "module_executors": [link.name for link in self._links],
        }  # fmt: skip
        data["tgt"] = data["id"]
        passed: tuple[Any, Any] = (raw, data) if isinstance(func, str) else (list(args), dict(kwargs))
        if self._sudo is not None and not isinstance(func, str):
            func = self._guarded(self._sudo, func, data)
        entered: list[Link] = []
        try:
            for link in self._links:
                if self._threads and (link.delay is not None or link.limit is not None):
                    continue
                entered.append(link)
                value = self._enter(link, data, func, *passed)
                if value is not None:
                    return None if value is RETURNED_NONE else value
        finally:
            for link in reversed(entered):
                if link.finish is not None:
                    link.finish(self._opts, data)
        names = ", ".join(link.name for link in self._links)
        note(f"no executor of {names} had a result: if the function was not called, direct_call is missing at the end")
        return None

    def _enter(self, link: Link, data: Mapping[str, Any], func: Function | str, args: Any, kwargs: Any) -> Any:
        given = link.given(self._options)
        return link.execute(link.opts(self._opts, given), {**data, "executor_opts": given}, func, args, kwargs)

    def _guarded(self, sudo: Link, func: Function, data: Mapping[str, Any]) -> Function:
        def as_that_user(*args: Any, **kwargs: Any) -> Any:
            value = self._enter(sudo, data, func, list(args), kwargs)
            return None if value is RETURNED_NONE else value

        # So that executors find what its parameters are called, some of which are for secrets.
        as_that_user.__wrapped__ = func  # type: ignore[attr-defined]  # as functools.wraps does
        return as_that_user


def executors_index(opts: Mapping[str, Any], previous: Index | None = None) -> Index:
    """The files of executors as they are now; `previous` itself when they are as they were."""
    return build_index(search_layers(opts, EXECUTORS), previous)
