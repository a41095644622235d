"""Types of the dunder names, for authors of modules and their editors.

A module file writes

    from typing import TYPE_CHECKING

    if TYPE_CHECKING:
        from saltlite.loader.hints import __grains__, __salt__

and nothing of this is imported when it runs: the loader sets the names in the module itself. Only annotations
stand here; reading one of these names from this file at run time is an ImportError on purpose.

What else a module can say of itself, and who reads it (from the text of the file, which is not run for it):

    annotations             the command line turns words into str, int, float, bool, list, dict or None by them, and
                            refuses what does not fit before anything is published. A function with a decorator that is
                            not of `saltlite.decorators` is called as ever: it may change what is taken
    **kwargs: Unpack[Keys]  with a TypedDict `Keys` of the same file: these keywords, and no others
    a parameter `test`      the function takes part in `--test`: with `test=True` it changes nothing, and tells what it
                            would change. A function that finds the word in its `**kwargs` does not take part
    __risk__                a literal dict, function -> name of its risk: `{"remove": "remove", "purge": "remove"}`.
                            Who runs it types the number of minions, or passes `--accept-risk=remove`. Names are
                            lower-case letters, digits and hyphens. A module without it has no risks
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from saltlite.loader.loader import Candidate, Description


class Functions(Protocol):
    """What `__salt__` is: every function that this minion offers, by `module.function`.

    Indexing loads the module at the first use and raises a KeyError that says why a function is not
    available.
    """

    def __getitem__(self, name: str) -> Callable[..., Any]: ...

    def __contains__(self, name: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def modules(self) -> list[str]:
        """Names of all modules that are offered here, sorted."""
        ...

    def functions(self, module: str) -> list[str]:
        """Function names of one module, sorted; empty when it is not offered."""
        ...

    def describe(self, name: str) -> Description | None:
        """Docstring and argument list of `module.function`, or None when it is not offered."""
        ...

    def candidates(self, module: str) -> list[Candidate]:
        """The files that could provide a virtual name, in the order in which they are asked."""
        ...

    def module_doc(self, module: str) -> str | None:
        """The docstring of a module, or None."""
        ...

    def of_type(self, kind: str) -> Functions:
        """The plug-ins of another type, such as `runners`, as they are found on this machine."""
        ...

    def interfaces(self) -> dict[str, str]:
        """Virtual name -> version of its interface, for all that have one."""
        ...

    def interface(self, module: str) -> dict[str, Any] | None:
        """The interface of a module as data (`saltlite.interfaces.smi.report.describe`), with the states here; None
        for none.
        """
        ...

    def conformance(self, module: str) -> dict[str, Any] | None:
        """How a module keeps to its interface here (`saltlite.interfaces.smi.report`); None where it has none."""
        ...

    def stubs(self, module: str) -> list[str]:
        """Functions that the module's interface has and this machine does not, sorted."""
        ...

    def not_loaded(self) -> dict[str, str]:
        """File name -> sentence, for every file that offers nothing here."""
        ...


