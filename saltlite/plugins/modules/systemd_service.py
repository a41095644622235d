"""Services of machines that were booted with systemd.

Commands that change a unit run in their own scope (``systemd-run --scope``), so that they continue if the minion's
control group is killed; the option ``systemd.scope: False`` disables this. Restarting or stopping the minion itself
does not wait for completion. Units without a type are services.

If systemd is installed but not running, as in the root folder of an image, unit files can be listed, enabled and
masked; all other functions fail.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       systemctl
:platform:      Linux
"""

from __future__ import annotations

import fnmatch
import os
import shutil
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _programs, _services

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__

__func_alias__ = {"reload_": "reload", "unmask_": "unmask"}

__virtualname__ = "service"

_RUNLEVEL = "2"


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("kernel", "Linux") != "Linux":
        return False, "The systemd execution module cannot be loaded: only works on Linux."
    if _services.booted():
        return __virtualname__
    if shutil.which("systemctl") is None:
        return False, "The systemd execution module cannot be loaded: only works on machines that systemd runs."
    if __grains__.get("os_family") == "Debian" and os.path.isdir("/etc/init.d"):
        return False, "The systemd execution module cannot be loaded: only works on machines that systemd runs."
    return __virtualname__


def start(name: str, no_block: bool = False, unmask: bool = False, unmask_runtime: bool = False) -> bool:
    """Start a unit. ``unmask`` and ``unmask_runtime`` unmask it first, ``no_block`` does not wait for it.

    CLI Example: ``saltlite '*' service.start sshd``
    """
    return _job("start", name, no_block, unmask=unmask, unmask_runtime=unmask_runtime)


def stop(name: str, no_block: bool | None = None) -> bool:
    """Stop a unit. ``no_block`` does not wait for it, which is the default for the minion's own unit.

    CLI Example: ``saltlite '*' service.stop sshd``
    """
    return _job("stop", name, no_block)


def restart(name: str, no_block: bool | None = None, unmask: bool = False, unmask_runtime: bool = False) -> bool:
    """Restart a unit. ``unmask`` and ``unmask_runtime`` unmask it first, ``no_block`` does not wait for it, which is
    the default for the minion's own unit.

    CLI Example::

        saltlite '*' service.restart sshd
        saltlite '*' service.restart saltlite-minion
    """
    return _job("restart", name, no_block, unmask=unmask, unmask_runtime=unmask_runtime)


def reload_(name: str, no_block: bool = False, unmask: bool = False, unmask_runtime: bool = False) -> bool:
    """Make a service reload its configuration. The keyword arguments are those of ``service.start``.

    CLI Example: ``saltlite '*' service.reload sshd``
    """
    return _job("reload", name, no_block, unmask=unmask, unmask_runtime=unmask_runtime)


def force_reload(name: str, no_block: bool = True, unmask: bool = False, unmask_runtime: bool = False) -> bool:
    """Make a service reload its configuration, or restart it if it cannot. The keyword arguments are those of
    ``service.start``, but it is not waited for unless ``no_block=False``.

    CLI Example: ``saltlite '*' service.force_reload sshd``
    """
    return _job("force-reload", name, no_block, unmask=unmask, unmask_runtime=unmask_runtime)


def status(name: str, sig: str | None = None) -> bool | dict[str, bool]:  # noqa: ARG001 - the interface has it
    """Whether a unit is active; by name for a glob. ``sig`` is for systems without systemd.

    CLI Example::

        saltlite '*' service.status sshd
        saltlite '*' service.status 'ssh*'
    """
    _online("tell what runs")
    if not _services.is_glob(name):
        _read_changes(name)
        return _states([_services.unit(name)])[0] in _services.ACTIVE
    names = fnmatch.filter(get_all(), str(name))
    running = [one for one in names if not _services.is_template(one)]
    states = dict(zip(running, _states([_services.unit(one) for one in running]), strict=True))
    return {one: states.get(one) in _services.ACTIVE for one in names}


def available(name: str) -> bool:
    """Whether a unit or a template exists.

    CLI Example: ``saltlite '*' service.available sshd``
    """
    unit = _services.unit(name)
    _online(f"tell of {unit}")
    if _services.is_template(unit):
        return _services.short(unit) in _services.unit_files(None)
    _read_changes(name)
    return str(_loaded(unit).get("LoadState", "not-found")) != "not-found"


def missing(name: str) -> bool:
    """Whether a unit does not exist.

    CLI Example: ``saltlite '*' service.missing sshd``
    """
    return not available(name)


def enable(
    name: str, no_block: bool = False, unmask: bool = False, unmask_runtime: bool = False, root: str | None = None
) -> bool:
    """Enable a unit to start at boot, with ``root`` in the system in that folder. ``unmask`` and ``unmask_runtime``
    unmask it first.

    CLI Example::

        saltlite '*' service.enable sshd
        saltlite '*' service.enable sshd root=/srv/image
    """
    if unmask:
        unmask_(name, root=root)
    if unmask_runtime:
        unmask_(name, runtime=True, root=root)
    return _link("enable", name, root, no_block=no_block)


