"""The operations behind the CLI, the runners and the API: make, destroy, query, actions, maps; `CloudClient`.

`open_program` is the composition root. `CloudClient` is what `salt.cloud.CloudClient` is for Salt; runners see it as
`__cloud__`. Queries ask several providers at the same time.
"""

from __future__ import annotations

import json
import logging
import os
import re
import selectors
import signal
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from saltlite.client.local import LocalClient
from saltlite.cloud.api import port
from saltlite.cloud.api.exceptions import SaltCloudException, SaltCloudSystemExit
from saltlite.cloud.program.drivers import Driver
from saltlite.cloud.program.files import LoadedCloud, load_cloud, load_map
from saltlite.cloud.program.lifecycle import Creation, destroy
from saltlite.cloud.program.master import Master
from saltlite.cloud.program.program import Program, Say, conceal_logs
from saltlite.cloud.rules.catalogue import (
    MapMachine,
    Profile,
    Provider,
    Settings,
    is_gone,
    of_this_host,
    plain_value,
    waves,
)
from saltlite.config.load import load_master
from saltlite.config.paths import DEFAULT_CONFIG_DIR, master_socket
from saltlite.errors import CommandExecutionError, SaltliteError, UsageError
from saltlite.platform.privileges import require_trusted

log = logging.getLogger(__name__)

LINE_MAX = 16 * 1024 * 1024
"""Bytes of the output of one child."""
_READ = 65536


