"""Work with git checkouts, using the program ``git``.

``cwd`` is the folder of the checkout; a relative path starts at the home of ``user``, or of the minion's user. ``user``
runs git as another user. ``identity`` names private SSH keys, one or a list, on this minion or at ``salt://``; they are
tried in order, and unknown host keys are trusted at first use. ``https_user`` and ``https_pass`` reach git through its
environment, never through a URL, an argument or a log; ``clone`` and ``remote_set`` store them in a file of the
repository that only its owner can read. ``opts`` and ``git_opts`` are further options, a text or a list, of the git
command and of git itself. ``password`` exists in Salt for Windows and has no effect.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       git
:platform:      all
"""

from __future__ import annotations

import shutil

from .remotes import clone, fetch, ls_remote, pull, push, remote_get, remote_refs, remote_set, remotes, submodule

from .repository import (  # isort: skip
    add, archive, branch, checkout, commit, config_get, config_get_regex, config_get_regexp, config_set, config_unset,
    current_branch, describe, diff, discard_local_changes, init, is_worktree, list_branches, list_tags, merge,
    merge_base, rebase, reset, rev_parse, revision, rm_, stash, status, symbolic_ref, tag, version,
)  # fmt: skip
from .worktrees import list_worktrees, merge_tree, worktree_add, worktree_prune, worktree_rm  # isort: skip

__func_alias__ = {"rm_": "rm"}

__all__ = [
    "add", "archive", "branch", "checkout", "clone", "commit", "config_get", "config_get_regex", "config_get_regexp",
    "config_set", "config_unset", "current_branch", "describe", "diff", "discard_local_changes", "fetch", "init",
    "is_worktree", "list_branches", "list_tags", "list_worktrees", "ls_remote", "merge", "merge_base", "merge_tree",
    "pull", "push", "rebase", "remote_get", "remote_refs", "remote_set", "remotes", "reset", "rev_parse", "revision",
    "rm_", "stash", "status", "submodule", "symbolic_ref", "tag", "version", "worktree_add", "worktree_prune",
    "worktree_rm",
]  # fmt: skip


def __virtual__() -> bool | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if shutil.which("git") is None:
        return False, "The git execution module cannot be loaded: git is not installed."
    return True