def disable(name: str, no_block: bool = False, root: str | None = None) -> bool:
    """Disable a unit at boot; it is not stopped.

    CLI Example: ``saltlite '*' service.disable sshd``
    """
    return _link("disable", name, root, no_block=no_block)


def enabled(name: str, root: str | None = None) -> bool:
    """Whether a unit starts at boot, or needs no enabling; for an alias, whether the unit behind it does.

    CLI Example: ``saltlite '*' service.enabled sshd``
    """
    unit, folder = _services.unit(name), _files(root)
    done = _services.systemctl(["is-enabled"], [unit], root=folder)
    if done.retcode == 0 and done.stdout.strip() == "alias" and folder is None:
        behind = _services.systemctl(["show", "--property=Id", "--value"], [unit]).stdout.strip()
        done = _services.systemctl(["is-enabled"], [_services.unit(behind)])
    if done.retcode == 0:
        return True
    script = _services.short(unit) or ""
    return script in _scripts(folder) and script in _services.started(_services.runlevel(_RUNLEVEL), folder)


def disabled(name: str, root: str | None = None) -> bool:
    """Whether a unit does not start at boot.

    CLI Example: ``saltlite '*' service.disabled sshd``
    """
    return not enabled(name, root)


def mask(name: str, runtime: bool = False, root: str | None = None) -> bool:
    """Mask a unit, so that it cannot be started; with ``runtime`` until the next reboot.

    CLI Example::

        saltlite '*' service.mask foo
        saltlite '*' service.mask foo runtime=True
    """
    return _link("mask", name, root, runtime=runtime)


def unmask_(name: str, runtime: bool = False, root: str | None = None) -> bool:
    """Unmask a unit; with ``runtime`` remove the mask that lasts until the next reboot.

    CLI Example::

        saltlite '*' service.unmask foo
        saltlite '*' service.unmask foo runtime=True
    """
    return not masked(name, runtime, root) or _link("unmask", name, root, runtime=runtime)


def masked(name: str, runtime: bool = False, root: str | None = None) -> bool:
    """Whether a unit is masked; with ``runtime`` whether it is masked until the next reboot.

    CLI Example: ``saltlite '*' service.masked foo``
    """
    folder = os.path.join(_programs.folder(root) or "/", "run" if runtime else "etc", "systemd/system")
    try:
        return os.readlink(os.path.join(folder, _services.unit(name))) == "/dev/null"
    except OSError:
        return False


def show(name: str, root: str | None = None) -> dict[str, Any]:
    """The properties of a unit: strings, a dict for a program, and lists for ``Before``, ``After`` and ``Wants``.

    CLI Example: ``saltlite '*' service.show sshd``
    """
    if _files(root):
        raise SaltInvocationError("systemctl shows properties only of the units that a running systemd has read.")
    done = _services.systemctl(["show"], [_services.unit(name)])
    if done.retcode:
        raise CommandExecutionError(f"The properties of {name} cannot be read: {done.reason()}")
    return _services.properties(done.stdout)


def execs(root: str | None = None) -> dict[str, str]:
    """The programs of all services that have one: ``{name: path}``.

    CLI Example: ``saltlite '*' service.execs``
    """
    if _files(root):
        raise SaltInvocationError("systemctl shows programs only of the units that a running systemd has read.")
    names = [one for one in get_all() if not _services.is_template(one)]
    units = [_services.unit(one) for one in names]
    shown = _services.systemctl(["show", "--property=Id", "--property=ExecStart"], units).stdout
    found: dict[str, str] = {}
    for name, block in zip(names, shown.split("\n\n"), strict=False):
        program = _services.properties(block).get("ExecStart")
        if isinstance(program, dict) and "path" in program:
            found[name] = program["path"]
    return found


def get_all(root: str | None = None) -> list[str]:
    """All units with a unit file, and all init scripts, sorted.

    CLI Example: ``saltlite '*' service.get_all``
    """
    folder = _programs.folder(root)
    return sorted({*_services.unit_files(folder), *_scripts(folder)})


def get_enabled(root: str | None = None) -> list[str]:
    """The units and init scripts that start at boot, sorted.

    CLI Example: ``saltlite '*' service.get_enabled``
    """
    folder = _files(root)
    started = _services.started(_services.runlevel(_RUNLEVEL), folder)
    return sorted({*_in_state("enabled", folder), *[one for one in _scripts(folder) if one in started]})


def get_disabled(root: str | None = None) -> list[str]:
    """The units and init scripts that are disabled at boot, sorted.

    CLI Example: ``saltlite '*' service.get_disabled``
    """
    folder = _files(root)
    started = _services.started(_services.runlevel(_RUNLEVEL), folder)
    return sorted({*_in_state("disabled", folder), *[one for one in _scripts(folder) if one not in started]})


