"""Remote repositories: clone, fetch, pull, push, and the remotes of a checkout."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError

from .program import (
    HOW,
    REMOTELY,
    Login,
    git,
    lines,
    options,
    output,
    path,
    redacted,
    repository,
    several,
    word,
)

_LOGIN = {"https_user", "https_pass"}
_LOGIN_FILE = "saltlite-credentials"

_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")
_UPDATED = re.compile(
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
    cwd: str,
    remote: str | None = None,
    force: bool = False,
    refspecs: str | list[str] | None = None,
    opts: Any = "",
    git_opts: Any = "",
    **how: Unpack[Remotely],
) -> dict[str, Any]:
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
        match = _UPDATED.match(line)
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
    cwd: str,
    remote: str | None = None,
    ref: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    **how: Unpack[Remotely],
) -> str:
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
    cwd: str | None = None,
    remote: str = "origin",
    ref: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    **how: Unpack[WithLogin],
) -> dict[str, str]:
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

    CLI Example::

        saltlite '*' git.remote_refs https://git.example.org/app.git heads=True
    """
    login = _login(url, how.get("https_user"), how.get("https_pass"))
    kinds = [option for option, wanted in (("--heads", heads), ("--tags", tags)) if wanted]
    names = [word(filter, "a pattern of refs")] if filter else []
    words = ["ls-remote", *kinds, "--", repository(url), *names]
    return _refs(git(words, None, how, known=REMOTELY | _LOGIN, login=login))


def remotes(cwd: str, *, redact_auth: bool = True, **how: Unpack[How]) -> dict[str, dict[str, str]]:
    """Return the remotes of a checkout: ``{name: {"fetch": URL, "push": URL}}``. ``redact_auth=False`` shows passwords.

    CLI Example::

        saltlite '*' git.remotes /srv/app
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
    cwd: str,
    url: str,
    remote: str = "origin",
    *,
    https_user: str | None = None,
    https_pass: str | None = None,
    push_url: str | None = None,
    push_https_user: str | None = None,
    push_https_pass: str | None = None,
    **how: Unpack[How],
) -> dict[str, str]:
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

    CLI Example::

        saltlite '*' git.submodule /srv/app update opts='--init --recursive'
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
    if not _HOST.fullmatch(host):
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
