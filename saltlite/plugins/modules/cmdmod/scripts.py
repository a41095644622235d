"""Scripts, and code that is given as text."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

from ._execution import DEFAULT_SHELL, circumstances, execute, private_copy, rendered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from saltlite.loader.hints import __context__, __salt__

_HEAD = 512
"""Bytes in which a program has a zero, and a text has none: what shells look at, too."""


def script(  # noqa: PLR0913 - Salt's arguments
    source: str,
    args: str | list[str] | None = None,
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    *,
    template: str | None = None,
    saltenv: str = "base",
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run a script of the master (``salt://``) or of this minion, and return what ``run_all`` returns.

    The script needs no execute bit: a private copy of it runs, and is removed afterwards. One whose first line names no
    interpreter is run by ``shell`` (``/bin/sh``). ``template`` is ``jinja`` for a script that is one. Where the master
    has no such script ``cache_error`` is True, and the return code 1.

    CLI Example::

        saltlite '*' cmd.script salt://scripts/runme.sh
        saltlite '*' cmd.script salt://scripts/runme.sh 'arg1 arg2 "arg 3"'
        saltlite '*' cmd.script /usr/local/sbin/check.sh 'one two'
    """
    if kwargs.get("python_shell"):
        raise SaltInvocationError("cmd.script starts the script itself: python_shell does not apply to it.")
    who = circumstances(cwd, runas, group)
    words = [str(word) for word in args] if isinstance(args, list | tuple) else shlex.split(str(args or ""))
    path = _place(str(source), saltenv)
    if not path:
        __context__["retcode"] = 1
        return {"pid": 0, "retcode": 1, "stdout": "", "stderr": "", "cache_error": True}
    try:
        with open(path, "rb") as stream:
            body = stream.read()
    except OSError as error:
        raise CommandExecutionError(f"The script {path} cannot be read: {error.strerror}.") from error
    if template:
        body = rendered(body.decode("utf-8", "surrogateescape"), template, saltenv).encode("utf-8", "surrogateescape")
    options = {"redirect_stderr": False, **kwargs, "python_shell": False}
    with private_copy(body, who) as copy:
        return execute([*_interpreter(body, options), copy, *words], stdin, who, options)


def script_retcode(
    source: str,
    args: str | list[str] | None = None,
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> int:
    """
    Run a script as ``script`` does, and return its return code.

    CLI Example::

        saltlite '*' cmd.script_retcode salt://scripts/runme.sh 'arg1 arg2'
    """
    result: int = script(source, args, cwd, stdin, runas, group, **kwargs)["retcode"]
    return result


def exec_code(
    lang: str,
    code: str | list[str],
    cwd: str | None = None,
    args: str | list[str] | None = None,
    **kwargs: Any,
) -> str:
    """
    Run a piece of code with an interpreter, and return its output.

    CLI Example::

        saltlite '*' cmd.exec_code ruby 'puts "cheese"'
        saltlite '*' cmd.exec_code python3 'import sys; print(sys.argv[1])' args=hello
    """
    result: str = exec_code_all(lang, code, cwd, args, **{"redirect_stderr": True, **kwargs})["stdout"]
    return result


def exec_code_all(
    lang: str,
    code: str | list[str],
    cwd: str | None = None,
    args: str | list[str] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run a piece of code with an interpreter, and return what ``run_all`` returns.

    CLI Example::

        saltlite '*' cmd.exec_code_all python3 'print("cheese")'
    """
    text = "\n".join(str(line) for line in code) if isinstance(code, list | tuple) else str(code)
    words = [str(word) for word in args] if isinstance(args, list | tuple) else shlex.split(str(args or ""))
    who = circumstances(cwd, kwargs.pop("runas", None), kwargs.pop("group", None))
    stdin = kwargs.pop("stdin", None)
    options = {"redirect_stderr": False, **kwargs, "python_shell": False}
    with private_copy(text.encode(), who) as copy:
        return execute([*shlex.split(lang), copy, *words], stdin, who, options)


def _interpreter(body: bytes, options: Mapping[str, Any]) -> list[str]:
    """What starts a script that the kernel would not: as from a command line, a shell."""
    if body.startswith(b"#!") or b"\0" in body[:_HEAD]:
        return []
    return [str(options.get("shell") or DEFAULT_SHELL)]


def _place(source: str, saltenv: str) -> str:
    """Where the script lies on this minion; an empty text when the master has none of that name."""
    if source.startswith("salt://"):
        return str(__salt__["cp.cache_file"](source, saltenv) or "")
    path = source.removeprefix("file://")
    if "://" in path:
        raise SaltInvocationError(f"{source} is neither salt://path nor a path on this minion.")
    if not os.path.isabs(path):
        raise SaltInvocationError(f"{source} is a relative path: give the absolute path of the script.")
    return path
