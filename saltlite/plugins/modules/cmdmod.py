"""Run commands of the operating system.

A command from the command line goes through the shell. A command from another module does not, unless it passes
``python_shell=True``. Children stay in the process group of their job, so that killing the job ends them.

All functions that run a command take these further keyword arguments:

=================== ====================================================================================
``shell``           path of the shell; by default ``$SHELL`` of the minion if /etc/shells has it, or ``/bin/sh``
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
``prepend_path``    folders, separated by colons, to search for programs before those of ``PATH``
``template``        ``jinja``: the text is a template; includes come from ``saltenv``
``redirect_stderr`` False keeps error output out of the result of ``cmd.run``
``raise_err``       raise an error when the command fails
``success_retcodes``  return codes, as a list or ``1,2``, that count as 0
``success_stdout``  texts that make the return code 0 if one of them is in the output, as a list or ``ok,done``;
                    ``success_stderr`` is the same for error output
``use_vt``          True: output and error output are pseudoterminals
``password``        ignored: the minion needs no password to run a command as another user
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
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.decorators import same_parameters
from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError, invalid_keywords
from saltlite.plugins.modules._programs import OUTPUT_BYTES_MAX, CommandContext, Output, run_to_end, start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from saltlite.loader.hints import __context__, __salt__, __salt_system_encoding__


__virtualname__ = "cmd"

# It leaves a program that belongs to its process.
__own_process__ = ("run_bg",)


def __virtual__() -> str:  # noqa: N807 - the name that the loader asks for
    return __virtualname__


# --- Execution of one command ---

log = logging.getLogger(__name__)

DEFAULT_SHELL = "/bin/sh"


class Options:
    """The checked keyword arguments of the table above."""

    shell: str | None = None
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
    use_vt: bool = False
    password: str | None = None
    prepend_path: str | None = None
    template: str | None = None
    saltenv: str = "base"

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.__dict__.update(given)


class RunAs(NamedTuple):
    """The working folder and user of a command; `user` is None for the minion's own user."""

    cwd: str
    user: pwd.struct_passwd | None
    gid: int | None


def _execute(cmd: Any, stdin: str | None, who: RunAs, given: dict[str, Any]) -> dict[str, Any]:
    options, argv = _prepared(cmd, who, given)
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


def _execute_in_background(cmd: Any, who: RunAs, given: dict[str, Any]) -> int:
    """Start a command that outlives its job; return its pid."""
    options, argv = _prepared(cmd, who, given)
    with _missing_program_is_a_failure():
        return start(argv, _command_context(None, who, options))


def _rendered(text: str, template: str | None, saltenv: str) -> str:
    """Render the text, or return it unchanged without a template."""
    if not template:
        return text
    found = __salt__["file.apply_template_on_contents"](text, template, None, None, saltenv)
    if not isinstance(found, str):
        raise SaltInvocationError(f"The template format {template!r} is not supported; use jinja.")
    return found


def _prepared(cmd: Any, who: RunAs, given: dict[str, Any]) -> tuple[Options, list[str]]:
    options = _options(given)
    argv = _argv(cmd, options)
    if options.output_loglevel != "quiet":
        log.log(_level(options), "Running %s in %s", argv, who.cwd)
    return options, argv


_PARAMETERS = ("cwd", "stdin", "runas", "group", "shell")
"""Parameters of the functions besides Options, for hints."""


def _options(given: dict[str, Any]) -> Options:
    mine = {name: value for name, value in given.items() if not name.startswith("__pub_")}
    unknown = sorted(set(mine) - set(Options.__annotations__))
    if unknown:
        raise SaltInvocationError(invalid_keywords(unknown, (*_PARAMETERS, *Options.__annotations__)))
    if mine.get("python_shell") is None:
        # `__pub_jid` is set exactly when the call came from a command line, not from another module.
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
    return Options(mine)


def _level(options: Options) -> int:
    return logging.getLevelNamesMapping().get(str(options.output_loglevel).upper(), logging.DEBUG)