class ForwardedError(SaltCloudException):
    """An error of a child process."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


@dataclass(slots=True)
class Done:
    """The outcome: `answers` of the machines that succeeded, `errors` of the others."""

    answers: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, SaltliteError] = field(default_factory=dict)
    interrupted: bool = False


@dataclass(slots=True)
class _Child:
    name: str
    pid: int
    text: bytearray = field(default_factory=bytearray)
    ended: bool = False


Work = Callable[[str], Any]
"""Makes or destroys one machine by name."""


def one_by_one(names: Sequence[str], work: Work) -> Done:
    """One after the other. A failed machine does not stop the next; Ctrl-C does."""
    done = Done()
    for name in names:
        try:
            done.answers[name] = work(name)
        except SaltliteError as error:
            done.errors[name] = error
            if error.exit_code == 128 + signal.SIGINT:
                done.interrupted = True
                break
        except KeyboardInterrupt:
            done.interrupted = True
            break
    return done


def at_once(names: Sequence[str], work: Work, program: Program, limit: int) -> Done:
    """At most `limit` at the same time. No child is left at the end."""
    return _Crew(names, work, program, limit).run()


class _Crew:
    """Machines in parallel, each in its own forked process.

    Not threads: drivers are foreign code with their own state, and only a process can be interrupted in the middle of a
    request to its provider. Each process is its own session, so that Ctrl-C reaches this process alone, which passes it
    on once; each child then rolls back what it has half made.
    """

    def __init__(self, names: Sequence[str], work: Work, program: Program, limit: int) -> None:
        self._waiting = list(reversed(names))
        self._work = work
        self._program = program
        self._limit = limit
        self._selector = selectors.DefaultSelector()
        self._done = Done()

    def run(self) -> Done:
        try:
            while self._waiting or self._selector.get_map():
                try:
                    self._turn()
                except KeyboardInterrupt:
                    self._interrupt()
        finally:
            self._end_all()
        return self._done

    def _turn(self) -> None:
        while self._waiting and len(self._selector.get_map()) < self._limit:
            self._start(self._waiting.pop())
        for key, _events in self._selector.select():
            self._read(key.fd, key.data)

    def _interrupt(self) -> None:
        """The first Ctrl-C rolls everything back, the second leaves the rest to `--clean`."""
        for key in self._selector.get_map().values():
            os.kill(key.data.pid, signal.SIGINT)
        self._waiting.clear()
        self._done.interrupted = True

    def _start(self, name: str) -> None:
        reads, writes = os.pipe2(os.O_CLOEXEC)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reads)
            _child(name, self._work, self._program, writes)
        os.close(writes)
        self._selector.register(reads, selectors.EVENT_READ, _Child(name, pid))

    def _read(self, fd: int, child: _Child) -> None:
        data = os.read(fd, _READ)
        child.text += data
        *lines, rest = bytes(child.text).split(b"\n")
        child.text[:] = rest
        for line in lines:
            self._hear(child, json.loads(line))
        if not data or len(rest) > LINE_MAX:
            self._selector.unregister(fd)
            os.close(fd)
            _pid, status = os.waitpid(child.pid, 0)
            if not child.ended:
                how = f"its process ended with {os.waitstatus_to_exitcode(status)}"
                text = f"{child.name}: {how}; `saltlite cloud --clean` rolls back what it may have made"
                self._done.errors[child.name] = ForwardedError(text, SaltCloudException.exit_code)

    def _hear(self, child: _Child, report: dict[str, Any]) -> None:
        match report:
            case {"progress": text}:
                self._program.progress(child.name, text)
            case {"answer": answer}:
                child.ended = True
                self._done.answers[child.name] = answer
            case {"error": text, "exit": code}:
                child.ended = True
                self._done.errors[child.name] = ForwardedError(text, code)

    def _end_all(self) -> None:
        for key in list(self._selector.get_map().values()):
            child: _Child = key.data
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            os.close(key.fd)
        self._selector.close()


def _child(name: str, work: Work, program: Program, writes: int) -> None:
    """The main function of a child; it never returns. Without its parent it rolls back, as after Ctrl-C."""
    alone = False

    def say(report: dict[str, Any]) -> None:
        nonlocal alone
        data = b"" if alone else json.dumps(report, default=str).encode() + b"\n"
        try:
            while data:
                data = data[os.write(writes, data) :]
        except BrokenPipeError:
            alone = True
            raise KeyboardInterrupt from None

    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        program.forked(lambda _machine, text: say({"progress": text}))
        try:
            say({"answer": plain_value(work(name))})
            code = 0
        except SaltliteError as error:
            say({"error": str(error), "exit": error.exit_code})
        except KeyboardInterrupt:
            say({"error": f"{name}: interrupted", "exit": 128 + signal.SIGINT})
    except BaseException:  # supervision point: a child must not run the parent's code
        log.exception("A defect in saltlite, while %s was worked on.", name)
    finally:
        sys.stderr.flush()
        os._exit(code)


def worst_exit_code(done: Done) -> int:
    """The exit code of a command: 130 for Ctrl-C, else the highest of the errors."""
    if done.interrupted:
        return 128 + signal.SIGINT
    return max((error.exit_code for error in done.errors.values()), default=0)


ASKED_AT_ONCE = 16
"""Providers that are asked in parallel."""

Question = Callable[[Driver], Any]


@dataclass(slots=True)
class Answers:
    """`{alias: {driver: answer}}`, as in Salt, and the errors of the other providers."""

    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, SaltliteError] = field(default_factory=dict)


def machines(program: Program, providers: Sequence[Provider]) -> Answers:
    """The six fields of every machine."""

    def ask(driver: Driver) -> Any:
        return _shown(program, driver, driver.machines())

    return ask_all(program, providers, ask)


def machines_full(program: Program, providers: Sequence[Provider]) -> Answers:
    """All fields of every machine; they are cached."""

    def ask(driver: Driver) -> Any:
        found = driver.machines_full()
        if program.config.update_cachedir:
            here = {name: program.secrets.value(one) for name, one in found.items() if not is_gone(one)}
            program.cache.put_all(driver.name, here)
        return _shown(program, driver, found)

    return ask_all(program, providers, ask)


def machines_selected(program: Program, providers: Sequence[Provider]) -> Answers:
    """The fields of `query.selection` of every machine."""
    return ask_all(program, providers, lambda driver: driver.machines_selected())


def machines_cached(program: Program, providers: Sequence[Provider]) -> Answers:
    """The cached machines; no provider is asked."""
    answers = Answers()
    for provider in providers:
        answers.found.setdefault(provider.alias, {})[provider.driver] = program.cache.machines(provider.name)
    return answers


def listed_providers(program: Program) -> dict[str, Any]:
    """The configured providers: `{alias: {driver: {"written": file and line}}}`."""
    rows: dict[str, dict[str, Any]] = {}
    for one in program.catalogue.every_provider():
        rows.setdefault(one.alias, {})[one.driver] = {"written": one.settings.where}
    return rows


def listed_profiles(program: Program, provider: str) -> dict[str, Any]:
    """The profiles of providers, without secrets: `{alias: {driver: {profile: settings}}}`. Raises ConfigError."""
    wanted = {one.name for one in program.catalogue.matching(provider)}
    rows: dict[str, dict[str, Any]] = {}
    for name, profile in sorted(program.catalogue.profiles.items()):
        if profile.provider.name in wanted:
            settings = {"provider": profile.provider.name, **program.secrets.value(profile.settings.values)}
            rows.setdefault(profile.provider.alias, {}).setdefault(profile.provider.driver, {})[name] = settings
    return rows


def offers(program: Program, providers: Sequence[Provider], what: str) -> Answers:
    """`what` is images, sizes or locations."""

    def ask(driver: Driver) -> Any:
        return plain_value(driver.call(f"avail_{what}") or {})

    return ask_all(program, providers, ask)


def find(program: Program, names: Sequence[str], providers: Sequence[Provider]) -> dict[str, Driver]:
    """The driver of each machine. Raises SaltliteError if a machine does not exist or is at two providers, or if a
    provider that may have it did not answer.
    """
    answers = ask_all(program, providers, lambda driver: driver.names())
    places: dict[str, list[Driver]] = {name: [] for name in names}
    for provider in providers:
        here = answers.found.get(provider.alias, {}).get(provider.driver, ())
        for name in names:
            if name in here:
                places[name].append(program.driver(provider))
    for name, drivers in places.items():
        if len(drivers) > 1:
            several = " and ".join(one.name for one in drivers)
            raise SaltCloudSystemExit(f"{name} is at {several}: say which one is meant with --provider")
    missing = [name for name, drivers in places.items() if not drivers]
    if missing and answers.errors:
        raise next(iter(answers.errors.values()))
    if missing:
        raise SaltCloudSystemExit(f"no provider has a machine {' or '.join(missing)}; `saltlite cloud -Q` lists them")
    return {name: drivers[0] for name, drivers in places.items()}


def ask_all(program: Program, providers: Sequence[Provider], question: Question) -> Answers:
    """Ask these providers in parallel; each failure is an error of its provider only."""
    answers, left, lock = Answers(), list(reversed(providers)), threading.Lock()
    drivers = {provider.name: program.driver(provider) for provider in providers}

    def ask_some() -> None:
        while True:
            with lock:
                if not left:
                    return
                provider = left.pop()
            try:
                with port.running(program):
                    answer = question(drivers[provider.name])
            except SaltliteError as error:
                with lock:
                    answers.errors[provider.name] = error
            else:
                with lock:
                    answers.found.setdefault(provider.alias, {})[provider.driver] = answer

    if len(providers) == 1:
        ask_some()
        return answers
    # Daemon threads: a provider that hangs must not block Ctrl-C.
    threads = [threading.Thread(target=ask_some, daemon=True) for _ in range(min(ASKED_AT_ONCE, len(providers)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def _shown(program: Program, driver: Driver, found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Drop cached machines that the provider no longer lists."""
    if program.config.update_cachedir:
        for name in program.cache.names(driver.name):
            if name not in found:
                program.cache.unlist(driver.name, name)
    return found


