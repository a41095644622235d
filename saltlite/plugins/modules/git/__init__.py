"""Work with git checkouts, by the program ``git``.

``cwd`` is the folder of the checkout; what is not absolute is below the home of ``user``, or of the minion's user.
``user`` runs git as somebody else, ``identity`` names private keys for SSH, one or a list, on this minion or at
``salt://``; they are tried in their order, and hosts whose keys are not known yet are trusted at the first time.
``https_user`` and ``https_pass`` go to git through its environment, never into an URL, an argument or a log; where they
are needed later, ``clone`` and ``remote_set`` keep them in a file of the repository that its owner alone can read.
``opts`` and ``git_opts`` are more options, a text or a list, of the git command and of git itself. ``password`` is
there because Salt has it, for Windows, and changes nothing.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       git
:platform:      all
"""

from __future__ import annotations

import shutil

from .remotes import clone, fetch, ls_remote, pull, push, remote_get, remote_refs, remote_set, remotes, submodule
from .repository import (
    add,
    archive,
    branch,
    checkout,
    commit,
    config_get,
    config_get_regexp,
    config_set,
    config_unset,
    current_branch,
    describe,
    diff,
    discard_local_changes,
    init,
    is_worktree,
    list_branches,
    list_tags,
    merge,
    merge_base,
    rebase,
    reset,
    rev_parse,
    revision,
    rm_,
    stash,
    status,
    symbolic_ref,
    tag,
    version,
)

__func_alias__ = {"rm_": "rm"}

__all__ = [
    "add", "archive", "branch", "checkout", "clone", "commit", "config_get", "config_get_regexp", "config_set",
    "config_unset", "current_branch", "describe", "diff", "discard_local_changes", "fetch", "init", "is_worktree",
    "list_branches", "list_tags", "ls_remote", "merge", "merge_base", "pull", "push", "rebase", "remote_get",
    "remote_refs", "remote_set", "remotes", "reset", "rev_parse", "revision", "rm_", "stash", "status", "submodule",
    "symbolic_ref", "tag", "version",
]  # fmt: skip


def __virtual__() -> bool | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if shutil.which("git") is None:
        return False, "The git execution module cannot be loaded: git is not installed."
    return True
