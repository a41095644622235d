"""Chains of executors: the plug-ins between a caller and a function.

A call goes through these executors:

    requested by the caller     these, if `executors_allowed` lists them, behind the configured ones with STAYS = True
    otherwise                   `module_executors` of the configuration
    `sudo_user` is set          `sudo` replaces `direct_call`, or comes last if there was none; the other executors
                                receive the function as that user would call it. In a process of that user
                                `direct_call` replaces `sudo`

`[direct_call]` alone, the default, needs no chain: see `saltlite.model.execution.is_direct`. The rest is Salt's
contract: `execute(opts, data, func, args, kwargs)` of each is called in turn; None passes on, anything else is the
result. All executors are checked before the first one is called.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from saltlite.decorators import note
from saltlite.loader.dunders import LazyFunctions
from saltlite.loader.failure import FunctionUnavailable
from saltlite.loader.index import Index, build_index
from saltlite.loader.loader import Loader
from saltlite.loader.plugin_opts import PluginOpts
from saltlite.loader.search_path import SHIPPED, salt_is_installed, search_layers
from saltlite.model.dataclass import dataclass
from saltlite.model.execution import (
    CUSTOM_PREFIX,
    DIRECT,
    RETURNED_NONE,
    SHIPPED_EXECUTORS,
    SUDO,
    UNAVAILABLE_PREFIX,
    Execution,
)
from saltlite.model.signature import absent_text

EXECUTORS = "executors"
"""The plug-in type of executors."""

Function = Callable[..., Any]

_CONFIGURED_BUT_MISSING = (
    ": module_executors of this minion names it, and no folder of executors has it. No job can run here: "
    "remove it there, run saltutil.sync_executors, and name it again; or put its file into a folder of module_dirs. "
    "On this machine `saltlite call --module-executors=direct_call FUNCTION` works all the same"
)
_ACCEPTED_TYPES: dict[type, tuple[type, ...]] = {float: (float, int)}
"""Types that are also accepted for a declared type."""


class ChainError(Exception):
    """The chain cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Executor:
    """One executor of a chain.

    `safe` holds the options that callers may set, with their types; None when the file declares none and checks them
    itself. `delay` and `limit` are hooks for a process that can delay and limit calls without blocking a thread.
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
    configured: Mapping[str, Any]
    """The configuration as its file sees it."""

    def own_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The caller's options that are for this executor."""
        return {name: value for name, value in options.items() if self.safe is None or name in self.safe}

    def opts(self, own: Mapping[str, Any]) -> Mapping[str, Any]:
        """The configuration for this executor, overlaid with the caller's safe options."""
        if not own or self.safe is None:
            return self.configured
        if isinstance(self.configured, PluginOpts):
            return self.configured.with_values(own)
        return {**self.configured, **own}