CACHE_DIRECTORY = "CACHE_DIRECTORY"
"""The environment variable for the option of that name of systemd.exec(5)."""


def open_program(config_dir: str, client: LocalClient, say: Say) -> Program:
    """The program for a configuration folder. Raises ConfigError, and RefusedError if other users may write to the
    folders of drivers or to the cachedir. Its secrets are redacted from logs from now on.
    """
    loaded, master = _cached_for_service(load_cloud(config_dir)), load_master(config_dir).config
    places = [*master.module_dirs, *loaded.config.cloud_dirs, master.extension_modules, loaded.config.cachedir]
    require_trusted(places)
    program = Program(loaded, master, config_dir, Master(client), say)
    conceal_logs(program.secrets)
    return program


def _cached_for_service(loaded: LoadedCloud) -> LoadedCloud:
    """A systemd service has its own cache in its CacheDirectory, unless the configuration sets `cachedir`.

    The default folder belongs to the operator; no service may change the operator's host keys and journal.
    """
    folder = os.environ.get(CACHE_DIRECTORY, "").partition(":")[0]
    if not folder or "cachedir" in loaded.given.values:
        return loaded
    return replace(loaded, config=replace(loaded.config, cachedir=os.path.join(folder, "cloud")))


def make_machines(
    program: Program, profile: str, names: Sequence[str], given: Mapping[str, Any], *, parallel: bool = False
) -> Done:
    """Make machines of one profile, with settings of the command line. Raises UsageError, ConfigError."""
    wanted = program.catalogue.profile(profile)
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UsageError(f"{', '.join(sorted(twice))} is to be made twice")
    program.require_known(wanted, None, given)
    machines = {name: program.machine(name, wanted, None, given) for name in names}
    return _run(program, names, partial(_make_one, program, machines), parallel=parallel)


