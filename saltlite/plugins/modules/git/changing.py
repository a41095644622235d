"""Changes of a checkout and its repository, without anybody else."""

from __future__ import annotations

import os
from typing import Any, TypedDict, Unpack

from saltlite.errors import SaltInvocationError

from . import calls
from .calls import git, options, output, path, word

__risk__ = {"discard_local_changes": "discard", "reset": "discard"}

_REVISION = "the name of a revision"


class How(TypedDict, total=False):
    """As whom git is run, and what is made of it."""

    user: str | None
    password: str | None
    ignore_retcode: bool
    output_encoding: str | None


def init(
    cwd: str,
    bare: bool = False,
    template: str | None = None,
    separate_git_dir: str | None = None,
    shared: Any = None,
    opts: Any = "",
    git_opts: Any = "",
    **how: Unpack[How],
) -> str:
    """
    Make a repository, or complete one.

    CLI Example::

        saltlite '*' git.init /srv/app
        saltlite '*' git.init /srv/app.git bare=True shared=group
    """
    user = how.get("user")
    more = ["--bare"] if bare else []
    if template is not None:
        more.append(f"--template={path(template, user)}")
    if separate_git_dir is not None:
        more.append(f"--separate-git-dir={path(separate_git_dir, user)}")
    if shared is not None:
        number = isinstance(shared, int) and not isinstance(shared, bool)
        more.append(f"--shared={f'0{shared}' if number else str(shared).lower()}")
    words = [*options(git_opts), "init", *more, *options(opts), "--", path(cwd, user)]
    return output(git(words, None, how))


