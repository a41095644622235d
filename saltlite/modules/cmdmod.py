"""Run commands of the operating system.

Called from the command line, a command text goes through the shell, as the operator typed it; called by
another module it does not, unless it says ``python_shell=True``. Children stay in the process group of
their job, so that killing the job ends them.

All functions that run a command take these keyword arguments besides their own:

=================== ====================================================================================
``shell``           path of the shell; ``/bin/sh``
``python_shell``    True: the text goes through the shell. False: it is split into words, no shell runs
``env``             variables to set: a dict, or a list of dicts
``clean_env``       the command sees ``env`` and nothing else
``rstrip``          False keeps white space at the end of the output
``umask``           octal text such as ``077``
``output_encoding`` how to decode the output; what does not fit becomes U+FFFD
``output_loglevel`` the level at which command and output are logged: ``debug``, or ``quiet`` for neither
``hide_output``     return no output
``timeout``         seconds after which the command and its children are killed
``reset_system_locale``  False keeps the minion's locale; otherwise the command runs in the C locale
``ignore_retcode``  the job's return code stays 0
``redirect_stderr`` False keeps error output out of the result of ``cmd.run``
``raise_err``       raise an error when the command fails
``success_retcodes``  return codes, as a list or ``1,2``, that count as 0
``success_stdout``  output texts that make the return code 0; ``success_stderr`` likewise
=================== ====================================================================================

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import codecs
import contextlib
import grp
import logging
import os
import pwd
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.modules._command import OUTPUT_BYTES_MAX, Output, Surroundings, run_to_end

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __salt_system_encoding__

log = logging.getLogger(__name__)

__virtualname__ = "cmd"

DEFAULT_SHELL = "/bin/sh"


def __virtual__() -> str:  # noqa: N807 - the name that the loader asks for
    return __virtualname__


@dataclass(frozen=True, slots=True)
class _Options:
    """The keyword arguments of the table above, checked."""

    shell: str = DEFAULT_SHELL
    python_shell: bool = False
    env: Any = None
    clean_env: bool = False
    rstrip: bool = True
    umask: str | int | None = None
    output_encoding: str | None = None
    output_loglevel: str | None = "debug"
    hide_output: bool = False
    timeout: float | None = None
    reset_system_locale: bool = True
    ignore_retcode: bool = False
    redirect_stderr: bool = True
    raise_err: bool = False
    success_retcodes: Any = None
    success_stdout: Any = None
    success_stderr: Any = None


@dataclass(frozen=True, slots=True)
class _Who:
    """Where and as whom a command runs; `user` is None for the minion's own user."""

    cwd: str
    user: pwd.struct_passwd | None
    gid: int | None