BOOTSTRAP = "bootstrap"
"""The alias and the profile of hosts that are made minions without a profile."""


def bootstrap_host(program: Program, driver: str, name: str, settings: Mapping[str, Any]) -> Done:
    """Make an existing host a minion, by a driver for hosts, with these settings. Raises ConfigError."""
    profile = Profile(BOOTSTRAP, program.implicit_provider(BOOTSTRAP, driver), Settings(dict(settings)))
    program.require_known(profile)
    return _run(program, [name], partial(_make_one, program, {name: program.machine(name, profile)}), parallel=False)


def destroy_machines(
    program: Program, names: Sequence[str], providers: Sequence[Provider], *, parallel: bool = False
) -> Done:
    """Destroy these machines; none if one does not exist or is at two providers, with SaltliteError."""
    drivers = find(program, names, providers)
    return _run(program, list(drivers), lambda name: destroy(program, drivers[name], name), parallel=parallel)


def make_map(
    program: Program,
    machines: Sequence[MapMachine],
    given: Mapping[str, Any],
    there: Collection[str],
    *,
    parallel: bool = False,
) -> Done:
    """Make the missing machines of a map, in waves by `requires`. Raises ConfigError before anything is made."""
    for one in machines:
        program.require_known(program.catalogue.profile(one.profile), one.settings, given)
    everything = Done()
    failed: set[str] = set()
    for wave in waves(machines, there):
        held = {one.name: next((name for name in one.requires if name in failed), None) for one in wave}
        for name, needed in held.items():
            if needed is not None:
                everything.errors[name] = SaltliteError(
                    f"{name}: not made, because {needed}, which it requires, failed"
                )
        ready = {one.name: one for one in wave if held[one.name] is None}
        vms = {
            name: program.machine(name, program.catalogue.profile(one.profile), one.settings, given)
            for name, one in ready.items()
        }
        done = _run(program, list(vms), partial(_make_one, program, vms), parallel=parallel)
        everything.answers.update(done.answers)
        everything.errors.update(done.errors)
        failed.update(everything.errors)
        if done.interrupted:
            everything.interrupted = True
            break
    return everything


def there_of_map(program: Program, machines: Sequence[MapMachine]) -> dict[str, str]:
    """The existing machines of a map: name -> `alias:driver`. Raises SaltliteError.

    The same name at another provider is another machine.
    """
    providers = {program.catalogue.profile(one.profile).provider.name for one in machines}
    taken = {name: program.driver(program.catalogue.provider(name)).names() for name in providers}
    found = {}
    for one in machines:
        provider = program.catalogue.profile(one.profile).provider.name
        if one.name in taken[provider]:
            found[one.name] = provider
    return found


def others_of_map(program: Program, machines: Sequence[MapMachine]) -> list[tuple[str, str]]:
    """The machines at the providers of a map that it does not name: (`alias:driver`, name). Raises SaltliteError."""
    named: dict[str, set[str]] = {}
    for one in machines:
        named.setdefault(program.catalogue.profile(one.profile).provider.name, set()).add(one.name)
    return [
        (provider, name)
        for provider, wanted in named.items()
        for name in sorted(program.driver(program.catalogue.provider(provider)).names() - wanted)
    ]


def destroy_others(program: Program, others: Sequence[tuple[str, str]], made: Done, *, parallel: bool = False) -> Done:
    """Destroy these machines, which are (`alias:driver`, name), after the machines of the map were made.

    The outcome is that of both. The label of a name that is at another provider, too, has the provider in it.
    """
    names = [*made.answers, *(name for _provider, name in others)]
    labels = {name if names.count(name) == 1 else f"{name} ({at})": (at, name) for at, name in others}
    drivers = {at: program.driver(program.catalogue.provider(at)) for at, _name in others}

    def work(label: str) -> Any:
        at, name = labels[label]
        return destroy(program, drivers[at], name)

    gone = _run(program, list(labels), work, parallel=parallel)
    return Done({**made.answers, **gone.answers}, gone.errors, gone.interrupted)


def _make_one(program: Program, machines: Mapping[str, dict[str, Any]], name: str) -> Any:
    return Creation(program, machines[name]).make()


def _run(program: Program, names: Sequence[str], work: Work, *, parallel: bool) -> Done:
    if parallel and len(names) > 1:
        return at_once(names, work, program, program.config.parallel_max)
    return one_by_one(names, work)


