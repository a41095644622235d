"""Questions to a checkout: nothing here changes one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import SaltInvocationError

from .calls import git, lines, options, output, path, several, word

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__

_LINK_BYTES_MAX = 8192
"""The file `.git` of a worktree holds one path; paths have 4096 bytes at most."""

_STATES = {"M": "modified", "A": "new", "D": "deleted", "??": "untracked"}


class How(TypedDict, total=False):
    """As whom git is run, and what is made of it."""

    user: str | None
    password: str | None
    ignore_retcode: bool
    output_encoding: str | None


def version(versioninfo: bool = False) -> str | list[Any]:
    """
    The version of git; with ``versioninfo`` as a list of its parts.

    CLI Example::

        saltlite '*' git.version
        saltlite '*' git.version versioninfo=True
    """
    if "git.version" not in __context__:
        # `git version 2.39.5 (Apple Git-154)`
        __context__["git.version"] = output(git(["--version"], None, {})).split("(")[0].split()[-1]
    text: str = __context__["git.version"]
    return [int(part) if part.isdecimal() else part for part in text.split(".")] if versioninfo else text


def status(cwd: str, **how: Unpack[How]) -> dict[str, list[str]]:
    """
    The paths that differ from what is committed, by what they are: ``modified``, ``new``, ``deleted``, ``untracked``,
    or the two letters of git for others.

    CLI Example::

        saltlite '*' git.status /srv/app
    """
    found: dict[str, list[str]] = {}
    rows = iter(git(["status", "-z", "--porcelain"], path(cwd, how.get("user")), how)["stdout"].split("\0"))
    for row in rows:
        state, name = row[:2].strip(), row[3:]
        if not name:
            continue
        if state[:1] in {"R", "C"}:
            next(rows, None)  # where it was before
        found.setdefault(_STATES.get(state, state), []).append(name)
    return found


def revision(cwd: str, rev: str = "HEAD", short: bool = False, **how: Unpack[How]) -> str:
    """
    The id of the commit that a name stands for; with ``short`` its first digits.

    CLI Example::

        saltlite '*' git.revision /srv/app
        saltlite '*' git.revision /srv/app v1.2 short=True
    """
    more = ["--short"] if short else []
    words = ["rev-parse", "--verify", *more, word(rev, "the name of a revision")]
    return output(git(words, path(cwd, how.get("user")), how))


def rev_parse(cwd: str, rev: str | None = None, opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """
    What ``git rev-parse`` says.

    CLI Example::

        saltlite '*' git.rev_parse /srv/app HEAD
        saltlite '*' git.rev_parse /srv/app opts=--is-inside-work-tree
    """
    name = [] if rev is None else [word(rev, "the name of a revision")]
    return output(git([*options(git_opts), "rev-parse", *options(opts), *name], path(cwd, how.get("user")), how))


def current_branch(cwd: str, **how: Unpack[How]) -> str:
    """
    The branch of a checkout, ``HEAD`` for one that is on none.

    CLI Example::

        saltlite '*' git.current_branch /srv/app
    """
    return output(git(["rev-parse", "--abbrev-ref", "HEAD"], path(cwd, how.get("user")), how))


def list_branches(cwd: str, remote: bool = False, **how: Unpack[How]) -> list[str]:
    """
    The local branches; with ``remote`` those of remotes that are known here.

    CLI Example::

        saltlite '*' git.list_branches /srv/app
        saltlite '*' git.list_branches /srv/app remote=True
    """
    where = "refs/remotes/" if remote else "refs/heads/"
    return lines(git(["for-each-ref", "--format", "%(refname:short)", where], path(cwd, how.get("user")), how))


def list_tags(cwd: str, **how: Unpack[How]) -> list[str]:
    """
    The tags.

    CLI Example::

        saltlite '*' git.list_tags /srv/app
    """
    return lines(git(["for-each-ref", "--format", "%(refname:short)", "refs/tags/"], path(cwd, how.get("user")), how))


def describe(cwd: str, rev: str = "HEAD", **how: Unpack[How]) -> str:
    """
    A commit by its nearest tag, or by its id.

    CLI Example::

        saltlite '*' git.describe /srv/app
        saltlite '*' git.describe /srv/app develop
    """
    words = ["describe", "--always", word(rev, "the name of a revision")]
    return output(git(words, path(cwd, how.get("user")), how))


def diff(  # noqa: PLR0913 - Salt's signature
    cwd: str,
    item1: str | None = None,
    item2: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    *,
    no_index: bool = False,
    cached: bool = False,
    paths: str | list[str] | None = None,
    **how: Unpack[How],
) -> str:
    """
    The differences of the checkout to what is staged, to a revision, or of one revision to another; of ``paths`` only.

    ``cached`` compares what is staged, ``no_index`` two paths, whatever git knows of them.

    CLI Example::

        saltlite '*' git.diff /srv/app
        saltlite '*' git.diff /srv/app v1.1 v1.2 paths=etc,lib
        saltlite '*' git.diff /srv/app no_index=True paths=/etc/hosts,/srv/hosts
    """
    if no_index and cached:
        raise SaltInvocationError("The 'no_index' and 'cached' options cannot be used together")
    items = [word(each, "the name of a revision") for each in (item1, item2) if each]
    kind = ["--no-index"] if no_index else ["--cached", *items[:1]] if cached else items
    places = ["--", *(several(paths))] if paths else []
    words = [*options(git_opts), "diff", *options(opts), *kind, *places]
    done = git(words, path(cwd, how.get("user")), how, fail=not no_index, both=True)
    return output(done)


def is_worktree(
    cwd: str, user: str | None = None, password: str | None = None, output_encoding: str | None = None
) -> bool:
    """
    Whether a folder is a worktree that belongs to the repository of another folder.

    CLI Example::

        saltlite '*' git.is_worktree /srv/app-fix
    """
    how = {"user": user, "password": password, "output_encoding": output_encoding}
    folder = path(cwd, user)
    if not os.path.isdir(folder):
        return False
    done = git(["rev-parse", "--show-toplevel"], folder, how, fail=False)
    if done["retcode"]:
        return False
    try:
        # It is the user's, who may have put anything there: what never ends, or never begins.
        fd = os.open(os.path.join(done["stdout"].removesuffix("\n"), ".git"), os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as stream:
            label, _, place = stream.readline(_LINK_BYTES_MAX).strip().partition(b" ")
    except (OSError, ValueError):
        return False
    return label == b"gitdir:" and os.path.isabs(place)


def merge_base(  # noqa: PLR0913 - Salt's signature
    cwd: str,
    refs: str | list[str] | None = None,
    octopus: bool = False,
    is_ancestor: bool = False,
    independent: bool = False,
    fork_point: str | None = None,
    opts: Any = "",
    *,
    git_opts: Any = "",
    all: bool = False,
    **how: Unpack[How],
) -> Any:
    """
    The best common ancestor of commits; a list with ``all`` and ``independent``, a truth with ``is_ancestor``.

    CLI Example::

        saltlite '*' git.merge_base /srv/app HEAD,origin/main
        saltlite '*' git.merge_base /srv/app HEAD,origin/main is_ancestor=True
    """
    kinds = {"--octopus": octopus, "--is-ancestor": is_ancestor, "--independent": independent}
    asked = [option for option, wanted in kinds.items() if wanted] + (["--fork-point"] if fork_point else [])
    if len(asked) > 1:
        raise SaltInvocationError("Only one of octopus, independent, is_ancestor, and fork_point is permitted.")
    if all and (independent or is_ancestor or fork_point):
        raise SaltInvocationError("'all' goes with none of independent, is_ancestor, and fork_point.")
    names = [word(each.strip(), "the name of a revision") for each in several(refs)] if refs else []
    if is_ancestor and len(names) != 2:
        raise SaltInvocationError("Two revisions are needed to ask whether one is an ancestor of the other.")
    if fork_point:
        names = [word(fork_point, "the name of a revision"), *names]
    words = [*options(git_opts), "merge-base", *options(opts), *(["--all"] if all else []), *asked, *names]
    done = git(words, path(cwd, how.get("user")), how, fail=not is_ancestor)
    if is_ancestor:
        return done["retcode"] == 0
    return lines(done) if all or independent else output(done)
