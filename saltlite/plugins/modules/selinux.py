"""SELinux: its mode, booleans, policy modules, and the labels of files and ports in the policy.

The policy is read and changed with the programs of SELinux. The mode is read from the kernel. Functions that change
labels return what ``cmd.run_all`` returns for the program. ``file.get_selinux_context`` and its like are about single
files.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       semanage, setsebool, semodule, restorecon
:platform:      Linux
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from saltlite.decorators import note
from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _programs
from saltlite.plugins.modules._commands import run_needed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from saltlite.loader.hints import __context__, __salt__

__risk__ = {"remove_semod": "selinux-policy", "setenforce": "selinux-mode"}

_CONFIG = "/etc/selinux/config"
_MODES = {"enforcing": "1", "permissive": "0", "disabled": "0"}
_FILE_TYPES = {
    "a": "all files", "f": "regular file", "d": "directory", "c": "character device", "b": "block device",
    "s": "socket", "l": "symbolic link", "p": "named pipe",
}  # fmt: skip
"""Letter of ``semanage fcontext --ftype`` -> the words in its list."""
_CONTEXT = ("sel_user", "sel_role", "sel_type", "sel_level")
_BOOLEAN = re.compile(r"(\S+)\s+\((\w+)\s*,\s*(\w+)\)\s*(.*)")
_PORT_ROW = re.compile(r"(\S+)\s+(\S+)\s+(\d[\d\-, ]*)")
_PORT = re.compile(r"(tcp|udp|dccp|sctp)/(\d+(?:-\d+)?)")
_RELABELLED = (r"^Would relabel (.*) from (.*) to (.*)$", r"^restorecon reset (.*) context (.*)->(.*)$")
"""What ``restorecon -v`` prints for each file; older versions print the second form."""


# --- Mode ---


def selinux_fs_path() -> str | None:
    """Return the folder of SELinux's file system; None if the kernel runs without SELinux.

    CLI Example: ``saltlite '*' selinux.selinux_fs_path``
    """
    folders = ("/sys/fs/selinux", "/selinux")
    return next((one for one in folders if os.path.isfile(_machinefiles.place(f"{one}/enforce"))), None)


def getenforce() -> str:
    """Return the mode that the kernel runs in: ``Enforcing``, ``Permissive`` or ``Disabled``.

    CLI Example: ``saltlite '*' selinux.getenforce``
    """
    folder = selinux_fs_path()
    if folder is None:
        return "Disabled"
    return "Permissive" if _machinefiles.read_if_there(f"{folder}/enforce").strip() == "0" else "Enforcing"


def getconfig() -> str | None:
    """Return the mode in ``/etc/selinux/config``, which the next boot uses; None if there is none.

    CLI Example: ``saltlite '*' selinux.getconfig``
    """
    found = re.search(r"^\s*SELINUX=[ \t]*(.*?)\s*$", _machinefiles.read_if_there(_CONFIG), re.MULTILINE)
    return found[1].capitalize() if found else None


def setenforce(mode: str) -> str:
    """Set the mode of the kernel and of the next boot to ``enforcing``, ``permissive`` or ``disabled``; return that of
    the kernel.

    A running kernel cannot be switched to or from ``disabled``: it is permissive until the next boot.

    CLI Example: ``saltlite '*' selinux.setenforce enforcing``
    """
    wanted = str(mode).lower()
    if wanted not in _MODES:
        raise SaltInvocationError(f"Invalid mode {mode}: it is one of {', '.join(_MODES)}.")
    text = _machinefiles.read(_CONFIG)
    folder = selinux_fs_path()
    if folder is not None:
        try:
            with open(_machinefiles.place(f"{folder}/enforce"), "w", encoding="ascii") as stream:
                stream.write(_MODES[wanted])
        except OSError as error:
            raise CommandExecutionError(f"{folder}/enforce cannot be written: {error.strerror}.") from error
    changed, lines = re.subn(r"^[ \t]*SELINUX=.*$", f"SELINUX={wanted}", text, flags=re.MULTILINE)
    if not lines:
        changed = f"{text.rstrip()}\nSELINUX={wanted}\n".lstrip("\n")
    _machinefiles.replace(_CONFIG, changed)
    return getenforce()


# --- Booleans ---


def list_sebool() -> dict[str, dict[str, str]]:
    """Return all booleans: ``{name: {State, Default, Description}}``, where states are ``on`` and ``off``.

    CLI Example: ``saltlite '*' selinux.list_sebool``
    """
    rows = filter(None, map(_BOOLEAN.fullmatch, map(str.strip, _listed("boolean"))))
    return {row[1]: {"State": row[2], "Default": row[3], "Description": " ".join(row[4].split())} for row in rows}


def getsebool(boolean: str) -> dict[str, str]:
    """Return ``State``, ``Default`` and ``Description`` of a boolean; ``{}`` if there is none of this name.

    CLI Example: ``saltlite '*' selinux.getsebool virt_use_usb``
    """
    return list_sebool().get(boolean, {})


def setsebool(boolean: str, value: Any, persist: bool = False) -> bool:
    """Set a boolean, with ``persist`` also for the next boots. Return whether it was set.

    CLI Example: ``saltlite '*' selinux.setsebool virt_use_usb off persist=True``
    """
    return setsebools({boolean: value}, persist)


def setsebools(pairs: Mapping[str, Any], persist: bool = False) -> bool:
    """Set several booleans, or none of them if one does not exist. Return whether they were set.

    CLI Example: ``saltlite '*' selinux.setsebools '{virt_use_usb: on, squid_use_tproxy: off}'``
    """
    words = [f"{_programs.name(name, 'boolean', without='=/')}={_state(value)}" for name, value in pairs.items()]
    if not words:
        raise SaltInvocationError("Name at least one boolean, as in {virt_use_usb: on}.")
    return _done("setsebool", *(["-P"] if persist else []), *words)


def _state(value: Any) -> str:
    text = str(value).lower()
    if text not in ("true", "false", "on", "off", "1", "0"):
        raise SaltInvocationError(f"A boolean is on or off, and not {value!r}.")
    return "1" if text in ("true", "on", "1") else "0"


# --- Modules of the policy ---


def list_semod() -> dict[str, dict[str, Any]]:
    """Return the modules of the policy: ``{name: {Enabled, Version}}``. ``Version`` is None, as in Salt.

    CLI Example: ``saltlite '*' selinux.list_semod``
    """
    # Priority, name, form and, of a disabled module, that word.
    rows = map(str.split, _programs.output(["semodule", "--list-modules=full"]).splitlines())
    return {row[1]: {"Enabled": len(row) != 4, "Version": None} for row in rows if len(row) > 1}


def getsemod(module: str) -> dict[str, Any]:
    """Return whether a module of the policy is enabled; ``{}`` if there is none of this name.

    CLI Example: ``saltlite '*' selinux.getsemod mysql``
    """
    return list_semod().get(module, {})


def setsemod(module: str, state: str) -> bool:
    """Set the state of a module of the policy to ``enabled`` or ``disabled``. Return whether that was done.

    CLI Example: ``saltlite '*' selinux.setsemod nagios Enabled``
    """
    options = {"enabled": "--enable", "disabled": "--disable"}
    option = options.get(str(state).lower())
    if option is None:
        raise SaltInvocationError(f"Invalid state {state}: it is enabled or disabled.")
    return _done("semodule", f"{option}={_programs.name(module, 'module')}")


def install_semod(module_path: str) -> bool:
    """Install a module of the policy from a file, which may be the master's. Return whether that was done.

    CLI Example::

        saltlite '*' selinux.install_semod /srv/web.pp
        saltlite '*' selinux.install_semod salt://selinux/web.pp
    """
    path = module_path
    if path.startswith("salt://"):
        path = __salt__["cp.cache_file"](module_path)
        if not path:
            raise CommandExecutionError(f"The master has no {module_path}.")
    return _done("semodule", f"--install={_programs.word(path, 'file')}")


def remove_semod(module: str) -> bool:
    """Remove a module from the policy. Return whether that was done.

    CLI Example: ``saltlite '*' selinux.remove_semod web``
    """
    return _done("semodule", f"--remove={_programs.name(module, 'module')}")


# --- Labels of files ---


def filetype_id_to_string(filetype: str = "a") -> str:
    """Return the words of ``semanage`` for a letter of a type of files: a, f, d, c, b, s, l or p.

    CLI Example: ``saltlite '*' selinux.filetype_id_to_string d``
    """
    if filetype not in _FILE_TYPES:
        raise SaltInvocationError(f"Invalid file type code {filetype!r}; expected one of: {', '.join(_FILE_TYPES)}")
    return _FILE_TYPES[filetype]


def fcontext_get_policy(
    name: str, filetype: str | None = None, sel_type: str | None = None, sel_user: str | None = None,
    sel_level: str | None = None,
) -> dict[str, str] | None:  # fmt: skip
    """Return the label that the policy has for a path expression, with ``filespec`` and ``filetype``; None without one.

    ``filetype`` is a letter of ``filetype_id_to_string``; without it the first entry counts, whatever its type. The
    other arguments must be equal to the parts of the label.

    CLI Example: ``saltlite '*' selinux.fcontext_get_policy '/srv/www(/.*)?' filetype=a``
    """
    wanted = {"sel_type": sel_type, "sel_user": sel_user, "sel_level": sel_level}
    kind = filetype_id_to_string(filetype) if filetype else None
    for entry in _file_labels(name):
        if kind in (None, entry["filetype"]) and all(entry[part] == text for part, text in wanted.items() if text):
            return entry
    return None


def fcontext_add_policy(
    name: str, filetype: str | None = None, sel_type: str | None = None, sel_user: str | None = None,
    sel_level: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Add a label for a path expression to the policy, or change the label that it has there.

    ``fcontext_apply_policy`` then sets it on files.

    CLI Example: ``saltlite '*' selinux.fcontext_add_policy '/srv/www(/.*)?' sel_type=httpd_sys_content_t``
    """
    known = fcontext_get_policy(name, filetype or "a")
    return _semanage_fcontext("--modify" if known else "--add", name, filetype, sel_type, sel_user, sel_level)