def add(cwd: str, filename: str, opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """
    Stage a path, or what a pattern of git matches.

    CLI Example::

        saltlite '*' git.add /srv/app etc/app.conf
        saltlite '*' git.add /srv/app . opts=--all
    """
    more = [each for each in options(opts) if each not in {"-v", "--verbose"}]
    words = [*options(git_opts), "add", "--verbose", *more, "--", _filename(filename)]
    return output(git(words, path(cwd, how.get("user")), how))


def rm_(cwd: str, filename: str, opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """
    Remove a path from the checkout, and stage that.

    CLI Example::

        saltlite '*' git.rm /srv/app etc/old.conf
        saltlite '*' git.rm /srv/app lib opts=-r
    """
    words = [*options(git_opts), "rm", *options(opts), "--", _filename(filename)]
    return output(git(words, path(cwd, how.get("user")), how))


def commit(
    cwd: str,
    message: str,
    opts: Any = "",
    git_opts: Any = "",
    *,
    filename: str | None = None,
    **how: Unpack[How],
) -> str:
    """
    Commit what is staged, or one path as it is.

    CLI Example::

        saltlite '*' git.commit /srv/app 'The port of the API'
        saltlite '*' git.commit /srv/app 'The port of the API' filename=etc/app.conf
    """
    if "\0" in str(message):
        raise SaltInvocationError("A message has no NUL in it.")
    places = ["--", _filename(filename)] if filename else []
    words = [*options(git_opts), "commit", "-m", str(message), *options(opts), *places]
    # What keeps git from a commit, such as that nothing is staged, stands on its stdout.
    return output(git(words, path(cwd, how.get("user")), how, both=True))


def branch(cwd: str, name: str | None = None, opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> bool:
    """
    Make a branch, or with options do something else to it.

    CLI Example::

        saltlite '*' git.branch /srv/app develop
        saltlite '*' git.branch /srv/app develop opts='--delete --force'
    """
    names = [] if name is None else [word(name, "the name of a branch")]
    git([*options(git_opts), "branch", *options(opts), *names], path(cwd, how.get("user")), how)
    return True


def checkout(
    cwd: str, rev: str | None = None, force: bool = False, opts: Any = "", git_opts: Any = "", **how: Unpack[How]
) -> str:
    """
    Have the checkout be that of a revision. ``force`` throws away what differs.

    CLI Example::

        saltlite '*' git.checkout /srv/app v1.2
        saltlite '*' git.checkout /srv/app opts='-b develop'
    """
    more = options(opts)
    if rev is None and not {"-b", "-B"} & set(more):
        raise SaltInvocationError("'rev' argument is required unless -b or -B in opts")
    forced, names = ["--force"] if force else [], [] if rev is None else [word(rev, _REVISION)]
    words = [*options(git_opts), "checkout", *forced, *more, *names]
    return output(git(words, path(cwd, how.get("user")), how, both=True))


def discard_local_changes(cwd: str, path: str = ".", **how: Unpack[How]) -> str:
    """
    Throw away what differs from what is staged, below a path.

    CLI Example::

        saltlite '*' git.discard_local_changes /srv/app
        saltlite '*' git.discard_local_changes /srv/app path=etc/app.conf
    """
    return output(git(["checkout", "--", _filename(path)], _cwd(cwd, how), how, both=True))


def reset(cwd: str, opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """
    Have the branch, what is staged, or with ``--hard`` the checkout too, be those of a revision.

    CLI Example::

        saltlite '*' git.reset /srv/app opts='--hard origin/main'
    """
    return output(git([*options(git_opts), "reset", *options(opts)], path(cwd, how.get("user")), how))


def merge(cwd: str, rev: str | None = None, opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """
    Merge a revision, or the branch that this one follows.

    CLI Example::

        saltlite '*' git.merge /srv/app origin/main
        saltlite '*' git.merge /srv/app origin/main opts=--ff-only
    """
    names = [word(rev, _REVISION)] if rev else []
    words = [*options(git_opts), "merge", *options(opts), *names]
    return output(git(words, path(cwd, how.get("user")), how, both=True))


def rebase(cwd: str, rev: str = "master", opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """
    Put the commits of this branch on another revision.

    CLI Example::

        saltlite '*' git.rebase /srv/app origin/main
    """
    more = options(opts)
    if {"-i", "--interactive"} & set(more):
        raise SaltInvocationError("Interactive rebases are not supported")
    names = [word(each, _REVISION) for each in options(rev)]
    words = [*options(git_opts), "rebase", *more, *names]
    return output(git(words, path(cwd, how.get("user")), how, both=True))


def stash(cwd: str, action: str = "save", opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """
    Put away what differs, or with another action show it, apply it or forget it.

    CLI Example::

        saltlite '*' git.stash /srv/app
        saltlite '*' git.stash /srv/app pop
    """
    words = [*options(git_opts), "stash", word(action, "an action of git stash"), *options(opts)]
    return output(git(words, path(cwd, how.get("user")), how))


def symbolic_ref(
    cwd: str, ref: str, value: str | None = None, opts: Any = "", git_opts: Any = "", **how: Unpack[How]
) -> str:
    """
    What a symbolic name such as ``HEAD`` stands for, or have it stand for something else.

    CLI Example::

        saltlite '*' git.symbolic_ref /srv/app HEAD
        saltlite '*' git.symbolic_ref /srv/app HEAD refs/heads/develop
    """
    more = options(opts)
    if value is not None and {"-d", "--delete"} & set(more):
        raise SaltInvocationError("A name that is deleted has no value: leave one of them away.")
    values = [] if value is None else [word(value, "the name of a ref")]
    words = [*options(git_opts), "symbolic-ref", *more, word(ref, "the name of a ref"), *values]
    return output(git(words, path(cwd, how.get("user")), how))


def tag(
    cwd: str,
    name: str,
    ref: str = "HEAD",
    message: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    **how: Unpack[How],
) -> str:
    """
    Name a revision; with a message the tag is an object of its own. ``opts=--delete`` removes a tag.

    CLI Example::

        saltlite '*' git.tag /srv/app v1.2
        saltlite '*' git.tag /srv/app v1.2 message='What customers get'
    """
    more = [each for each in options(opts) if each not in {"-a", "--annotate"}]
    if any(each == "-m" or each.startswith("--message") for each in more):
        raise SaltInvocationError('Tag messages must be passed in the "message" argument')
    if message is not None and "\0" in str(message):
        raise SaltInvocationError("A message has no NUL in it.")
    said = [] if message is None else ["-a", "-m", str(message)]
    at = [] if {"-d", "--delete"} & set(more) else [word(ref, _REVISION)]
    words = [*options(git_opts), "tag", *said, *more, word(name, "the name of a tag"), *at]
    return output(git(words, path(cwd, how.get("user")), how, both=True))


def archive(
    cwd: str,
    output: str,
    rev: str = "HEAD",
    prefix: str | None = None,
    git_opts: Any = "",
    *,
    format: str | None = None,
    **how: Unpack[How],
) -> bool:
    """
    Write an archive of a revision; its form follows from the name of the file, or is ``format``.

    All stands in a folder of the checkout's name, of the ``prefix``, or with an empty one in none.

    CLI Example::

        saltlite '*' git.archive /srv/app /var/tmp/app.tar.gz
        saltlite '*' git.archive /srv/app /var/tmp/app.zip v1.2 prefix=app-1.2/
    """
    place = _cwd(cwd, how)
    inside = os.path.basename(place.rstrip("/")) + "/" if prefix is None else str(prefix)
    more = [f"--prefix={inside}"] if inside else []
    if format:
        more.append(f"--format={word(format, 'a form of archives')}")
    words = [
        *options(git_opts),
        "archive",
        *more,
        "--output",
        calls.path(output, how.get("user")),
        word(rev, _REVISION),
    ]
    git(words, place, how)
    return True


def _cwd(cwd: str, how: How) -> str:
    return path(cwd, how.get("user"))


def _filename(value: Any) -> str:
    text = str(value)
    if not text or "\0" in text:
        raise SaltInvocationError(f"{text!r:.80} is not a path.")
    return text