def _argv(cmd: Any, options: Options) -> list[str]:
    words = [str(word) for word in cmd] if isinstance(cmd, list | tuple) else None
    text = shlex.join(words) if words is not None else str(cmd)
    if options.template:
        words, text = None, _rendered(text, options.template, options.saltenv)
    if not text.strip():
        raise SaltInvocationError("There is no command to run: the text is empty.")
    if options.python_shell:
        return [_shell(options.shell), "-c", text]
    try:
        return words or shlex.split(text)
    except ValueError as error:
        raise SaltInvocationError(f"The command cannot be split into words: {error}.") from error


def _shell(given: str | None) -> str:
    """Return the shell: the given one, or Salt's default, the shell of the user who started the minion.

    sudo sets it to that of another user. If that user may not log in, it is a program that /etc/shells does not list.
    """
    own = os.environ.get("SHELL")
    shell = str(given or (own if own in shells() else DEFAULT_SHELL))
    if not (os.path.isfile(shell) and os.access(shell, os.X_OK)):
        raise CommandExecutionError(f"The shell {shell} is not available.")
    return shell


def _run_as(cwd: str | None, runas: str | None, group: str | None) -> RunAs:
    user = _user(runas)
    try:
        gid = grp.getgrnam(str(group)).gr_gid if group else None
    except KeyError as error:
        raise CommandExecutionError(f"There is no group {group!r} on this minion.") from error
    if cwd is None:
        home = user.pw_dir if user else os.path.expanduser("~")
        # A service may inherit the HOME of another user, which it cannot enter.
        return RunAs(home if os.path.isdir(home) and os.access(home, os.X_OK) else "/", user, gid)
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise CommandExecutionError(f"Specified cwd '{cwd}' either not absolute or does not exist")
    return RunAs(cwd, user, gid)


def _user(runas: str | None) -> pwd.struct_passwd | None:
    if not runas:
        return None
    try:
        entry = pwd.getpwnam(str(runas))
    except (KeyError, ValueError) as error:  # ValueError: a NUL in the name
        raise CommandExecutionError(f"User '{runas}' is not available") from error
    if entry.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise CommandExecutionError(f"runas={runas} needs a minion that runs as root; this one does not.")
    return entry


def _environment(who: RunAs, options: Options) -> dict[str, str]:
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
    environment |= given
    if options.prepend_path:
        environment["PATH"] = os.pathsep.join(filter(None, (str(options.prepend_path), environment.get("PATH"))))
    return environment


def _spawn(argv: list[str], stdin: str | None, who: RunAs, options: Options) -> dict[str, Any]:
    with _missing_program_is_a_failure():
        finished = run_to_end(argv, _command_context(stdin, who, options))
    stdout, stderr = _text(finished.stdout, options), _text(finished.stderr, options)
    if finished.timed_out:
        stdout = f"{stdout}\n{shlex.join(argv)} : Timed out after {options.timeout} seconds".lstrip("\n")
    return {"pid": finished.pid, "retcode": finished.retcode, "stdout": stdout, "stderr": stderr}


@contextlib.contextmanager
def _missing_program_is_a_failure() -> Iterator[None]:
    """Let modules catch CommandExecutionError, as Salt's functions of this module raise nothing else."""
    try:
        yield
    except CommandNotFoundError as error:
        raise CommandExecutionError(f"The command cannot be started: {error}.") from error


def _command_context(stdin: str | None, who: RunAs, options: Options) -> CommandContext:
    return CommandContext(
        cwd=who.cwd,
        env=_environment(who, options),
        stdin=None if stdin is None else str(stdin).encode(errors="surrogateescape"),
        redirect_stderr=options.redirect_stderr,
        timeout_s=options.timeout or None,
        identity=_identity(who, options),
        terminal=options.use_vt,
    )


def _identity(who: RunAs, options: Options) -> dict[str, Any]:
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


def _text(output: Output, options: Options) -> str:
    text = bytes(output.data).decode(str(options.output_encoding or __salt_system_encoding__), "replace")
    if output.dropped:
        text += f"\n[{output.dropped} more bytes of output were dropped: {OUTPUT_BYTES_MAX} are kept]"
    return text.rstrip() if options.rstrip else text


def _counts_as_success(result: dict[str, Any], options: Options) -> bool:
    return (
        str(result["retcode"]) in _several(options.success_retcodes)
        or any(text in result["stdout"] for text in _several(options.success_stdout))
        or any(text in result["stderr"] for text in _several(options.success_stderr))
    )