def run(
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Run a command and return its output, error output included.

    CLI Example::

        saltlite '*' cmd.run "ls -l | awk '/foo/{print \\$2}'"
        saltlite '*' cmd.run 'id' runas=www-data
        saltlite '*' cmd.run 'sleep 60' timeout=5
    """
    kwargs.setdefault("redirect_stderr", True)
    result: str = _execute(cmd, stdin, _who(cwd, runas, group), kwargs)["stdout"]
    return result


def run_stdout(
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Run a command and return its standard output only.

    CLI Example::

        saltlite '*' cmd.run_stdout "ls -l | awk '/foo/{print \\$2}'"
    """
    result: str = run_all(cmd, cwd, stdin, runas, group, **kwargs)["stdout"]
    return result


def run_stderr(
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Run a command and return its error output only.

    CLI Example::

        saltlite '*' cmd.run_stderr 'ls /nowhere'
    """
    result: str = run_all(cmd, cwd, stdin, runas, group, **kwargs)["stderr"]
    return result


def run_all(
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run a command and return ``pid``, ``retcode``, ``stdout`` and ``stderr``.

    CLI Example::

        saltlite '*' cmd.run_all 'ls -l /etc/hosts'
    """
    kwargs.setdefault("redirect_stderr", False)
    return _execute(cmd, stdin, _who(cwd, runas, group), kwargs)


def retcode(
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> int:
    """
    Run a command and return its return code.

    CLI Example::

        saltlite '*' cmd.retcode 'test -e /etc/hosts'
    """
    result: int = run_all(cmd, cwd, stdin, runas, group, **kwargs)["retcode"]
    return result


def shell(
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Run a command through the shell, also when another module calls, and return its output.

    CLI Example::

        saltlite '*' cmd.shell 'echo $HOME | wc -c'
    """
    return run(cmd, cwd, stdin, runas, group, **{**kwargs, "python_shell": True})


def script(
    source: str,
    args: str | list[str] | None = None,
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run a script that lies on the minion, and return what ``run_all`` returns.

    The script needs no execute bit: a private copy of it runs, and is removed afterwards.

    CLI Example::

        saltlite '*' cmd.script /usr/local/sbin/check.sh 'one two'
    """
    path = str(source).removeprefix("file://")
    if "://" in path:
        raise SaltInvocationError(f"{source} is not a file of this minion: give the absolute path of a local script.")
    if not os.path.isabs(path):
        raise SaltInvocationError(f"{source} is a relative path: give the absolute path of the script.")
    if kwargs.get("python_shell"):
        raise SaltInvocationError("cmd.script starts the script itself: python_shell does not apply to it.")
    who = _who(cwd, runas, None)
    words = [str(word) for word in args] if isinstance(args, list | tuple) else shlex.split(str(args or ""))
    try:
        with open(path, "rb") as stream:
            body = stream.read()
    except OSError as error:
        raise CommandExecutionError(f"The script {path} cannot be read: {error.strerror}.") from error
    options = {"redirect_stderr": False, **kwargs, "python_shell": False}
    with _private_copy(body, who) as copy:
        return _execute([copy, *words], stdin, who, options)


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
    who = _who(cwd, kwargs.pop("runas", None), kwargs.pop("group", None))
    stdin = kwargs.pop("stdin", None)
    options = {"redirect_stderr": False, **kwargs, "python_shell": False}
    with _private_copy(text.encode(), who) as copy:
        return _execute([*shlex.split(lang), copy, *words], stdin, who, options)


def which(cmd: str) -> str | None:
    """
    The path of a program, or None.

    CLI Example::

        saltlite '*' cmd.which cat
    """
    return shutil.which(str(cmd))


def which_bin(cmds: list[str]) -> str | None:
    """
    The path of the first of these programs that is installed, or None.

    CLI Example::

        saltlite '*' cmd.which_bin '[pip3, pip, pip-python]'
    """
    return next((path for cmd in cmds if (path := which(cmd))), None)


def has_exec(cmd: str) -> bool:
    """
    Whether a program is installed.

    CLI Example::

        saltlite '*' cmd.has_exec cat
    """
    return which(cmd) is not None


def _execute(cmd: Any, stdin: str | None, who: _Who, given: dict[str, Any]) -> dict[str, Any]:
    options = _options(given)
    argv = _argv(cmd, options)
    if options.output_loglevel != "quiet":
        log.log(_level(options), "Running %s in %s", argv, who.cwd)
    result = _spawn(argv, stdin, who, options)
    code = 0 if _counts_as_success(result, options) else result["retcode"]
    __context__["retcode"] = 0 if options.ignore_retcode else code
    result["retcode"] = code
    if options.output_loglevel != "quiet":
        log.log(_level(options), "%s ended with return code %d", argv[0], code)
    if options.hide_output:
        result["stdout"] = result["stderr"] = ""
    if code and options.raise_err:
        text = result["stderr"] or result["stdout"]
        raise CommandExecutionError(f"The command ended with return code {code}" + (f": {text}" if text else "."))
    return result


def _options(given: dict[str, Any]) -> _Options:
    mine = {name: value for name, value in given.items() if not name.startswith("__pub_")}
    unknown = sorted(set(mine) - {field.name for field in fields(_Options)})
    if unknown:
        raise SaltInvocationError(f"The following keyword arguments are not valid: {', '.join(unknown)}")
    if mine.get("python_shell") is None:
        # `__pub_jid` is there exactly when a person asked for this command line, and not another module.
        mine["python_shell"] = "__pub_jid" in given
    timeout = mine.get("timeout")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout < 0):
        raise SaltInvocationError(f"timeout is a number of seconds, not {timeout!r}.")
    encoding = mine.get("output_encoding")
    if encoding:
        try:
            codecs.lookup(str(encoding))
        except LookupError as error:
            raise SaltInvocationError(f"output_encoding: Python knows no encoding {encoding!r}.") from error
    return _Options(**mine)


def _level(options: _Options) -> int:
    return logging.getLevelNamesMapping().get(str(options.output_loglevel).upper(), logging.DEBUG)


def _argv(cmd: Any, options: _Options) -> list[str]:
    words = [str(word) for word in cmd] if isinstance(cmd, list | tuple) else None
    text = shlex.join(words) if words is not None else str(cmd)
    if not text.strip():
        raise SaltInvocationError("There is no command to run: the text is empty.")
    if options.python_shell:
        if not os.access(options.shell, os.X_OK):
            raise CommandExecutionError(f"The shell {options.shell} is not available.")
        return [options.shell, "-c", text]
    try:
        return words or shlex.split(text)
    except ValueError as error:
        raise SaltInvocationError(f"The command cannot be split into words: {error}.") from error


def _who(cwd: str | None, runas: str | None, group: str | None) -> _Who:
    user = _user(runas)
    try:
        gid = grp.getgrnam(str(group)).gr_gid if group else None
    except KeyError as error:
        raise CommandExecutionError(f"There is no group {group!r} on this minion.") from error
    if cwd is None:
        home = user.pw_dir if user else os.path.expanduser("~")
        # A service may have been started with another user's HOME, which it cannot enter.
        return _Who(home if os.path.isdir(home) and os.access(home, os.X_OK) else "/", user, gid)
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise CommandExecutionError(f"Specified cwd '{cwd}' either not absolute or does not exist")
    return _Who(cwd, user, gid)


def _user(runas: str | None) -> pwd.struct_passwd | None:
    if not runas:
        return None
    try:
        entry = pwd.getpwnam(str(runas))
    except (KeyError, ValueError) as error:  # a text with NUL in it is no name
        raise CommandExecutionError(f"User '{runas}' is not available") from error
    if entry.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise CommandExecutionError(f"runas={runas} needs a minion that runs as root; this one does not.")
    return entry


def _environment(who: _Who, options: _Options) -> dict[str, str]:
    layers = options.env if isinstance(options.env, list | tuple) else [options.env or {}]
    given: dict[str, str] = {}
    for layer in layers:
        if not isinstance(layer, dict):
            raise SaltInvocationError("env is a dict of variables, or a list of such dicts.")
        given.update({str(name): "" if value is None else str(value) for name, value in layer.items()})
    if options.clean_env:
        return given
    environment = dict(os.environ)
    if who.user:
        environment.update(HOME=who.user.pw_dir, USER=who.user.pw_name, LOGNAME=who.user.pw_name)
        environment["SHELL"] = who.user.pw_shell or DEFAULT_SHELL
    if options.reset_system_locale:
        environment.update(LC_ALL="C", LANGUAGE="")
    return environment | given


def _spawn(argv: list[str], stdin: str | None, who: _Who, options: _Options) -> dict[str, Any]:
    finished = run_to_end(
        argv,
        Surroundings(
            cwd=who.cwd,
            env=_environment(who, options),
            stdin=None if stdin is None else str(stdin).encode(errors="surrogateescape"),
            redirect_stderr=options.redirect_stderr,
            timeout_s=options.timeout or None,
            identity=_identity(who, options),
        ),
    )
    stdout, stderr = _text(finished.stdout, options), _text(finished.stderr, options)
    if finished.timed_out:
        stdout = f"{stdout}\n{shlex.join(argv)} : Timed out after {options.timeout} seconds".lstrip("\n")
    return {"pid": finished.pid, "retcode": finished.retcode, "stdout": stdout, "stderr": stderr}


def _identity(who: _Who, options: _Options) -> dict[str, Any]:
    identity: dict[str, Any] = {}
    if who.user:
        groups = os.getgrouplist(who.user.pw_name, who.user.pw_gid)
        identity.update(user=who.user.pw_uid, group=who.user.pw_gid, extra_groups=groups)
    if who.gid is not None:
        identity["group"] = who.gid
    if options.umask is not None:
        try:
            identity["umask"] = int(str(options.umask), 8)
        except ValueError as error:
            raise SaltInvocationError(f"umask is an octal number such as 077, not {options.umask!r}.") from error
    return identity


def _text(output: Output, options: _Options) -> str:
    text = bytes(output.data).decode(str(options.output_encoding or __salt_system_encoding__), "replace")
    if output.dropped:
        text += f"\n[{output.dropped} more bytes of output were dropped: {OUTPUT_BYTES_MAX} are kept]"
    return text.rstrip() if options.rstrip else text


def _counts_as_success(result: dict[str, Any], options: _Options) -> bool:
    codes = {str(code).strip() for code in _several(options.success_retcodes)}
    return (
        str(result["retcode"]) in codes
        or result["stdout"] in {str(text) for text in _several(options.success_stdout)}
        or result["stderr"] in {str(text) for text in _several(options.success_stderr)}
    )


def _several(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return list(value)
    return value.split(",") if isinstance(value, str) else [value]


@contextlib.contextmanager
def _private_copy(body: bytes, who: _Who) -> Iterator[str]:
    """A file with these bytes that only the user of the command can read and run."""
    descriptor, path = tempfile.mkstemp(prefix="saltlite-script-")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(body)
            os.fchmod(stream.fileno(), 0o500)
            if who.user:
                os.fchown(stream.fileno(), who.user.pw_uid, who.user.pw_gid)
        yield path
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