def get_static(root: str | None = None) -> list[str]:
    """The static units, which only other units start, sorted.

    CLI Example: ``saltlite '*' service.get_static``
    """
    return sorted({*_in_state("static", _files(root))})


def get_running() -> list[str]:
    """The running units, sorted.

    CLI Example: ``saltlite '*' service.get_running``
    """
    _online("tell what runs")
    done = _services.systemctl(["--full", "--no-legend", "--plain", "--state=running", "list-units"])
    if done.retcode:
        raise CommandExecutionError(f"The units cannot be listed: {done.reason()}")
    names = (_services.short(line.split()[0]) for line in done.stdout.splitlines() if line.strip())
    return sorted({name for name in names if name is not None})


def systemctl_reload() -> bool:
    """Make systemd reload all unit files. Functions of this module do this when a unit file has changed.

    CLI Example: ``saltlite '*' service.systemctl_reload``
    """
    done = _services.systemctl(["daemon-reload"])
    if done.retcode:
        raise CommandExecutionError(f"systemctl daemon-reload failed: {done.reason()}")
    return True


def firstboot(
    locale: str | None = None, locale_message: str | None = None, keymap: str | None = None,
    timezone: str | None = None, hostname: str | None = None, machine_id: str | None = None, root: str | None = None,
) -> bool:  # fmt: skip
    """Set what a new system asks for at its first boot, unless it is already set.

    CLI Example: ``saltlite '*' service.firstboot keymap=us locale=en_US.UTF-8 root=/srv/image``
    """
    given = {
        "locale": locale,
        "locale-messages": locale_message,
        "keymap": keymap,
        "timezone": timezone,
        "hostname": hostname,
        "machine-id": machine_id,
        "root": _programs.folder(root),
    }
    options = [f"--{key}={_programs.value(text, key, without='')}" for key, text in given.items() if text]
    _programs.checked(["systemd-firstboot", *options])
    return True


def offline() -> bool:
    """Whether systemd is installed but not running.

    CLI Example: ``saltlite '*' service.offline``
    """
    return not _services.booted() and shutil.which("systemctl") is not None


def _job(verb: str, name: Any, no_block: bool | None, *, unmask: bool = False, unmask_runtime: bool = False) -> bool:
    """Start, stop or reload a unit."""
    unit = _services.unit(name)
    _online(f"{verb} {unit}")
    _read_changes(name)
    if unmask:
        unmask_(name)
    if unmask_runtime:
        unmask_(name, runtime=True)
    if no_block is None:
        no_block = unit in {_services.MINION, _services.own_unit()}
    _services.change([*(["--no-block"] if no_block else []), verb], unit, scope=_scope())
    return True


def _link(verb: str, name: Any, root: Any, *, no_block: bool = False, runtime: bool = False) -> bool:
    """Change the links to a unit file."""
    unit, folder = _services.unit(name), _files(root)
    if folder is None:
        _read_changes(name)
    options = [option for option, given in (("--no-block", no_block), ("--runtime", runtime)) if given]
    _services.change([*options, verb], unit, scope=_scope(), root=folder)
    return True


def _scope() -> bool:
    return bool(__salt__["config.get"]("systemd.scope", True))


def _online(what: str) -> None:
    if not _services.booted():
        raise CommandExecutionError(f"systemd does not run on this machine, so it cannot {what}")


def _files(root: Any) -> str | None:
    """The root folder whose unit files are used; None for those of the running systemd."""
    return _programs.folder(root) or (None if _services.booted() else "/")


def _loaded(unit: str) -> dict[str, Any]:
    shown = _services.systemctl(["show", "--property=LoadState", "--property=NeedDaemonReload"], [unit])
    if shown.retcode:
        raise CommandExecutionError(f"systemd cannot describe {unit}: {shown.reason()}")
    return _services.properties(shown.stdout)


def _read_changes(name: Any) -> None:
    """Reload systemd if the file of this unit has changed since systemd read it."""
    unit = _services.unit(name)
    if not _services.booted() or _services.is_template(unit):
        return
    known = _loaded(unit)
    unread = known.get("LoadState") == "not-found" and _services.missing_unit_is_in_etc(unit)
    if unread or known.get("NeedDaemonReload") == "yes":
        systemctl_reload()


def _states(units: list[str]) -> list[str]:
    """The active state of each unit."""
    if not units:
        return []
    done = _services.systemctl(["is-active"], units)
    found = done.stdout.splitlines()
    if len(found) != len(units):
        raise CommandExecutionError(f"systemd cannot list running units: {done.reason()}")
    return found


def _scripts(folder: str | None) -> list[str]:
    """Init scripts without a unit of the same name."""
    units = _services.unit_files(folder)
    return [one for one in _services.scripts(folder) if one not in units]


def _in_state(state: str, folder: str | None) -> list[str]:
    return [name for name, found in _services.unit_file_states(folder) if found == state]