def _several(value: Any) -> list[str]:
    """Return the texts in a list, or in a text that separates them with commas; empty ones would be in every output."""
    values = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    texts = ("" if one is None else str(one) for one in values)
    return [text.strip() if isinstance(value, str) else text for text in texts if text.strip()]


@contextlib.contextmanager
def _private_copy(body: bytes, who: RunAs) -> Iterator[str]:
    """Write the bytes to a temporary file that only the user of the command can read and run."""
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


# --- Programs and shells ---

_SHELLS = "/etc/shells"
_TTY = re.compile(r"pts/?(?P<pts>[0-9]+)|tty[A-Za-z0-9]*")


def which(cmd: str) -> str | None:
    """Return the path of a program, or None.

    CLI Example: ``saltlite '*' cmd.which cat``
    """
    return shutil.which(str(cmd))


def which_bin(cmds: list[str]) -> str | None:
    """Return the path of the first installed program, or None.

    CLI Example: ``saltlite '*' cmd.which_bin '[pip3, pip, pip-python]'``
    """
    return next((path for cmd in cmds if (path := which(cmd))), None)


def has_exec(cmd: str) -> bool:
    """Return whether a program is installed.

    CLI Example: ``saltlite '*' cmd.has_exec cat``
    """
    return which(cmd) is not None


def tty(device: str, echo: str = "") -> dict[str, str]:
    """Write a text to a terminal of this machine. Return ``Success`` or ``Error``, with a sentence.

    CLI Example::

        saltlite '*' cmd.tty tty0 'This is a test'
        saltlite '*' cmd.tty pts3 'This is a test'
    """
    named = _TTY.fullmatch(str(device))
    if named is None:
        return {"Error": "The specified device is not a valid TTY"}
    path = f"/dev/pts/{named['pts']}" if named["pts"] else f"/dev/{device}"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        with open(descriptor, "wb", buffering=0) as terminal:
            terminal.write(str(echo).encode(errors="surrogateescape"))
    except OSError:
        return {"Error": f"Echoing to {path} returned error"}
    return {"Success": f"Message was successfully echoed to {path}"}


def shells() -> list[str]:
    """Return the login shells that /etc/shells lists.

    CLI Example: ``saltlite '*' cmd.shells``
    """
    try:
        with open(_SHELLS, encoding="utf-8", errors="replace") as stream:
            lines = [line.strip() for line in stream]
    except FileNotFoundError:
        return []
    return [line for line in lines if line and not line.startswith("#")]


# --- Commands ---

_IN_CHROOT = """
root=$1 spec=$2 cwd=$3 shell=$4 text=$5
shift 5
for each in /dev /proc /sys; do
    if [ -d "$root$each" ]; then mount --rbind "$each" "$root$each"; fi
done
for each in "$@"; do
    mkdir -p "$root$each"
    mount --bind "$each" "$root$each"
done
exec chroot ${spec:+"--userspec=$spec"} "$root" "$shell" -c 'cd -- "$1" && exec "$2" -c "$3"' sh "$cwd" "$shell" "$text"
"""


def run(
    cmd: str | list[str], cwd: str | None = None, stdin: str | None = None, runas: str | None = None,
    group: str | None = None, **kwargs: Any,
) -> str:  # fmt: skip
    """Run a command and return its output with error output. ``bg=True`` starts it as ``run_bg`` does.

    CLI Example::

        saltlite '*' cmd.run "ls -l | awk '/foo/{print \\$2}'"
        saltlite '*' cmd.run 'id' runas=www-data
        saltlite '*' cmd.run 'sleep 60' timeout=5
    """
    if kwargs.pop("bg", False):
        if stdin is not None:
            raise SaltInvocationError("What runs in the background reads nothing: stdin does not go with bg=True.")
        run_bg(cmd, cwd, runas, group, **kwargs)
        return ""
    kwargs.setdefault("redirect_stderr", True)
    result: str = _execute(cmd, stdin, _run_as(cwd, runas, group), kwargs)["stdout"]
    return result