class MasterClient(Protocol):
    """What `__client__` is: the master, as the operator who runs a runner can reach it.

    Every method raises CommandExecutionError with the sentence of whatever went wrong.
    """

    def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Ask one verb of the operator protocol; the answer's fields."""
        ...

    def time(self) -> float:
        """The time by the clock that the times in answers come from, in seconds since 1970."""
        ...

    def run(
        self,
        tgt: str | Sequence[str],
        fun: str,
        arg: Sequence[Any] = (),
        kwarg: Mapping[str, Any] | None = None,
        tgt_type: str = "glob",
        timeout: float | None = None,
    ) -> dict[str, dict[str, Any]]:
        """As `cmd`, with the form of `results`."""
        ...

    def cmd(
        self,
        tgt: str | Sequence[str],
        fun: str,
        arg: Sequence[Any] = (),
        kwarg: Mapping[str, Any] | None = None,
        tgt_type: str = "glob",
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Run a function on minions: `{minion id: return}` of those that returned."""
        ...

    def returns(self, jid: str) -> dict[str, Any]:
        """`{minion id: return}` of what a job has returned until now."""
        ...

    def results(self, jid: str) -> dict[str, dict[str, Any]]:
        """The same with how it ended: `{minion id: {"return": value, "retcode": 0, "success": True}}`."""
        ...

    def events(self, pattern: str, timeout_s: float, since: float | None = None) -> Iterator[dict[str, Any]]:
        """Events whose tag matches the glob, as `seq`, `tag`, `data` and `at`, until so many seconds are over."""
        ...


class EventSender(Protocol):
    """What `__events__` is: events that the minion sends to its master."""

    def send(self, tag: str, data: Mapping[str, Any] | str, timeout_s: float) -> None:
        """Have the master write the event down; it is in its event log when this returns.

        Raises SaltInvocationError for what is no event, CommandExecutionError when the master cannot be asked in that
        time.
        """
        ...


class MasterAsker(Protocol):
    """What `__master__` is: requests to the master in the name of this minion."""

    def ask(self, what: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the master. Raises CommandExecutionError when it refuses, or cannot be reached."""
        ...

    def decoded(self, body: bytes) -> Any:
        """The value of an encoded return."""
        ...

    def encoded(self, value: Any) -> bytes:
        """A value as a return has it."""
        ...


class TargetMatcher(Protocol):
    """What `__matches__` is: whether a target is true of this minion."""

    def __call__(self, expression: str, kind: str, *, minion_id: str | None = None, delimiter: str = ":") -> bool:
        """`kind` is one of Salt's `tgt_type` values; with `minion_id` as if the minion had that id.

        Raises UsageError for what is no target.
        """
        ...


class CloudProgram(Protocol):
    """What `__cloud__` is: machines of clouds. Its methods raise CommandExecutionError."""

    @property
    def failed(self) -> bool:
        """Whether something failed; the answer of each that did is `{"Error": sentence}`."""
        ...

    def profile(self, profile: str, names: Sequence[str], *, parallel: bool = False, **settings: Any) -> dict[str, Any]:
        """Make machines of a profile."""
        ...

    def map_run(self, name: str, *, parallel: bool = False, **settings: Any) -> dict[str, Any]:
        """Make the machines of a map that are not there."""
        ...

    def destroy(self, names: Sequence[str], *, provider: str = "all", parallel: bool = False) -> dict[str, Any]:
        """Destroy machines."""
        ...

    def action(self, fun: str, names: Sequence[str], *, provider: str = "all", **kwargs: Any) -> dict[str, Any]:
        """Call an action of a driver for machines."""
        ...

    def function(self, fun: str, provider: str, **kwargs: Any) -> dict[str, Any]:
        """Call a function of a driver for a provider."""
        ...

    def list_providers(self) -> dict[str, Any]:
        """The configured providers."""
        ...

    def list_profiles(self, provider: str = "all") -> dict[str, Any]:
        """The profiles of a provider, or of all."""
        ...

    def query(self, query_type: str = "list_nodes", provider: str = "all") -> dict[str, Any]:
        """The machines of providers."""
        ...

    def offers(self, what: str, provider: str = "all") -> dict[str, Any]:
        """Images, sizes or locations."""
        ...


__opts__: dict[str, Any]
"""The minion's configuration, as a plain dict of this job's own."""

__grains__: dict[str, Any]
"""What the minion knows of its machine."""

__file_client__: Any  # saltlite.files.client.FileClient, where there is a file server
__events__: EventSender
"""In execution modules: the way of an event to the master; an empty dict where there is none."""

__master__: MasterAsker
"""In execution modules: requests to the master; an empty dict where there is none."""

__timers__: Callable[[str, str, Mapping[str, Any]], dict[str, Any]]
"""In execution modules: asks the minion about its "schedule" or "beacons", with an operation and its fields; an empty
dict where no minion runs. Raises CommandExecutionError."""

__minion_key__: Callable[[], bytes]
"""In execution modules: the private key of this minion, created if there is none; an empty dict but in saltlite-call.
Raises CommandExecutionError."""

__matches__: TargetMatcher
"""Whether a target is true of this minion, by the matchers that the master has."""

__pillar__: dict[str, Any]
"""Data that the master gives to this minion."""

__context__: dict[str, Any]
"""A dict that the modules of one job share; `__context__["retcode"]` becomes the job's return code."""

__salt__: Functions
"""All functions of this minion."""

__utils__: Functions
"""The functions of synced utils, and of the library of Salt's names: `__utils__["versions.warn_until"]`."""

__client__: MasterClient
"""In runners: the master. Other plug-ins do not have it."""

__config__: dict[str, Any]
"""In runners: the options of the master as its own processes have them; what is named like a secret is hidden."""

__cloud__: CloudProgram
"""In runners: machines of clouds, by the configuration beside the master's."""

__execution__: Functions
__pillar_execution__: Functions
"""In runners: the execution modules of this machine, loaded when one is asked for."""

__executors__: Functions
"""In executors: all executors of this minion, as `name.execute`."""

__resource__: Mapping[str, str]
"""In resource types: `id` and `type` of the resource that is called; a KeyError where there is none."""

__resource_funcs__: Mapping[str, Callable[..., Any]]
"""In resource types: the functions of the connection module, by `type.function`."""

__minion__: Functions
"""In resource types: all functions of the minion that manages the resource."""

__salt_system_encoding__: str
"""The encoding of file names and program output on this machine, such as `utf-8`."""

__active_provider_name__: str
"""In drivers of clouds: `alias:driver` of the provider that is called."""