class Executors:
    """The executors of one minion, each loaded when a chain first needs it.

    `loader` becomes their `__salt__`, and `index` comes from `executors_index`. `threads`: calls run in threads of a
    long-lived process, which applies delays and time limits itself.
    """

    def __init__(self, loader: Loader, index: Index | None = None, *, threads: bool = False) -> None:
        self.opts = loader.opts
        self.threads = threads
        self.index = index or executors_index(self.opts)
        more = {"__executors__": LazyFunctions(lambda: self._loader)}
        self._loader: Loader = loader.of_type(EXECUTORS, self.index, more)
        self._executors: dict[str, Executor] = {}

    def chain(self, requested: Execution, *, remote: bool, user: str = "") -> Chain:
        """The chain for a call. `remote`: the caller is not the user of this process; `user` is then the caller."""
        try:
            if remote:
                self._check_allowed(requested, user)
            executors = self._executors_of(requested, remote=remote)
            self._check_options(executors, requested.options)
        except ChainError as error:
            return Chain(self.opts, [], {}, problem=str(error))
        sudo = self._executor(SUDO) if _is_another_user(self.opts.get("sudo_user")) else None
        return Chain(self.opts, executors, requested.options, sudo=sudo, threads=self.threads)

    def problem_of(self, name: str) -> str:
        """Why an executor cannot be used; "" when it can."""
        try:
            self._executor(name)
        except ChainError as error:
            return str(error)
        return ""

    def _check_allowed(self, requested: Execution, user: str) -> None:
        allowed = self.opts.get("executors_allowed") or []
        refused = [name for name in requested.executors if name not in {*allowed, *self._configured()}]
        if refused:
            hint = ""
            # Users of the API, whose label has a colon, cannot change the configuration of a minion.
            if ":" not in user and self.index.claimants(refused[0]):
                names = ", ".join([*allowed, *refused])
                hint = f"; this line in its configuration allows it: executors_allowed: [{names}]"
            raise ChainError(
                f"Executor '{refused[0]}' may not be requested here: "
                f"option executors_allowed of this minion has {', '.join(allowed) or 'none'}{hint}"
            )

    def _configured(self) -> list[str]:
        return list(self.opts.get("module_executors") or [DIRECT])

    def _executors_of(self, requested: Execution, *, remote: bool) -> list[Executor]:
        names = requested.executors or self._configured()
        if requested.executors:
            others = [name for name in self._configured() if name not in (*names, DIRECT)]
            if not remote:
                # The user of this process repairs a minion whose chain names an executor that is not there.
                others = [name for name in others if not self.problem_of(name)]
            names = [*(name for name in others if self._executor(name).stays), *names]
        if _is_another_user(user := self.opts.get("sudo_user")):
            names = [SUDO if name == DIRECT else name for name in names]
            names = names if SUDO in names else [*names, SUDO]
        elif user:
            # Salt's sudo calls `salt-call` as this user: it would call itself for ever.
            names = [DIRECT if name == SUDO else name for name in names]
        executors = [self._executor(name) for name in names]
        unfit = [one.name for one in executors if self.threads and not one.for_resources]
        if unfit:
            because = " (sudo_user is set)" if unfit[0] == SUDO else ""
            raise ChainError(
                f"Executor '{unfit[0]}' is not for resources{because}: "
                "their process serves many calls at once and keeps the rights of the minion"
            )
        return executors

    def _executor(self, name: str) -> Executor:
        if name not in self._executors:
            self._executors[name] = self._load(name)
        return self._executors[name]

    def _load(self, name: str) -> Executor:
        try:
            execute = self._loader[f"{name}.execute"]
        except FunctionUnavailable as error:
            known = bool(self._loader.functions(name))
            reason = ": it has no function execute" if known else f": {error}"
            if str(error) == f"'{name}.execute' is not available." and not known:
                reason = _CONFIGURED_BUT_MISSING if name in self._configured() else ""
            raise ChainError(f"Executor '{name}' is not available{reason}") from error
        safe = self._loader.constant(name, "SAFE_OPTS")
        if safe is not None and not (isinstance(safe, dict) and all(isinstance(kind, type) for kind in safe.values())):
            raise ChainError(f"Executor '{name}' is not available: its SAFE_OPTS must map names to types")
        found = {hook: self._hook(name, hook) for hook in ("delay", "limit", "finish")}
        return Executor(
            name=name,
            execute=execute,
            safe=safe,
            stays=self._loader.constant(name, "STAYS") is True,
            for_resources=self._loader.constant(name, "FOR_RESOURCES") is not False,
            takes_missing=self._hook(name, "allow_missing_func") or self._hook(name, "all_missing_func"),
            configured=self._loader.constant(name, "__opts__"),
            **found,
        )

    def _hook(self, name: str, function: str) -> Function | None:
        return self._loader.get(f"{name}.{function}")

    @staticmethod
    def _check_options(executors: Sequence[Executor], options: Mapping[str, Any]) -> None:
        for name, value in options.items():
            takers = [one for one in executors if one.safe is None or name in one.safe]
            if not takers:
                raise ChainError(
                    f"none of the executors {', '.join(one.name for one in executors)} takes the option {name!r} "
                    "from a caller; other options are set in the configuration of the minion"
                )
            for kind in (one.safe[name] for one in takers if one.safe is not None):
                accepted = _ACCEPTED_TYPES.get(kind, (kind,))
                if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
                    raise ChainError(f"the option {name!r} of an executor takes {kind.__name__}, not {value!r:.80}")