@same_parameters(run)
def run_stdout(*args: Any, **kwargs: Any) -> str:
    """Run a command and return its standard output.

    CLI Example: ``saltlite '*' cmd.run_stdout "ls -l | awk '/foo/{print \\$2}'"``
    """
    result: str = run_all(*args, **kwargs)["stdout"]
    return result


@same_parameters(run)
def run_stderr(*args: Any, **kwargs: Any) -> str:
    """Run a command and return its error output.

    CLI Example: ``saltlite '*' cmd.run_stderr 'ls /nowhere'``
    """
    result: str = run_all(*args, **kwargs)["stderr"]
    return result


def run_all(
    cmd: str | list[str], cwd: str | None = None, stdin: str | None = None, runas: str | None = None,
    group: str | None = None, **kwargs: Any,
) -> dict[str, Any]:  # fmt: skip
    """Run a command and return ``pid``, ``retcode``, ``stdout`` and ``stderr``.

    CLI Example: ``saltlite '*' cmd.run_all 'ls -l /etc/hosts'``
    """
    kwargs.setdefault("redirect_stderr", False)
    return _execute(cmd, stdin, _run_as(cwd, runas, group), kwargs)


@same_parameters(run)
def retcode(*args: Any, **kwargs: Any) -> int:
    """Run a command and return its return code.

    CLI Example: ``saltlite '*' cmd.retcode 'test -e /etc/hosts'``
    """
    result: int = run_all(*args, **kwargs)["retcode"]
    return result


@same_parameters(run)
def shell(*args: Any, **kwargs: Any) -> str:
    """Run a command through the shell, also for another module, and return its output. ``python_shell=False`` applies.

    CLI Example: ``saltlite '*' cmd.shell 'echo $HOME | wc -c'``
    """
    return run(*args, **{"python_shell": True, **kwargs})


def run_bg(
    cmd: str | list[str], cwd: str | None = None, runas: str | None = None, group: str | None = None, **kwargs: Any
) -> dict[str, int]:
    """Start a command in the background and return its ``pid``.

    The command outlives its job and does not belong to it, so neither a time limit nor ``saltutil.kill_job`` ends it.
    It has no input, and its output is discarded.

    CLI Example: ``saltlite '*' cmd.run_bg 'sleep 10; systemctl restart saltlite-minion'``
    """
    if kwargs.get("timeout") is not None:
        raise SaltInvocationError("What runs in the background has no time limit: put `timeout 60` before the command.")
    return {"pid": _execute_in_background(cmd, _run_as(cwd, runas, group), kwargs)}


def run_chroot(  # noqa: PLR0913 - Salt's arguments
    root: str, cmd: str | list[str], cwd: str | None = None, stdin: str | None = None, runas: str | None = None,
    group: str | None = None, shell: str = DEFAULT_SHELL, *, binds: list[str] | None = None, **kwargs: Any,
) -> dict[str, Any]:  # fmt: skip
    """Run a command through the shell of a system in another folder, and return what ``run_all`` returns.

    ``/dev``, ``/proc`` and ``/sys`` are mounted where the system has these folders, and so are the folders ``binds``.
    The mounts are private to the command and end with it. ``runas``, ``group``, ``cwd`` and ``shell`` are those of that
    system.

    CLI Example: ``saltlite '*' cmd.run_chroot /var/lib/lxc/container_name/rootfs 'sh /tmp/bootstrap.sh'``
    """
    if not os.path.isabs(root) or not os.path.isdir(root):
        raise CommandExecutionError(f"There is no folder {root!r} to run a command in: give its absolute path.")
    folders = [str(path) for path in binds or []]
    if wrong := [path for path in folders if not os.path.isdir(path) or not os.path.isabs(path)]:
        raise SaltInvocationError(f"binds must be absolute paths of folders, not {wrong[0]!r}.")
    text = shlex.join(map(str, cmd)) if isinstance(cmd, list | tuple) else str(cmd)
    spec = f"{runas or ''}:{group or ''}" if group else runas or ""
    argv = ["unshare", "--mount", "--propagation", "private", "--", DEFAULT_SHELL, "-ec", _IN_CHROOT, "sh"]
    argv += [root, spec, cwd or "/", shell, _rendered(text, kwargs.pop("template", None), "base"), *folders]
    return run_all(argv, "/", stdin, **{**kwargs, "python_shell": False})


# --- Scripts and code ---

