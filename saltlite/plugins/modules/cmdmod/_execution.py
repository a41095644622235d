"""One command, from its keyword arguments to what it left: the part that all functions share."""

from __future__ import annotations

import codecs
import contextlib
import grp
import logging
import os
import pwd
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._command import OUTPUT_BYTES_MAX, Output, Surroundings, run_to_end, start

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __salt__, __salt_system_encoding__

log = logging.getLogger(__name__)

DEFAULT_SHELL = "/bin/sh"


@dataclass(frozen=True, slots=True)
class Options:
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
    prepend_path: str | None = None
    template: str | None = None
    saltenv: str = "base"


@dataclass(frozen=True, slots=True)
class Who:
    """Where and as whom a command runs; `user` is None for the minion's own user."""

    cwd: str
    user: pwd.struct_passwd | None
    gid: int | None


def execute(cmd: Any, stdin: str | None, who: Who, given: dict[str, Any]) -> dict[str, Any]:
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


def execute_in_background(cmd: Any, who: Who, given: dict[str, Any]) -> int:
    """Start a command that goes on when its job has ended; its pid."""
    options, argv = _prepared(cmd, who, given)
    return start(argv, _surroundings(None, who, options))


def rendered(text: str, template: str | None, saltenv: str) -> str:
    """What a template gives; the text as it is where it is none."""
    if not template:
        return text
    found = __salt__["file.apply_template_on_contents"](text, template, None, None, saltenv)
    if not isinstance(found, str):
        raise SaltInvocationError(f"There are no templates of the format {template!r}: jinja is one.")
    return found


def _prepared(cmd: Any, who: Who, given: dict[str, Any]) -> tuple[Options, list[str]]:
    options = _options(given)
    argv = _argv(cmd, options)
    if options.output_loglevel != "quiet":
        log.log(_level(options), "Running %s in %s", argv, who.cwd)
    return options, argv


def _options(given: dict[str, Any]) -> Options:
    mine = {name: value for name, value in given.items() if not name.startswith("__pub_")}
    unknown = sorted(set(mine) - {field.name for field in fields(Options)})
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
    return Options(**mine)


def _level(options: Options) -> int:
    return logging.getLevelNamesMapping().get(str(options.output_loglevel).upper(), logging.DEBUG)


def _argv(cmd: Any, options: Options) -> list[str]:
    words = [str(word) for word in cmd] if isinstance(cmd, list | tuple) else None
    text = shlex.join(words) if words is not None else str(cmd)
    if options.template:
        words, text = None, rendered(text, options.template, options.saltenv)
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


def circumstances(cwd: str | None, runas: str | None, group: str | None) -> Who:
    user = _user(runas)
    try:
        gid = grp.getgrnam(str(group)).gr_gid if group else None
    except KeyError as error:
        raise CommandExecutionError(f"There is no group {group!r} on this minion.") from error
    if cwd is None:
        home = user.pw_dir if user else os.path.expanduser("~")
        # A service may have been started with another user's HOME, which it cannot enter.
        return Who(home if os.path.isdir(home) and os.access(home, os.X_OK) else "/", user, gid)
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise CommandExecutionError(f"Specified cwd '{cwd}' either not absolute or does not exist")
    return Who(cwd, user, gid)


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


def _environment(who: Who, options: Options) -> dict[str, str]:
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


def _spawn(argv: list[str], stdin: str | None, who: Who, options: Options) -> dict[str, Any]:
    finished = run_to_end(argv, _surroundings(stdin, who, options))
    stdout, stderr = _text(finished.stdout, options), _text(finished.stderr, options)
    if finished.timed_out:
        stdout = f"{stdout}\n{shlex.join(argv)} : Timed out after {options.timeout} seconds".lstrip("\n")
    return {"pid": finished.pid, "retcode": finished.retcode, "stdout": stdout, "stderr": stderr}


def _surroundings(stdin: str | None, who: Who, options: Options) -> Surroundings:
    return Surroundings(
        cwd=who.cwd,
        env=_environment(who, options),
        stdin=None if stdin is None else str(stdin).encode(errors="surrogateescape"),
        redirect_stderr=options.redirect_stderr,
        timeout_s=options.timeout or None,
        identity=_identity(who, options),
    )


def _identity(who: Who, options: Options) -> dict[str, Any]:
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
def private_copy(body: bytes, who: Who) -> Iterator[str]:
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