class Chain:
    """The executors of one job. `problem` says why nothing can be called, or is empty."""

    def __init__(
        self,
        opts: Mapping[str, Any],
        executors: Sequence[Executor],
        options: Mapping[str, Any],
        *,
        sudo: Executor | None = None,
        threads: bool = False,
        problem: str = "",
    ) -> None:
        self.problem = problem
        self._opts = opts
        self._executors = executors
        self._options = options
        self._sudo = sudo
        self._threads = threads

    def steps(self) -> list[tuple[str, Function]]:
        """The executors in order, each with its function `execute`."""
        return [(one.name, one.execute) for one in self._executors]

    def takes_missing(self, fun: str) -> bool:
        """Whether an executor handles a function that does not exist. Raises what executors raise."""
        return any(one.takes_missing is not None and one.takes_missing(fun) for one in self._executors)

    def delay(self, target: str) -> float:
        """Seconds that a call on `target` has to wait. Raises what executors raise."""
        return sum((self._hook_value(one, one.delay, target) for one in self._executors if one.delay is not None), 0.0)

    def limit(self) -> float:
        """Seconds that a call may take; 0 for no limit. Raises what executors raise."""
        limits = [self._hook_value(one, one.limit, "") for one in self._executors if one.limit is not None]
        return min(filter(None, limits), default=0.0)

    def _hook_value(self, executor: Executor, hook: Function, target: str) -> float:
        own = executor.own_options(self._options)
        return float(hook(executor.opts(own), {"id": target, "executor_opts": own}))

    def run(
        self, func: Function | str, args: Sequence[Any], kwargs: Mapping[str, Any], about: Mapping[str, Any]
    ) -> Any:
        """The result of the call. A `func` that is a text names a function that does not exist.

        `about` holds facts of the job: jid, fun, user; id and more of a resource; `delayed_s`. Raises what executors
        and the function raise.
        """
        raw = [*args, {"__kwarg__": True, **kwargs}] if kwargs else list(args)
        data = {
            "id": self._opts.get("id"), "ret": "", **about, "arg": raw, "tgt_type": "list",
            "module_executors": [one.name for one in self._executors],
        }  # fmt: skip
        data["tgt"] = data["id"]
        passed: tuple[Any, Any] = (raw, data) if isinstance(func, str) else (list(args), dict(kwargs))
        if self._sudo is not None and not isinstance(func, str):
            func = self._through_sudo(self._sudo, func, data)
        if not isinstance(func, str) and salt_is_installed():
            from saltlite.loader.salt_compat import bridged  # noqa: PLC0415 - most minions have no Salt

            func = bridged(func, {})  # for executors that catch Salt's errors
        entered: list[Executor] = []
        try:
            for one in self._executors:
                if self._threads and (one.delay is not None or one.limit is not None):
                    continue
                entered.append(one)
                value = self._enter(one, data, func, *passed)
                if value is not None:
                    return None if value is RETURNED_NONE else value
        finally:
            for one in reversed(entered):
                if one.finish is not None:
                    one.finish(one.configured, data)
        names = ", ".join(one.name for one in self._executors)
        note(f"no executor of {names} had a result: if the function was not called, direct_call is missing at the end")
        return None

    def _enter(self, executor: Executor, data: Mapping[str, Any], func: Function | str, args: Any, kwargs: Any) -> Any:
        own = executor.own_options(self._options)
        return executor.execute(executor.opts(own), {**data, "executor_opts": own}, func, args, kwargs)

    def _through_sudo(self, sudo: Executor, func: Function, data: Mapping[str, Any]) -> Function:
        def as_that_user(*args: Any, **kwargs: Any) -> Any:
            value = self._enter(sudo, data, func, list(args), kwargs)
            return None if value is RETURNED_NONE else value

        # Executors read the names of its parameters, some of which are for secrets.
        as_that_user.__wrapped__ = func  # type: ignore[attr-defined]  # as functools.wraps does
        return as_that_user


def _is_another_user(name: str | None) -> bool:
    """Whether there is a `sudo_user`, and this process has another one. A user who does not exist is another one."""
    if not name:
        return False
    try:
        return pwd.getpwnam(name).pw_uid != os.geteuid()
    except KeyError:
        return True


def own_executors(opts: Mapping[str, Any], previous: Index | None = None) -> Index | None:
    """The files of executors that do not ship; None without a folder for them."""
    layers = [layer for layer in search_layers(opts, EXECUTORS) if layer.name != SHIPPED and os.path.isdir(layer.path)]
    return build_index(layers, previous) if layers else None


def executor_texts(opts: Mapping[str, Any], own: Index | None) -> list[str]:
    """The texts for a report of functions: executors that do not ship, and unavailable ones of the configuration.

    Nothing is imported, because a daemon never runs the code of executors.
    """
    usable = [name for name in own.names() if _can_be_read(own, name)] if own is not None else []
    texts = [absent_text(f"{CUSTOM_PREFIX}{name}") for name in usable]
    return [*texts, *(absent_text(f"{UNAVAILABLE_PREFIX}{name}") for name in unavailable_executors(opts, usable))]


def unavailable_executors(opts: Mapping[str, Any], own: Collection[str]) -> list[str]:
    """The executors of `module_executors` that are neither shipped nor among `own`; `sudo` also without `sudo_user`."""
    shipped = SHIPPED_EXECUTORS if opts.get("sudo_user") else SHIPPED_EXECUTORS - {SUDO}
    return [name for name in opts.get("module_executors") or () if name not in shipped and name not in own]


def _can_be_read(index: Index, name: str) -> bool:
    return any(file.failure is None for file in index.claimants(name))


def executors_index(opts: Mapping[str, Any], previous: Index | None = None) -> Index:
    """The current files of executors; `previous` itself when nothing changed."""
    return build_index(search_layers(opts, EXECUTORS), previous)