_HEAD = 512
"""Leading bytes that are searched for a NUL, which marks a binary; shells do the same."""


def script(  # noqa: PLR0913 - Salt's arguments
    source: str, args: str | list[str] | None = None, cwd: str | None = None, stdin: str | None = None,
    runas: str | None = None, group: str | None = None, *, template: str | None = None, saltenv: str = "base",
    **kwargs: Any,
) -> dict[str, Any]:  # fmt: skip
    """Run a script of the master (``salt://``) or of this minion, and return what ``run_all`` returns.

    A private copy of the script runs, so it needs no execute bit. A script without an interpreter line is run by
    ``shell``. ``template=jinja`` renders it first. If the master has no such script, ``cache_error`` is
    True and the return code 1.

    CLI Example::

        saltlite '*' cmd.script salt://scripts/runme.sh
        saltlite '*' cmd.script salt://scripts/runme.sh 'arg1 arg2 "arg 3"'
        saltlite '*' cmd.script /usr/local/sbin/check.sh 'one two'
    """
    if kwargs.get("python_shell"):
        raise SaltInvocationError("cmd.script starts the script itself: python_shell does not apply to it.")
    who = _run_as(cwd, runas, group)
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
        body = _rendered(body.decode("utf-8", "surrogateescape"), template, saltenv).encode("utf-8", "surrogateescape")
    options = {"redirect_stderr": False, **kwargs, "python_shell": False}
    with _private_copy(body, who) as copy:
        return _execute([*_interpreter(body, options), copy, *words], stdin, who, options)


def script_retcode(
    source: str, args: str | list[str] | None = None, cwd: str | None = None, stdin: str | None = None,
    runas: str | None = None, group: str | None = None, **kwargs: Any,
) -> int:  # fmt: skip
    """Run a script as ``script`` does, and return its return code.

    CLI Example: ``saltlite '*' cmd.script_retcode salt://scripts/runme.sh 'arg1 arg2'``
    """
    result: int = script(source, args, cwd, stdin, runas, group, **kwargs)["retcode"]
    return result


def exec_code_all(
    lang: str, code: str | list[str], cwd: str | None = None, args: str | list[str] | None = None, **kwargs: Any
) -> dict[str, Any]:
    """Run code with an interpreter, and return what ``run_all`` returns.

    CLI Example: ``saltlite '*' cmd.exec_code_all python3 'print("cheese")'``
    """
    text = "\n".join(str(line) for line in code) if isinstance(code, list | tuple) else str(code)
    words = [str(word) for word in args] if isinstance(args, list | tuple) else shlex.split(str(args or ""))
    who = _run_as(cwd, kwargs.pop("runas", None), kwargs.pop("group", None))
    stdin = kwargs.pop("stdin", None)
    options = {"redirect_stderr": False, **kwargs, "python_shell": False}
    with _private_copy(text.encode(), who) as copy:
        return _execute([*shlex.split(lang), copy, *words], stdin, who, options)


@same_parameters(exec_code_all)
def exec_code(*args: Any, **kwargs: Any) -> str:
    """Run code with an interpreter, and return its output.

    CLI Example::

        saltlite '*' cmd.exec_code ruby 'puts "cheese"'
        saltlite '*' cmd.exec_code python3 'import sys; print(sys.argv[1])' args=hello
    """
    result: str = exec_code_all(*args, **{"redirect_stderr": True, **kwargs})["stdout"]
    return result


def _interpreter(body: bytes, options: Mapping[str, Any]) -> list[str]:
    """Return the shell for a script that the kernel cannot start; empty otherwise."""
    if body.startswith(b"#!") or b"\0" in body[:_HEAD]:
        return []
    return [_shell(options.get("shell"))]


def _place(source: str, saltenv: str) -> str:
    """Return the path of the script on this minion; empty when the master has no such file."""
    if source.startswith("salt://"):
        return str(__salt__["cp.cache_file"](source, saltenv) or "")
    path = source.removeprefix("file://")
    if "://" in path:
        raise SaltInvocationError(f"{source} is neither salt://path nor a path on this minion.")
    if not os.path.isabs(path):
        raise SaltInvocationError(f"{source} is a relative path: give the absolute path of the script.")
    return path
