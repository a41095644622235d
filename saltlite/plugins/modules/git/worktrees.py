"""Worktrees of a repository: several checkouts that share one history."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

from .remotes import git, lines, options, output, path, word

if TYPE_CHECKING:
    from typing import Unpack

    from saltlite.loader.hints import __salt__

    from .repository import How

__risk__ = {"worktree_rm": "discard"}

_LINK_MAX = 8192
"""Characters of a file `.git` that are read."""


def worktree_add(  # noqa: PLR0913, PLR0917 - Salt's signature
    cwd: str, worktree_path: str, ref: str | None = None, reset_branch: bool = False, force: bool = False,
    detach: bool = False, opts: Any = "", git_opts: Any = "", *, branch: str | None = None, **how: Unpack[How],
) -> str:  # fmt: skip
    """Add a worktree, on a new ``branch`` at ``ref`` (default HEAD) that is named like its folder by default.

    ``reset_branch`` takes an existing branch and moves it to ``ref``; ``force`` checks out a branch that another
    worktree has; ``detach`` checks out ``ref`` without a branch. A relative path starts at ``cwd``.

    CLI Example::

        saltlite '*' git.worktree_add /srv/app ../hotfix ref=origin/main
        saltlite '*' git.worktree_add /srv/app ../hotfix branch=hotfix21 ref=v2.1
    """
    if branch and detach:
        raise SaltInvocationError("Only one of 'branch' and 'detach' is allowed")
    place = path(cwd, how.get("user"))
    folder = os.path.join(place, str(worktree_path))
    if "\0" in folder:
        raise SaltInvocationError("A path has no NUL in it.")
    if detach:
        kind = ["--detach"]
    else:
        name = word(branch or os.path.basename(os.path.normpath(folder)), "the name of a branch")
        kind = ["-B" if reset_branch else "-b", name, *(["--force"] if force else [])]
    at = [word(ref, "the name of a revision")] if ref else []
    words = [*options(git_opts), "worktree", "add", *kind, *options(opts), folder, *at]
    return output(git(words, place, how, both=True))


def worktree_prune(
    cwd: str, dry_run: bool = False, verbose: bool = True, expire: str | None = None, opts: Any = "",
    git_opts: Any = "", **how: Unpack[How],
) -> str:  # fmt: skip
    """Forget worktrees whose folder is gone; return what git says about each. ``dry_run`` only says so, and ``expire``
    is the least age, as in ``2.weeks.ago``.

    CLI Example::

        saltlite '*' git.worktree_prune /srv/app
        saltlite '*' git.worktree_prune /srv/app dry_run=True
    """
    more = [*(["--dry-run"] if dry_run else []), *(["--verbose"] if verbose else [])]
    more += ["--expire", word(expire, "a time")] if expire else []
    words = [*options(git_opts), "worktree", "prune", *more, *options(opts)]
    return output(git(words, path(cwd, how.get("user")), how, both=True))


def worktree_rm(cwd: str, **how: Unpack[How]) -> bool:
    """Delete the folder of a worktree, with everything in it. ``worktree_prune`` makes the repository forget it.

    CLI Example: ``saltlite '*' git.worktree_rm /srv/hotfix``
    """
    place = path(cwd, how.get("user"))
    if not os.path.exists(place):
        raise CommandExecutionError(f"{place} does not exist")
    if not _is_worktree(place):
        raise CommandExecutionError(f"{place} is not a git worktree")
    user = how.get("user")
    if user:
        done = __salt__["cmd.run_all"](["rm", "-rf", "--", place], cwd="/", runas=user, python_shell=False)
        if done["retcode"]:
            raise CommandExecutionError(f"{place} could not be deleted: {done['stderr'].strip()}")
        return True
    try:
        shutil.rmtree(place)
    except OSError as error:
        raise CommandExecutionError(f"{place} could not be deleted: {error.strerror} ({error.filename})") from error
    return True


def _is_worktree(place: str) -> bool:
    """Whether the file `.git` in a folder names the data of a worktree; that of a submodule names a repository."""
    link = os.path.join(place, ".git")
    if not os.path.isfile(link):
        return False
    try:
        with open(link, encoding="utf-8", errors="surrogateescape") as stream:
            found = re.fullmatch(r"gitdir: (.*/worktrees/[^/\n]+)\n?", stream.read(_LINK_MAX))
    except OSError as error:
        raise CommandExecutionError(f"{link} cannot be read: {error.strerror}") from error
    if found is None:
        return False
    data = os.path.join(place, found[1])
    # A submodule may be named worktrees/x, but has no common folder. The repository of a worktree may be gone.
    return os.path.isfile(os.path.join(data, "commondir")) or not os.path.isdir(data)


def list_worktrees(
    cwd: str, stale: bool = False, *, all: bool = False, **how: Unpack[How]
) -> dict[str, dict[str, Any]]:
    """Return the worktrees of a repository by path: ``HEAD``, ``branch``, ``detached`` and ``stale``, and ``tags`` of a
    detached one. Those whose folder is gone are ``stale``: they are listed with ``stale`` only, or with ``all``.

    CLI Example::

        saltlite '*' git.list_worktrees /srv/app
        saltlite '*' git.list_worktrees /srv/app all=True
    """
    if all and stale:
        raise SaltInvocationError("Only one of 'all' and 'stale' can be True.")
    place = path(cwd, how.get("user"))
    found: dict[str, dict[str, Any]] = {}
    for block in git(["worktree", "list", "--porcelain"], place, how)["stdout"].strip().split("\n\n"):
        rows = dict(row.partition(" ")[::2] for row in block.split("\n"))
        if "HEAD" not in rows:  # a bare repository
            continue
        is_stale = not os.path.isdir(rows["worktree"])
        if not all and is_stale != stale:
            continue
        branch = rows["branch"].removeprefix("refs/heads/") if "branch" in rows else None
        row: dict[str, Any] = {"stale": is_stale, "HEAD": rows["HEAD"], "detached": branch is None, "branch": branch}
        if branch is None:
            tags = lines(git(["tag", "--points-at", rows["HEAD"]], place, how))
            row |= {"tags": tags} if tags else {}
        found[rows["worktree"]] = row
    return found


def merge_tree(cwd: str, ref1: str, ref2: str, base: str | None = None, **how: Unpack[How]) -> str:
    """Return what a merge of two revisions would change, and its conflicts, without changing anything. ``base`` is
    their common ancestor, by default the best one.

    CLI Example::

        saltlite '*' git.merge_tree /srv/app HEAD upstream/dev
        saltlite '*' git.merge_tree /srv/app HEAD upstream/dev base=aaf3c3d
    """
    place = path(cwd, how.get("user"))
    names = [word(each, "the name of a revision") for each in (ref1, ref2)]
    common = word(base, "the name of a revision") if base else output(git(["merge-base", *names], place, how))
    return output(git(["merge-tree", common, *names], place, how))