def fcontext_delete_policy(
    name: str, filetype: str | None = None, sel_type: str | None = None, sel_user: str | None = None,
    sel_level: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Delete a label of a path expression that was added to the policy.

    CLI Example: ``saltlite '*' selinux.fcontext_delete_policy '/srv/www(/.*)?'``
    """
    return _semanage_fcontext("--delete", name, filetype, sel_type, sel_user, sel_level)


def fcontext_policy_is_applied(name: str, recursive: bool = False) -> str:
    """Return the files whose labels differ from the policy, as ``restorecon`` prints them; empty if none does.

    CLI Example: ``saltlite '*' selinux.fcontext_policy_is_applied /srv/www recursive=True``
    """
    found: str = _restorecon(name, recursive, "-n")["stdout"]
    return found


def fcontext_apply_policy(name: str, recursive: bool = False) -> dict[str, Any]:
    """Set the labels of the policy on files. ``changes`` has the parts that changed: ``{path: {old, new}}``.

    CLI Example: ``saltlite '*' selinux.fcontext_apply_policy /srv/www recursive=True``
    """
    differing = fcontext_policy_is_applied(name, recursive)
    done = _restorecon(name, recursive, "-F")
    if done["retcode"] or not differing:
        return done
    rows = [row for form in _RELABELLED for row in re.findall(form, differing, re.MULTILINE)]
    if not rows:
        return {**done, "retcode": 1, "error": "Unrecognized response from restorecon command."}
    return {**done, "changes": {path: _differing(_parts(old), _parts(new)) for path, old, new in rows}}


def _file_labels(name: str) -> Iterator[dict[str, str]]:
    """The entries of the policy for exactly this expression."""
    for line in _listed("fcontext"):
        # The expression, the words of its type, and the label, which is `<<None>>` for files that are never labelled.
        for words in _FILE_TYPES.values():
            spec, found, label = line.rstrip().rpartition(f" {words} ")
            if found and spec.rstrip() == name and label.count(":") > 1:
                yield {"filespec": name, "filetype": words, **_parts(label.strip())}


def _parts(label: str) -> dict[str, str]:
    """The parts of a label; none of a text that is no label, such as `<no context>`."""
    found = label.split(":", 3)
    return dict(zip(_CONTEXT, found, strict=False)) if len(found) > 2 else {}


def _differing(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return {
        "old": {part: text for part, text in old.items() if new.get(part) != text},
        "new": {part: text for part, text in new.items() if old.get(part) != text},
    }


def _semanage_fcontext(
    action: str, name: str, filetype: str | None, sel_type: str | None, sel_user: str | None, sel_level: str | None
) -> dict[str, Any]:
    words = ["semanage", "fcontext", action]
    if filetype not in (None, "a"):
        filetype_id_to_string(str(filetype))
        words += ["--ftype", str(filetype)]
    return _changed(words, name, {"--type": sel_type, "--seuser": sel_user, "--range": sel_level})


def _restorecon(name: str, recursive: bool, *flags: str) -> dict[str, Any]:
    words = ["restorecon", *flags, "-v", *(["-R"] if recursive else []), "--", _programs.word(name, "path")]
    return run_needed(__salt__["cmd.run_all"], words)


# --- Labels of ports ---


def port_get_policy(
    name: str, sel_type: str | None = None, protocol: str | None = None, port: str | int | None = None
) -> dict[str, str] | None:
    """Return ``sel_type``, ``protocol`` and all of its ports (``port``) of the entry that lists a port or a range of
    ports; None without one.

    ``name`` is the protocol with the port; otherwise ``protocol`` and ``port`` are.

    CLI Example::

        saltlite '*' selinux.port_get_policy tcp/80
        saltlite '*' selinux.port_get_policy web protocol=tcp port=80
    """
    proto, ports = _port(name, protocol, port)
    for row in filter(None, map(_PORT_ROW.match, _listed("port"))):
        listed = [one.strip() for one in row[3].split(",")]
        if row[2] == proto and ports in listed and sel_type in (None, "", row[1]):
            return {"sel_type": row[1], "protocol": proto, "port": row[3].strip()}
    return None


def port_add_policy(
    name: str, sel_type: str | None = None, protocol: str | None = None, port: str | int | None = None,
    sel_range: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Add a label for a port or a range of ports to the policy.

    CLI Example::

        saltlite '*' selinux.port_add_policy tcp/8080 http_port_t
        saltlite '*' selinux.port_add_policy web http_port_t protocol=tcp port=8091
    """
    if not sel_type:
        raise SaltInvocationError("SELinux Type is required to add a policy")
    return _semanage_port("--add", name, sel_type, protocol, port, sel_range)


def port_modify_policy(
    name: str, sel_type: str | None = None, protocol: str | None = None, port: str | int | None = None,
    sel_range: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Change the label of a port or a range of ports in the policy.

    CLI Example: ``saltlite '*' selinux.port_modify_policy tcp/8080 http_port_t``
    """
    return _semanage_port("--modify", name, sel_type, protocol, port, sel_range)


def port_delete_policy(name: str, protocol: str | None = None, port: str | int | None = None) -> dict[str, Any]:
    """Delete a label of a port or a range of ports that was added to the policy.

    CLI Example: ``saltlite '*' selinux.port_delete_policy tcp/8080``
    """
    return _semanage_port("--delete", name, None, protocol, port, None)


def _port(name: str, protocol: str | None, port: str | int | None) -> tuple[str, str]:
    found = _PORT.fullmatch(str(name)) or _PORT.fullmatch(f"{protocol}/{port}")
    if found is None:
        raise SaltInvocationError(
            f'Invalid name "{name}" format and protocol and port not provided or invalid: "{protocol}" "{port}". '
            "Write it as in tcp/8080 or udp/20-21."
        )
    return found[1], found[2]


def _semanage_port(
    action: str, name: str, sel_type: str | None, protocol: str | None, port: str | int | None, sel_range: str | None
) -> dict[str, Any]:
    proto, ports = _port(name, protocol, port)
    return _changed(["semanage", "port", action, "--proto", proto], ports, {"--type": sel_type, "--range": sel_range})


# --- Programs ---


def _listed(what: str) -> list[str]:
    return _programs.output(["semanage", what, "--list"]).splitlines()


def _changed(words: list[str], name: str, options: Mapping[str, str | None]) -> dict[str, Any]:
    for option, text in options.items():
        if text is not None:
            words += [option, _programs.word(text, "part of a label")]
    return run_needed(__salt__["cmd.run_all"], [*words, "--", _programs.word(name, "path")])


def _done(*words: str) -> bool:
    done = _programs.run(words)
    if done.retcode:
        note(f"{words[0]} failed: {done.reason()}")
        __context__["retcode"] = 1
    return not done.retcode
