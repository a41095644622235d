"""Runs git: checks arguments, hides keys and passwords, and reports failures in git's words."""

from __future__ import annotations

import logging
import os
import pwd
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import refuse_strange_links

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__


log = logging.getLogger(__name__)

HOW = frozenset({"user", "password", "ignore_retcode", "output_encoding"})
"""Keywords of every function."""

REMOTELY = HOW | {"identity", "saltenv"}
"""Keywords of functions that contact a remote."""

Login = tuple[str, str, str]
"""A host of HTTPS with its port, a name, a password."""

_WITH_PASSWORD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s]+@")
_HELPER = '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" "$SALTLITE_NAME" "$SALTLITE_SECRET"; }; f'
_SSH = "ssh -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new -i "


def git(  # noqa: PLR0913 - what is run, where, how, and what is made of it
    words: Sequence[str],
    cwd: str | None,
    how: Mapping[str, Any],
    *,
    known: frozenset[str] = HOW,
    fail: bool = True,
    both: bool = False,
    login: Login | None = None,
    stdin: str | None = None,
) -> dict[str, Any]:
    """Run `git` with these words and return the answer of `cmd.run_all`. `both` merges errors into the output.

    Raises CommandExecutionError when git fails, or with `fail` off returns the failure.
    """
    unknown = sorted(name for name in how if name not in known and not name.startswith("__pub_"))
    if unknown:
        raise SaltInvocationError(f"The following keyword arguments are not valid: {', '.join(unknown)}")
    environment = {"GIT_TERMINAL_PROMPT": "0", **_home(how.get("user"))}
    argv = ["git", *_login_words(login, environment), *words]
    identities = how.get("identity")
    if not identities:
        return _checked(
            _run(argv, cwd, how, environment, both=both, fail=fail, stdin=stdin), argv, fail=fail, both=both
        )
    failures: list[str] = []
    for identity in [identities] if isinstance(identities, str) else identities:
        with tempfile.TemporaryDirectory(prefix="saltlite-git-") as folder:
            key, why = _key(str(identity), folder, how)
            if not key:
                failures.append(why)
                continue
            with_key = {**environment, "GIT_SSH_COMMAND": _SSH + shlex.quote(key)}
            done = _run(argv, cwd, how, with_key, both=both, fail=False, stdin=stdin)
        if done["retcode"] == 0:
            return done
        failures.append(redacted(done["stdout" if both else "stderr"]))
    raise CommandExecutionError("Unable to authenticate using identity file:\n\n" + "\n".join(failures))


def _run(
    argv: list[str],
    cwd: str | None,
    how: Mapping[str, Any],
    environment: dict[str, str],
    *,
    both: bool,
    fail: bool,
    stdin: str | None,
) -> dict[str, Any]:
    # A configuration value may be a secret.
    log.debug("Running %s in %s", redacted(shlex.join(argv[:4] if argv[1] == "config" else argv)), cwd)
    done: dict[str, Any] = __salt__["cmd.run_all"](
        argv,
        cwd=cwd,
        runas=how.get("user"),
        stdin=stdin,
        env=environment,
        python_shell=False,
        rstrip=False,
        redirect_stderr=both,
        ignore_retcode=bool(how.get("ignore_retcode")) or not fail,
        output_encoding=how.get("output_encoding"),
        output_loglevel="quiet",  # arguments may contain URLs with passwords
    )
    return done


def _checked(done: dict[str, Any], argv: Sequence[str], *, fail: bool, both: bool) -> dict[str, Any]:
    if done["retcode"] and fail:
        message = redacted(done["stdout" if both else "stderr"].strip())
        command = redacted(shlex.join(argv))
        raise CommandExecutionError(f"Command '{command}' failed" + (f": {message}" if message else "."))
    return done


def output(done: Mapping[str, Any]) -> str:
    """Return the output of a command without trailing line breaks."""
    return str(done["stdout"]).rstrip()