_OF_THE_CORE = {"create": "-p PROFILE", "bootstrap": "-p PROFILE"}
"""Functions of drivers that are no actions -> the option to use."""


def action(
    program: Program, function: str, names: Sequence[str], kwargs: Mapping[str, Any], providers: Sequence[Provider]
) -> Answers:
    """Call an action for each of these machines: `{alias: {driver: {machine: answer}}}`.

    Raises SaltliteError for a machine that does not exist; a failure of one machine does not stop the others.
    """
    if function in _OF_THE_CORE:
        raise SaltCloudSystemExit(f"{function} is not an action: machines are made with {_OF_THE_CORE[function]} NAME")
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
            of_alias.setdefault(driver.provider.driver, {})[name] = plain_value(answer)
    return answers


def function(program: Program, name: str, provider: Provider, kwargs: Mapping[str, Any]) -> Answers:
    """Call a function for a provider: `{alias: {driver: answer}}`."""
    program.learn(kwargs)
    return ask_all(program, [provider], lambda driver: plain_value(driver.provider_function(name, kwargs)))


# -- CloudClient

ERROR = "Error"
"""The key of the error sentence in an answer, as in Salt."""

MAPS = "cloud.maps.d"
"""The folder of maps that `map_run` accepts, in the configuration folder."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")

QUERIES: Mapping[str, Callable[[Program, Sequence[Provider]], Answers]] = {
    "list_nodes": machines,
    "list_nodes_full": machines_full,
    "list_nodes_select": machines_selected,
}


class CloudClient:
    """Every method returns plain data and raises CommandExecutionError. Salt's class of this name has the same methods.

    An error of one machine or provider is in its place as `{"Error": sentence}`, and `failed` is true. With `foreign`,
    for callers who may have no shell here, settings that name files of this host or options of ssh are refused, and
    maps are those in MAPS. Names are a list, or one text with commas.
    """

    def __init__(
        self, path: str = os.path.join(DEFAULT_CONFIG_DIR, "cloud"), client: LocalClient | None = None, *,
        foreign: bool = False,
    ) -> None:  # fmt: skip
        """`path` is the file `cloud` or its folder, in which the configuration of the master is, too."""
        self._config_dir = path if os.path.isdir(path) else os.path.dirname(path)
        self._client = client
        self._foreign = foreign
        self.failed = False

    def profile(
        self, profile: str, names: str | Sequence[str], vm_overrides: Mapping[str, Any] | None = None, *,
        parallel: bool = False, **settings: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Make machines of a profile; `settings` and `vm_overrides` override it: `{name: answer of the driver}`."""
        given = _over(settings, vm_overrides)
        self._require_allowed(given)
        return self._made(lambda: make_machines(self._program, profile, _names(names), given, parallel=parallel))

    def create(
        self, provider: str, names: str | Sequence[str], *, parallel: bool = False, **settings: Any
    ) -> dict[str, Any]:
        """Make machines of a provider without a profile: `{name: answer of the driver}`."""
        self._require_allowed(settings)

        def make() -> Done:
            program = self._program
            found = Profile("", program.catalogue.provider(provider), Settings(settings))
            program.require_known(found)
            machines = {name: program.machine(name, found) for name in _names(names)}
            return _run(program, list(machines), partial(_make_one, program, machines), parallel=parallel)

        return self._made(make)

    def map_run(self, path: str, *, parallel: bool = False, **settings: Any) -> dict[str, Any]:
        """Make the missing machines of a map, which is a path or the name of a file in MAPS."""
        self._require_allowed(settings)
        if self._foreign and not _NAME.fullmatch(path):
            raise CommandExecutionError(f"{path!r} is not a name of a map: give the name of a file in {MAPS}")

        def make() -> Done:
            place = path if os.path.sep in path else os.path.join(self._config_dir, MAPS, path)
            machines = load_map(place)
            there = there_of_map(self._program, machines)
            return make_map(self._program, machines, settings, there, parallel=parallel)

        return self._made(make)

    def destroy(self, names: str | Sequence[str], *, provider: str = "all", parallel: bool = False) -> dict[str, Any]:
        """Destroy these machines, with the keys of their minions."""
        found = _names(names)
        return self._made(lambda: destroy_machines(self._program, found, self._providers(provider), parallel=parallel))

    def action(
        self, fun: str, names: str | Sequence[str] | None = None, *, provider: str = "", instance: str = "",
        kwargs: Mapping[str, Any] | None = None, **settings: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Call an action for these machines, or one `instance`, but not `destroy`: `{alias: {driver: {name: answer}}}`.
        Without machines, call a function for the provider.
        """
        given = _over(settings, kwargs)
        machines = [*_names(names or ()), *([instance] if instance else ())]
        if not machines and provider and not self._foreign:
            return self.function(fun, provider, **given)
        if not machines:
            raise CommandExecutionError("say which machines: names, instance, or a provider for a function")
        # A right to one of the two runners is no right to the other.
        if fun == "destroy":
            raise CommandExecutionError("destroy is not an action here: cloud.destroy destroys machines")
        self._require_allowed(given)
        return self._answered(lambda: action(self._program, fun, machines, given, self._providers(provider or "all")))

    def extra_action(self, names: str | Sequence[str], provider: str, action: str, **kwargs: Any) -> dict[str, Any]:
        """As `action`, for these machines of one provider."""
        return self.action(action, names, provider=provider, **kwargs)

    def function(self, fun: str, provider: str, **kwargs: Any) -> dict[str, Any]:
        """Call a function for a provider: `{alias: {driver: answer}}`."""
        self._require_allowed(kwargs)
        return self._answered(lambda: function(self._program, fun, self._program.catalogue.provider(provider), kwargs))

    def query(self, query_type: str = "list_nodes", provider: str = "all") -> dict[str, Any]:
        """The machines of providers: `{alias: {driver: {name: details}}}`. `query_type` is one of QUERIES."""
        if query_type not in QUERIES:
            raise CommandExecutionError(f"there is no query {query_type!r}, but {', '.join(QUERIES)}")
        return self._answered(lambda: QUERIES[query_type](self._program, self._providers(provider)))

    def full_query(self, query_type: str = "list_nodes_full") -> dict[str, Any]:
        """The machines with all their fields."""
        return self.query(query_type)

    def select_query(self, query_type: str = "list_nodes_select") -> dict[str, Any]:
        """The machines with the fields of `query.selection`."""
        return self.query(query_type)

    def offers(self, what: str, provider: str | None = "all") -> dict[str, Any]:
        """`what` is images, sizes or locations: `{alias: {driver: {name: details}}}`."""
        return self._answered(lambda: offers(self._program, self._providers(provider or "all"), what))

    def list_sizes(self, provider: str | None = None) -> dict[str, Any]:
        """The sizes of a provider, or of all."""
        return self.offers("sizes", provider)

    def list_images(self, provider: str | None = None) -> dict[str, Any]:
        """The images of a provider, or of all."""
        return self.offers("images", provider)

    def list_locations(self, provider: str | None = None) -> dict[str, Any]:
        """The locations of a provider, or of all."""
        return self.offers("locations", provider)

    def list_providers(self) -> dict[str, Any]:
        """The configured providers: `{alias: {driver: {"written": file and line}}}`."""
        found: dict[str, Any] = self._tried(lambda: listed_providers(self._program))
        return found

    def list_profiles(self, provider: str = "all") -> dict[str, Any]:
        """The profiles of a provider, or of all, without secrets: `{alias: {driver: {profile: settings}}}`."""
        found: dict[str, Any] = self._tried(lambda: listed_profiles(self._program, provider))
        return found

    @cached_property
    def _program(self) -> Program:
        client = self._client or LocalClient(master_socket(load_master(self._config_dir).config.sock_dir))
        return open_program(self._config_dir, client, lambda _machine, _text: None)

    def _require_allowed(self, settings: Mapping[str, Any]) -> None:
        if self._foreign:
            require_foreign(settings)

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


def _over(settings: Mapping[str, Any], more: object) -> dict[str, Any]:
    """Settings with those of a map over them. Raises CommandExecutionError if it is no map."""
    if more is not None and not isinstance(more, Mapping):
        raise CommandExecutionError(f"settings are given as a map, not as {str(more)[:80]!r}")
    return {**settings, **(more or {})}


def _names(names: str | Sequence[str]) -> list[str]:
    """Names in a list, or in a text with commas."""
    return [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else list(names)


def require_foreign(settings: Mapping[str, Any]) -> None:
    """Raises CommandExecutionError for settings that only the configuration may set."""
    refused = of_this_host(settings)
    if refused:
        raise CommandExecutionError(
            f"{', '.join(refused)}: files of the master's host and options of ssh are not taken from callers; "
            "write them into the profile"
        )
