"""The composition root, and what commands, runners and the API ask for: making, destroying, and maps of machines."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from saltlite.client.local import LocalClient
from saltlite.cloud.program.create import Creation
from saltlite.cloud.program.destroy import destroy
from saltlite.cloud.program.files import LoadedCloud, load_cloud
from saltlite.cloud.program.master import Master
from saltlite.cloud.program.parallel import Done, Work, at_once, one_by_one
from saltlite.cloud.program.program import Program, conceal_logs
from saltlite.cloud.program.progress import Say
from saltlite.cloud.program.query import find
from saltlite.cloud.rules.maps import MapMachine, waves
from saltlite.cloud.rules.providers import Provider
from saltlite.config.load import load_master
from saltlite.errors import SaltliteError, UsageError
from saltlite.platform.accounts import require_trusted

CACHE_DIRECTORY = "CACHE_DIRECTORY"
"""The environment variable for the option of that name of systemd.exec(5)."""


def open_program(config_dir: str, client: LocalClient, say: Say) -> Program:
    """The program by the files of a folder. Raises ConfigError, and RefusedError for folders of drivers, and
    a cachedir with host keys and the journal, that others may write to. Its secrets appear in no log from here on.
    """
    loaded, master = _cached_for_service(load_cloud(config_dir)), load_master(config_dir).config
    places = [*master.module_dirs, *loaded.config.cloud_dirs, master.extension_modules, loaded.config.cachedir]
    require_trusted(places)
    program = Program(loaded, master, config_dir, Master(client), say)
    conceal_logs(program.secrets)
    return program


def _cached_for_service(loaded: LoadedCloud) -> LoadedCloud:
    """A service that systemd starts keeps its own cache where it may write, unless the configuration says where.

    The folder of the default belongs to the operator, whose host keys and journal no service shall be able to change.
    """
    folder = os.environ.get(CACHE_DIRECTORY, "").partition(":")[0]
    if not folder or "cachedir" in loaded.given.values:
        return loaded
    return replace(loaded, config=replace(loaded.config, cachedir=os.path.join(folder, "cloud")))


def make_machines(
    program: Program, profile: str, names: Sequence[str], given: Mapping[str, Any], *, parallel: bool = False
) -> Done:
    """Machines of one profile; `given` is what the command line says of them. Raises UsageError, ConfigError."""
    wanted = program.catalogue.profile(profile)
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UsageError(f"{', '.join(sorted(twice))} is to be made twice")
    machines = {name: program.machine(name, wanted, None, given) for name in names}
    return _run(program, names, partial(_make_one, program, machines), parallel=parallel)


def destroy_machines(
    program: Program, names: Sequence[str], providers: Sequence[Provider], *, parallel: bool = False
) -> Done:
    """Destroy these machines. Raises SaltliteError, and none is destroyed, when one is nowhere or at two places."""
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
    """The machines of a map that are not there yet, those first that others require."""
    everything = Done()
    failed: set[str] = set()
    for wave in waves(machines, there):
        held = {one.name: next((name for name in one.requires if name in failed), None) for one in wave}
        for name, needed in held.items():
            if needed is not None:
                everything.errors[name] = SaltliteError(f"{name}: not made, for {needed}, which it requires, failed")
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
    """Of the machines of a map those that are there: name -> `alias:driver`. Raises SaltliteError.

    A machine's provider is that of its profile: the same name elsewhere is another machine.
    """
    providers = {program.catalogue.profile(one.profile).provider.name for one in machines}
    taken = {name: program.driver(program.catalogue.provider(name)).names() for name in providers}
    found = {}
    for one in machines:
        provider = program.catalogue.profile(one.profile).provider.name
        if one.name in taken[provider]:
            found[one.name] = provider
    return found


def _make_one(program: Program, machines: Mapping[str, dict[str, Any]], name: str) -> Any:
    return Creation(program, machines[name]).make()


def _run(program: Program, names: Sequence[str], work: Work, *, parallel: bool) -> Done:
    if parallel and len(names) > 1:
        return at_once(names, work, program, program.config.parallel_max)
    return one_by_one(names, work)
