"""Run commands on hosts.

A command text always goes through the shell of the host, whoever calls; a list of words does not need quoting.
Every command takes these arguments:

============ =============================================================================
``cwd``      the folder to run it in
``stdin``    text that it reads
``runas``    the user to run it as, by sudo; by su when the login is root and has no sudo
``env``      variables to set: a dict, or a list of dicts
``timeout``  seconds after which the connection is ended; otherwise the host's of the pillar
``ignore_retcode``  the job's return code stays 0
============ =============================================================================

:maintainer:    The saltlite authors
:maturity:      new
:platform:      POSIX
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import SaltInvocationError, invalid_keywords

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __resource_funcs__

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class _Options(TypedDict, total=False):
    stdin: str | None
    runas: str | None
    env: Any
    timeout: float | None
    ignore_retcode: bool
    shell: str


def run(cmd: str | list[str], cwd: str | None = None, **kwargs: Unpack[_Options]) -> str:
    """
    Run a command and return its output, error output behind it.

    CLI Example::

        saltlite -C 'T@ssh' cmd.run 'uname -a'
        saltlite web-1 cmd.run 'id' runas=www-data
    """
    done = _execute(cmd, cwd, kwargs)
    return "\n".join(text for text in (done["stdout"], done["stderr"]) if text)


def run_stdout(cmd: str | list[str], cwd: str | None = None, **kwargs: Unpack[_Options]) -> str:
    """
    Run a command and return its standard output only.

    CLI Example: ``saltlite web-1 cmd.run_stdout 'ls /etc'``
    """
    text: str = _execute(cmd, cwd, kwargs)["stdout"]
    return text


def run_stderr(cmd: str | list[str], cwd: str | None = None, **kwargs: Unpack[_Options]) -> str:
    """
    Run a command and return its error output only.

    CLI Example: ``saltlite web-1 cmd.run_stderr 'ls /nowhere'``
    """
    text: str = _execute(cmd, cwd, kwargs)["stderr"]
    return text


def run_all(cmd: str | list[str], cwd: str | None = None, **kwargs: Unpack[_Options]) -> dict[str, Any]:
    """
    Run a command and return ``retcode``, ``stdout`` and ``stderr``.

    CLI Example: ``saltlite web-1 cmd.run_all 'systemctl is-system-running'``
    """
    return _execute(cmd, cwd, kwargs)


def retcode(cmd: str | list[str], cwd: str | None = None, **kwargs: Unpack[_Options]) -> int:
    """
    Run a command and return its return code.

    CLI Example: ``saltlite web-1 cmd.retcode 'test -e /etc/hosts'``
    """
    code: int = _execute(cmd, cwd, kwargs)["retcode"]
    return code


def shell(cmd: str | list[str], cwd: str | None = None, **kwargs: Unpack[_Options]) -> str:
    """
    Run a command with another shell, ``shell=/bin/bash``, and return its output.

    CLI Example: ``saltlite web-1 cmd.shell 'echo $((2**10))' shell=/bin/bash``
    """
    return run(cmd, cwd, **kwargs)


def _execute(cmd: Any, cwd: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a command; its return code becomes the job's."""
    unknown = sorted(name for name in given if name not in _Options.__annotations__ and name[:2] != "__")
    if unknown:
        raise SaltInvocationError(invalid_keywords(unknown, _Options.__annotations__))
    stdin = given.get("stdin")
    timeout = given.get("timeout")
    done = __resource_funcs__["ssh.run"](
        _script(cmd, cwd, given.get("env")),
        stdin=None if stdin is None else str(stdin).encode(),
        timeout=None if timeout is None else float(timeout),
        runas=given.get("runas"),
        shell=given.get("shell") or "/bin/sh",
    )
    if not given.get("ignore_retcode"):
        __context__["retcode"] = done.retcode
    stdout, stderr = (data.decode(errors="replace").rstrip() for data in (done.stdout, done.stderr))
    if done.dropped:
        stderr = f"{stderr}\n[{done.dropped} bytes of output were dropped]".lstrip()
    return {"retcode": done.retcode, "stdout": stdout, "stderr": stderr}


def _script(cmd: Any, cwd: str | None, env: Any) -> str:
    lines = []
    for each in env if isinstance(env, list) else [env or {}]:
        if not isinstance(each, Mapping):
            raise SaltInvocationError("env must be a dict, or a list of dicts.")
        for name, value in each.items():
            if not _VARIABLE.fullmatch(str(name)):
                raise SaltInvocationError(f"{name!r} is not the name of a variable.")
            lines.append(f"{name}={shlex.quote(str(value))}; export {name}")
    if cwd is not None:
        lines.append(f"cd -- {shlex.quote(str(cwd))} || exit")
    lines.append(shlex.join(map(str, cmd)) if isinstance(cmd, list | tuple) else str(cmd))
    return "\n".join(lines)