def lines(done: Mapping[str, Any]) -> list[str]:
    """Return the lines of the output; git separates lines by line feeds only."""
    return [line for line in str(done["stdout"]).split("\n") if line]


def redacted(text: str) -> str:
    """Return the text without credentials in URLs."""
    return _WITH_PASSWORD.sub(r"\1<redacted>@", text)


def word(value: Any, what: str) -> str:
    """Return a name that is no option; else raise SaltInvocationError with `what` it should be."""
    text = str(value)
    if not text or text.startswith("-") or any(character in text for character in "\0\n\r"):
        raise SaltInvocationError(f"{redacted(text)!r:.80} is not {what}.")
    return text


def path(value: Any, user: str | None = None) -> str:
    """Return an absolute path; a relative one starts at the home of the user. Raises SaltInvocationError.

    When git runs as the minion, links of other users raise CommandExecutionError.
    """
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if not text or any(character in text for character in "\0\n\r"):
        raise SaltInvocationError(f"{text!r:.80} is not a path.")
    if not os.path.isabs(text):
        text = os.path.join(_home_of(user), text.removeprefix("~/") if text != "~" else "")
    if not user:
        refuse_strange_links(text)
    return text


def options(given: Any) -> list[str]:
    """Return options as a list. Raises SaltInvocationError for a text that cannot be split into words."""
    if given is None:
        return []
    if isinstance(given, list | tuple):
        found = [str(each) for each in given]
    else:
        try:
            found = shlex.split(str(given))
        except ValueError as error:
            raise SaltInvocationError(f"The options {given!r:.80} cannot be split into words: {error}.") from error
    return found[:-1] if found[-1:] == ["--"] else found


def several(given: Any) -> list[str]:
    """Return the words of a list, or of a text with commas."""
    return [str(each) for each in (given if isinstance(given, list | tuple) else str(given).split(","))]


def repository(value: Any) -> str:
    """Return a URL or path of a repository. Raises SaltInvocationError."""
    text = word(value, "the URL of a repository")
    if re.match(r"[A-Za-z0-9+-]+::", text):
        raise SaltInvocationError(f"{redacted(text)!r:.80}: helpers of git are not called by their URLs.")
    return text


def _login_words(login: Login | None, environment: dict[str, str]) -> list[str]:
    if login is None:
        return []
    host, name, secret = login
    for part in (name, secret):
        if any(character in part for character in "\0\n\r"):
            raise SaltInvocationError("https_user and https_pass are one line each.")
    environment.update(SALTLITE_NAME=name, SALTLITE_SECRET=secret)
    # For this host only: a repository may name other hosts, such as those of its submodules.
    return ["-c", "credential.helper=", "-c", f"credential.https://{host}.helper={_HELPER}"]


def _key(identity: str, folder: str, how: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path of a private key, or "" and the reason why there is none."""
    if not identity.startswith("salt://"):
        found = path(identity, how.get("user"))
        return (found, "") if os.path.isfile(found) else ("", f"The identity file {found} was not found.")
    own = os.path.join(folder, "identity")
    if not __salt__["cp.get_file"](identity, own, saltenv=how.get("saltenv") or "base"):
        return "", f"The identity file {identity} was not found."
    os.chmod(own, 0o600)
    if how.get("user") and os.geteuid() == 0:
        entry = pwd.getpwnam(str(how["user"]))
        os.chown(own, entry.pw_uid, entry.pw_gid)
        # The folder belongs to the minion: its owner could replace the key by a link.
        os.chmod(folder, 0o711)  # noqa: S103 - the user has to come to his key in it, and reads no names
    return own, ""


def _home(user: str | None) -> dict[str, str]:
    """Return HOME for services without one; git needs it for the user's configuration."""
    return {} if user or os.environ.get("HOME") else {"HOME": _home_of(None)}


def _home_of(user: str | None) -> str:
    try:
        return (pwd.getpwnam(str(user)) if user else pwd.getpwuid(os.geteuid())).pw_dir
    except KeyError:
        raise CommandExecutionError(f"There is no user {user or os.geteuid()} on this minion.") from None
