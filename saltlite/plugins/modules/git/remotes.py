"""Runs git, hides keys and passwords, and works with remotes: clone, fetch, pull, push."""

from __future__ import annotations

import logging
import os
import pwd
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError, invalid_keywords
from saltlite.plugins.modules._commands import run_needed

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__


log = logging.getLogger(__name__)

HOW = frozenset({"user", "password", "ignore_retcode", "output_encoding"})
"""Keywords of every function."""

REMOTELY = HOW | {"identity", "saltenv"}
"""Keywords of functions that contact a remote."""

Login = tuple[str, str, str]
"""A host of HTTPS with its port, a name, a password."""

_HELPER = '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" "$SALTLITE_NAME" "$SALTLITE_SECRET"; }; f'
_SSH = "ssh -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new -i "


def git(  # noqa: PLR0913 - what is run, where, how, and what is made of it
    words: Sequence[str], cwd: str | None, how: Mapping[str, Any], *, known: frozenset[str] = HOW, fail: bool = True,
    both: bool = False, login: Login | None = None, stdin: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run `git` with these words and return the answer of `cmd.run_all`. `both` merges errors into the output.

    Raises CommandExecutionError when git fails, or with `fail` off returns the failure.
    """
    unknown = sorted(name for name in how if name not in known and not name.startswith("__pub_"))
    if unknown:
        raise SaltInvocationError(invalid_keywords(unknown, known))
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
    done: dict[str, Any] = run_needed(
        __salt__["cmd.run_all"],
        argv,
        cwd=cwd,
        runas=how.get("user"),
        stdin=stdin,
        env=environment,
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
    return re.sub(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s]+@", r"\1<redacted>@", text)


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
        from saltlite.plugins.modules._safe_files import refuse_strange_links

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


_LOGIN = {"https_user", "https_pass"}
_LOGIN_FILE = "saltlite-credentials"

_HOST = r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?"
_UPDATED = (
    r"[\s*+]*(?:(?P<old>[0-9a-f]+)\.\.\.?(?P<new>[0-9a-f]+)|\[(?:new (?P<kind>tag|branch)|tag update)\])\s+"
    r"(?P<ref>.+?)\s+->"
)


class How(TypedDict, total=False):
    """How git runs: user, options and output."""

    user: str | None
    password: str | None
    ignore_retcode: bool
    output_encoding: str | None


class Remotely(How, total=False):
    """The same for commands that contact a remote."""

    identity: str | list[str] | None
    saltenv: str


class WithLogin(Remotely, total=False):
    """The same for HTTPS URLs."""

    https_user: str | None
    https_pass: str | None


def clone(
    cwd: str, url: str, name: str | None = None, opts: Any = "", git_opts: Any = "", **how: Unpack[WithLogin]
) -> bool:
    """Clone a repository to ``cwd``, or to the folder ``name`` in it.

    CLI Example::

        saltlite '*' git.clone /srv/app https://git.example.org/app.git
        saltlite '*' git.clone /srv git@git.example.org:app.git name=app identity=/etc/deploy/deploy
        saltlite '*' git.clone /srv/app https://git.example.org/app.git https_user=me https_pass=sesame
    """
    source, login = repository(url), _login(url, how.get("https_user"), how.get("https_pass"))
    place = path(cwd, how.get("user"))
    words = [*options(git_opts), "clone", *options(opts), "--", source]
    if name is not None:
        place = os.path.join(place, word(name, "the name of a folder"))
    # git creates the parent folders as its own user: in a home no one else should.
    git([*words, place], "/", how, known=REMOTELY | _LOGIN, login=login)
    _keep_login(place, login, {key: value for key, value in how.items() if key in HOW})
    return True


def fetch(
    cwd: str, remote: str | None = None, force: bool = False, refspecs: str | list[str] | None = None, opts: Any = "",
    git_opts: Any = "", **how: Unpack[Remotely],
) -> dict[str, Any]:  # fmt: skip
    """Fetch from a remote. Return lists of ``new branches``, ``new tags`` and ``updated tags``, and ``updated
    branches`` with their ``old`` and ``new`` commits; only what changed.

    CLI Example::

        saltlite '*' git.fetch /srv/app
        saltlite '*' git.fetch /srv/app upstream refspecs=main
    """
    more = [each for each in options(opts) if each not in {"-f", "--force"}]
    refs = [word(each, "a refspec") for each in several(refspecs)] if refspecs is not None else []
    names = [_remote(remote)] if remote else []
    if refs and not names:
        raise SaltInvocationError("refspecs need the remote that they are of.")
    words = [*options(git_opts), "fetch", *(["--force"] if force else []), *more, *names, *refs]
    done = git(words, path(cwd, how.get("user")), how, known=REMOTELY, both=True)
    found: dict[str, Any] = {}
    for line in lines(done):
        match = re.match(_UPDATED, line)
        if match is None:
            continue
        if match["old"]:
            found.setdefault("updated branches", {})[match["ref"]] = {"old": match["old"], "new": match["new"]}
        else:
            kind = {"tag": "new tags", "branch": "new branches", None: "updated tags"}[match["kind"]]
            found.setdefault(kind, []).append(match["ref"])
    return found


def pull(cwd: str, opts: Any = "", git_opts: Any = "", **how: Unpack[Remotely]) -> str:
    """Fetch, and merge the upstream branch.

    CLI Example::

        saltlite '*' git.pull /srv/app opts=--ff-only
        saltlite '*' git.pull /srv/app user=deploy identity=/etc/deploy/id_ed25519
    """
    words = [*options(git_opts), "pull", *options(opts)]
    return output(git(words, path(cwd, how.get("user")), how, known=REMOTELY))


def push(
    cwd: str, remote: str | None = None, ref: str | None = None, opts: Any = "", git_opts: Any = "",
    **how: Unpack[Remotely],
) -> str:  # fmt: skip
    """Push a ref to a remote.

    CLI Example::

        saltlite '*' git.push /srv/app origin main
        saltlite '*' git.push /srv/app origin main:stable opts=--follow-tags
    """
    if ref and not remote:
        raise SaltInvocationError("A ref needs the remote that it is pushed to.")
    names = [_remote(remote)] if remote else []
    refs = [word(ref, "a ref")] if ref else []
    words = [*options(git_opts), "push", *options(opts), *names, *refs]
    return output(git(words, path(cwd, how.get("user")), how, known=REMOTELY))


def ls_remote(
    cwd: str | None = None, remote: str = "origin", ref: str | None = None, opts: Any = "", git_opts: Any = "",
    **how: Unpack[WithLogin],
) -> dict[str, str]:  # fmt: skip
    """Return the refs of a remote or a URL: ``{ref: commit}``.

    CLI Example::

        saltlite '*' git.ls_remote /srv/app origin main
        saltlite '*' git.ls_remote remote=https://git.example.org/app.git opts=--tags
    """
    login = _login(remote, how.get("https_user"), how.get("https_pass"))
    refs = [word(ref, "a ref")] if ref else []
    words = [*options(git_opts), "ls-remote", *options(opts), "--", _remote(remote), *refs]
    place = None if cwd is None else path(cwd, how.get("user"))
    return _refs(git(words, place, how, known=REMOTELY | _LOGIN, login=login))


def remote_refs(
    url: str, heads: bool = False, tags: bool = False, *, filter: str | None = None, **how: Unpack[WithLogin]
) -> dict[str, str]:
    """Return the refs of the repository at a URL: all, branches or tags only, or those that match a pattern.

    CLI Example: ``saltlite '*' git.remote_refs https://git.example.org/app.git heads=True``
    """
    login = _login(url, how.get("https_user"), how.get("https_pass"))
    kinds = [option for option, wanted in (("--heads", heads), ("--tags", tags)) if wanted]
    names = [word(filter, "a pattern of refs")] if filter else []
    words = ["ls-remote", *kinds, "--", repository(url), *names]
    return _refs(git(words, None, how, known=REMOTELY | _LOGIN, login=login))


def remotes(cwd: str, *, redact_auth: bool = True, **how: Unpack[How]) -> dict[str, dict[str, str]]:
    """Return the remotes of a checkout: ``{name: {"fetch": URL, "push": URL}}``. ``redact_auth=False`` shows passwords.

    CLI Example: ``saltlite '*' git.remotes /srv/app``
    """
    found: dict[str, dict[str, str]] = {}
    for line in lines(git(["remote", "--verbose"], path(cwd, how.get("user")), how)):
        name, _, rest = line.partition("\t")
        place, _, action = rest.rpartition(" ")
        if action in {"(fetch)", "(push)"}:
            found.setdefault(name, {})[action[1:-1]] = redacted(place) if redact_auth else place
    return found


def remote_get(cwd: str, remote: str = "origin", *, redact_auth: bool = True, **how: Unpack[How]) -> dict[str, str]:
    """Return the URLs of a remote: ``fetch`` and ``push``.

    CLI Example::

        saltlite '*' git.remote_get /srv/app
        saltlite '*' git.remote_get /srv/app upstream
    """
    known = remotes(cwd, redact_auth=redact_auth, **how)
    if remote not in known:
        raise CommandExecutionError(
            f"Remote '{remote}' not present in git checkout located at {path(cwd, how.get('user'))}"
        )
    return known[remote]


def remote_set(  # noqa: PLR0913 - Salt's signature
    cwd: str, url: str, remote: str = "origin", *, https_user: str | None = None, https_pass: str | None = None,
    push_url: str | None = None, push_https_user: str | None = None, push_https_pass: str | None = None,
    **how: Unpack[How],
) -> dict[str, str]:  # fmt: skip
    """Set the URL of a remote, and optionally its push URL; return its URLs.

    CLI Example::

        saltlite '*' git.remote_set /srv/app git@git.example.org:app.git
        saltlite '*' git.remote_set /srv/app https://git.example.org/app.git remote=upstream https_user=me
    """
    place, name = path(cwd, how.get("user")), _remote(remote)
    logins = [(repository(url), _login(url, https_user, https_pass))]
    if push_url:
        logins.append((repository(push_url), _login(push_url, push_https_user, push_https_pass)))
    there = name in remotes(cwd, **how)
    git(["remote", "set-url" if there else "add", "--", name, logins[0][0]], place, how)
    if there:
        git(["config", "--unset-all", f"remote.{name}.pushurl"], place, how, fail=False)
    for other, _login_there in logins[1:]:
        git(["remote", "set-url", "--push", "--", name, other], place, how)
    for _, login in logins:
        _keep_login(place, login, how)
    return remote_get(cwd, name, **how)


def submodule(cwd: str, command: str, opts: Any = "", git_opts: Any = "", **how: Unpack[Remotely]) -> str:
    """Run a command of ``git submodule``.

    CLI Example: ``saltlite '*' git.submodule /srv/app update opts='--init --recursive'``
    """
    words = [*options(git_opts), "submodule", word(command, "a command of git submodule"), *options(opts)]
    return output(git(words, path(cwd, how.get("user")), how, known=REMOTELY))


def _refs(done: dict[str, Any]) -> dict[str, str]:
    rows = (line.partition("\t") for line in lines(done))
    return {name: commit for commit, tab, name in rows if tab}


def _remote(text: Any) -> str:
    return repository(word(text, "the name or the URL of a remote"))


def _login(where: Any, name: Any, secret: Any) -> Login | None:
    if name is None:
        if secret is not None:
            raise SaltInvocationError("https_pass needs the https_user whose it is.")
        return None
    if not str(where).startswith("https://"):
        raise SaltInvocationError("https_user and https_pass are for URLs that begin with https://.")
    host = str(where).removeprefix("https://").partition("/")[0].rpartition("@")[2]
    if not re.fullmatch(_HOST, host):
        raise SaltInvocationError(f"{host!r:.80} is not the name of a host.")
    return host, str(name), "" if secret is None else str(secret)


def _keep_login(place: str, login: Login | None, how: Any) -> None:
    """Configure git to find the credentials in a file of the repository, which only its owner can read."""
    if login is None:
        return
    host, name, secret = login
    asked = git(["rev-parse", "--absolute-git-dir"], place, how)
    file = os.path.join(asked["stdout"].removesuffix("\n"), _LOGIN_FILE)
    report = f"protocol=https\nhost={host}\nusername={name}\npassword={secret}\n\n"
    git(["credential-store", f"--file={file}", "store"], place, how, stdin=report)
    helper = f"store --file={shlex.quote(file)}"
    git(["config", "--local", "--replace-all", f"credential.https://{host}.helper", helper], place, how)
