"""A checkout and its repository: inspect, change, configure. No remote is contacted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError

from .remotes import git, lines, options, output, path, several, word

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__


_LINK_BYTES_MAX = 8192
"""Maximum size of the file `.git` of a worktree, which contains one path."""

_STATES = {"M": "modified", "A": "new", "D": "deleted", "??": "untracked"}


class How(TypedDict, total=False):
    """How git runs: user, options and output."""

    user: str | None
    password: str | None
    ignore_retcode: bool
    output_encoding: str | None


def version(versioninfo: bool = False) -> str | list[Any]:
    """Return the version of git; with ``versioninfo`` as a list of its parts.

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
    """Return the paths that differ from the commit by state: ``modified``, ``new``, ``deleted``, ``untracked``, or
    git's two letters for other states.

    CLI Example: ``saltlite '*' git.status /srv/app``
    """
    found: dict[str, list[str]] = {}
    rows = iter(git(["status", "-z", "--porcelain"], path(cwd, how.get("user")), how)["stdout"].split("\0"))
    for row in rows:
        state, name = row[:2].strip(), row[3:]
        if not name:
            continue
        if state[:1] in {"R", "C"}:
            next(rows, None)  # its former path
        found.setdefault(_STATES.get(state, state), []).append(name)
    return found


def revision(cwd: str, rev: str = "HEAD", short: bool = False, **how: Unpack[How]) -> str:
    """Return the commit id of a name; with ``short`` its first digits.

    CLI Example::

        saltlite '*' git.revision /srv/app
        saltlite '*' git.revision /srv/app v1.2 short=True
    """
    more = ["--short"] if short else []
    words = ["rev-parse", "--verify", *more, word(rev, "the name of a revision")]
    return output(git(words, path(cwd, how.get("user")), how))


def rev_parse(cwd: str, rev: str | None = None, opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """Return the output of ``git rev-parse``.

    CLI Example::

        saltlite '*' git.rev_parse /srv/app HEAD
        saltlite '*' git.rev_parse /srv/app opts=--is-inside-work-tree
    """
    name = [] if rev is None else [word(rev, "the name of a revision")]
    return output(git([*options(git_opts), "rev-parse", *options(opts), *name], path(cwd, how.get("user")), how))


def current_branch(cwd: str, **how: Unpack[How]) -> str:
    """Return the branch of a checkout, or ``HEAD`` if it is detached.

    CLI Example: ``saltlite '*' git.current_branch /srv/app``
    """
    return output(git(["rev-parse", "--abbrev-ref", "HEAD"], path(cwd, how.get("user")), how))


def list_branches(cwd: str, remote: bool = False, **how: Unpack[How]) -> list[str]:
    """Return the local branches; with ``remote`` the remote-tracking branches.

    CLI Example::

        saltlite '*' git.list_branches /srv/app
        saltlite '*' git.list_branches /srv/app remote=True
    """
    where = "refs/remotes/" if remote else "refs/heads/"
    return lines(git(["for-each-ref", "--format", "%(refname:short)", where], path(cwd, how.get("user")), how))


def list_tags(cwd: str, **how: Unpack[How]) -> list[str]:
    """Return the tags.

    CLI Example: ``saltlite '*' git.list_tags /srv/app``
    """
    return lines(git(["for-each-ref", "--format", "%(refname:short)", "refs/tags/"], path(cwd, how.get("user")), how))


def describe(cwd: str, rev: str = "HEAD", **how: Unpack[How]) -> str:
    """Describe a commit by its nearest tag, or by its id.

    CLI Example::

        saltlite '*' git.describe /srv/app
        saltlite '*' git.describe /srv/app develop
    """
    words = ["describe", "--always", word(rev, "the name of a revision")]
    return output(git(words, path(cwd, how.get("user")), how))


def diff(  # noqa: PLR0913 - Salt's signature
    cwd: str, item1: str | None = None, item2: str | None = None, opts: Any = "", git_opts: Any = "", *,
    no_index: bool = False, cached: bool = False, paths: str | list[str] | None = None, **how: Unpack[How],
) -> str:  # fmt: skip
    """Return the differences of the checkout to the index or a revision, or between two revisions, optionally limited
    to ``paths``.

    ``cached`` compares the index, ``no_index`` compares two paths outside git.

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
    """Return whether a folder is a worktree of a repository in another folder.

    CLI Example: ``saltlite '*' git.is_worktree /srv/app-fix``
    """
    how = {"user": user, "password": password, "output_encoding": output_encoding}
    folder = path(cwd, user)
    if not os.path.isdir(folder):
        return False
    done = git(["rev-parse", "--show-toplevel"], folder, how, fail=False)
    if done["retcode"]:
        return False
    try:
        # A user owns the file and may have replaced it by a pipe or a device.
        fd = os.open(os.path.join(done["stdout"].removesuffix("\n"), ".git"), os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as stream:
            label, _, place = stream.readline(_LINK_BYTES_MAX).strip().partition(b" ")
    except (OSError, ValueError):
        return False
    return label == b"gitdir:" and os.path.isabs(place)


def merge_base(  # noqa: PLR0913 - Salt's signature
    cwd: str, refs: str | list[str] | None = None, octopus: bool = False, is_ancestor: bool = False,
    independent: bool = False, fork_point: str | None = None, opts: Any = "", *, git_opts: Any = "", all: bool = False,
    **how: Unpack[How],
) -> Any:  # fmt: skip
    """Return the best common ancestor of commits; a list with ``all`` and ``independent``, a bool with ``is_ancestor``.

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


# --- Changes ---

__risk__ = {"discard_local_changes": "discard", "reset": "discard"}

_REVISION = "the name of a revision"


def init(
    cwd: str, bare: bool = False, template: str | None = None, separate_git_dir: str | None = None, shared: Any = None,
    opts: Any = "", git_opts: Any = "", **how: Unpack[How],
) -> str:  # fmt: skip
    """Create a repository, or reinitialise one.

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
    """Stage a path or a pathspec.

    CLI Example::

        saltlite '*' git.add /srv/app etc/app.conf
        saltlite '*' git.add /srv/app . opts=--all
    """
    more = [each for each in options(opts) if each not in {"-v", "--verbose"}]
    words = [*options(git_opts), "add", "--verbose", *more, "--", _filename(filename)]
    return output(git(words, path(cwd, how.get("user")), how))


def rm_(cwd: str, filename: str, opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """Remove a path from the checkout and the index.

    CLI Example::

        saltlite '*' git.rm /srv/app etc/old.conf
        saltlite '*' git.rm /srv/app lib opts=-r
    """
    words = [*options(git_opts), "rm", *options(opts), "--", _filename(filename)]
    return output(git(words, path(cwd, how.get("user")), how))


def commit(
    cwd: str, message: str, opts: Any = "", git_opts: Any = "", *, filename: str | None = None, **how: Unpack[How]
) -> str:
    """Commit the index, or the current state of one path.

    CLI Example::

        saltlite '*' git.commit /srv/app 'The port of the API'
        saltlite '*' git.commit /srv/app 'The port of the API' filename=etc/app.conf
    """
    if "\0" in str(message):
        raise SaltInvocationError("A message has no NUL in it.")
    places = ["--", _filename(filename)] if filename else []
    words = [*options(git_opts), "commit", "-m", str(message), *options(opts), *places]
    # git reports on stdout why it does not commit, such as an empty index.
    return output(git(words, path(cwd, how.get("user")), how, both=True))


def branch(cwd: str, name: str | None = None, opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> bool:
    """Create a branch, or with options do something else to it.

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
    """Check out a revision. ``force`` discards local changes.

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
    """Discard unstaged changes below a path.

    CLI Example::

        saltlite '*' git.discard_local_changes /srv/app
        saltlite '*' git.discard_local_changes /srv/app path=etc/app.conf
    """
    return output(git(["checkout", "--", _filename(path)], _cwd(cwd, how), how, both=True))


def reset(cwd: str, opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """Reset the branch, the index, or with ``--hard`` also the checkout to a revision.

    CLI Example: ``saltlite '*' git.reset /srv/app opts='--hard origin/main'``
    """
    return output(git([*options(git_opts), "reset", *options(opts)], path(cwd, how.get("user")), how))


def merge(cwd: str, rev: str | None = None, opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """Merge a revision, or the upstream branch.

    CLI Example::

        saltlite '*' git.merge /srv/app origin/main
        saltlite '*' git.merge /srv/app origin/main opts=--ff-only
    """
    names = [word(rev, _REVISION)] if rev else []
    words = [*options(git_opts), "merge", *options(opts), *names]
    return output(git(words, path(cwd, how.get("user")), how, both=True))


def rebase(cwd: str, rev: str = "master", opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """Rebase the branch onto another revision.

    CLI Example: ``saltlite '*' git.rebase /srv/app origin/main``
    """
    more = options(opts)
    if {"-i", "--interactive"} & set(more):
        raise SaltInvocationError("Interactive rebases are not supported")
    names = [word(each, _REVISION) for each in options(rev)]
    words = [*options(git_opts), "rebase", *more, *names]
    return output(git(words, path(cwd, how.get("user")), how, both=True))


def stash(cwd: str, action: str = "save", opts: Any = "", git_opts: Any = "", **how: Unpack[How]) -> str:
    """Stash local changes, or show, apply or drop a stash with another action.

    CLI Example::

        saltlite '*' git.stash /srv/app
        saltlite '*' git.stash /srv/app pop
    """
    words = [*options(git_opts), "stash", word(action, "an action of git stash"), *options(opts)]
    return output(git(words, path(cwd, how.get("user")), how))


def symbolic_ref(
    cwd: str, ref: str, value: str | None = None, opts: Any = "", git_opts: Any = "", **how: Unpack[How]
) -> str:
    """Return the ref of a symbolic name such as ``HEAD``, or set it.

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
    cwd: str, name: str, ref: str = "HEAD", message: str | None = None, opts: Any = "", git_opts: Any = "",
    **how: Unpack[How],
) -> str:  # fmt: skip
    """Tag a revision; a message makes the tag annotated. ``opts=--delete`` removes a tag.

    CLI Example::

        saltlite '*' git.tag /srv/app v1.2
        saltlite '*' git.tag /srv/app v1.2 message='What customers get'
    """
    more = [each for each in options(opts) if each not in {"-a", "--annotate"}]
    if any(each == "-m" or each.startswith("--message") for each in more):
        raise SaltInvocationError('Tag messages must be passed in the "message" argument')
    if message is not None and "\0" in str(message):
        raise SaltInvocationError("A message has no NUL in it.")
    annotation = [] if message is None else ["-a", "-m", str(message)]
    at = [] if {"-d", "--delete"} & set(more) else [word(ref, _REVISION)]
    words = [*options(git_opts), "tag", *annotation, *more, word(name, "the name of a tag"), *at]
    return output(git(words, path(cwd, how.get("user")), how, both=True))


def archive(
    cwd: str, output: str, rev: str = "HEAD", prefix: str | None = None, git_opts: Any = "", *,
    format: str | None = None, **how: Unpack[How],
) -> bool:  # fmt: skip
    """Write an archive of a revision; its format is ``format``, or follows from the file name.

    The files are in a folder with the checkout's name, or ``prefix``; with an empty ``prefix`` in none.

    CLI Example::

        saltlite '*' git.archive /srv/app /var/tmp/app.tar.gz
        saltlite '*' git.archive /srv/app /var/tmp/app.zip v1.2 prefix=app-1.2/
    """
    place = _cwd(cwd, how)
    inside = os.path.basename(place.rstrip("/")) + "/" if prefix is None else str(prefix)
    more = [f"--prefix={inside}"] if inside else []
    if format:
        more.append(f"--format={word(format, 'a form of archives')}")
    words = [*options(git_opts), "archive", *more, "--output", path(output, how.get("user")), word(rev, _REVISION)]
    git(words, place, how)
    return True


def _cwd(cwd: str, how: How) -> str:
    return path(cwd, how.get("user"))


def _filename(value: Any) -> str:
    text = str(value)
    if not text or "\0" in text:
        raise SaltInvocationError(f"{text!r:.80} is not a path.")
    return text


# --- Configuration ---

_NOT_VALID, _SEVERAL, _BAD_PATTERN = 1, 5, 6


def config_get(
    key: str, cwd: str | None = None, user: str | None = None, password: str | None = None,
    ignore_retcode: bool = False, output_encoding: str | None = None, *, all: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """Return the last value of a key, or with ``all=True`` all values; ``None`` for an unset key.

    ``global=True`` reads the user's configuration instead of the repository's.

    CLI Example::

        saltlite '*' git.config_get user.name cwd=/srv/app
        saltlite '*' git.config_get user.email global=True
        saltlite '*' git.config_get core.gitproxy cwd=/srv/app all=True
    """
    place = _Place(cwd, kwargs, user, password, ignore_retcode, output_encoding)
    done = place.run(["--null", "--get-all", word(key, "the name of a setting")])
    if done["retcode"] == _NOT_VALID:
        return None
    place.refuse_others(done)
    values = done["stdout"].split("\0")[:-1]
    return values if all else values[-1]


def config_get_regexp(
    key: str, value_regex: str | None = None, cwd: str | None = None, user: str | None = None,
    password: str | None = None, *, ignore_retcode: bool = False, output_encoding: str | None = None, **kwargs: Any,
) -> dict[str, list[str]]:  # fmt: skip
    """Return the values of all keys that match a regular expression: ``{key: [value]}``.

    CLI Example::

        saltlite '*' git.config_get_regexp 'user\\..*' cwd=/srv/app
        saltlite '*' git.config_get_regex 'alias\\..*' global=True
    """
    place = _Place(cwd, kwargs, user, password, ignore_retcode, output_encoding)
    more = [] if value_regex is None else [str(value_regex)]
    done = place.run(["--null", "--get-regexp", word(key, "a regular expression for names of settings"), *more])
    if done["retcode"] == _NOT_VALID:
        return {}
    place.refuse_others(done)
    found: dict[str, list[str]] = {}
    for row in done["stdout"].split("\0")[:-1]:
        name, _, value = row.partition("\n")
        found.setdefault(name, []).append(value)
    return found


config_get_regex = config_get_regexp


def config_set(  # noqa: PLR0913 - Salt's signature
    key: str, value: Any = None, multivar: Any = None, cwd: str | None = None, user: str | None = None,
    password: str | None = None, ignore_retcode: bool = False, *, output_encoding: str | None = None, add: bool = False,
    **kwargs: Any,
) -> list[str]:  # fmt: skip
    """Set a key to a value, or to the values of ``multivar``; return all its values. ``add=True`` keeps existing ones.

    CLI Example::

        saltlite '*' git.config_set user.email me@example.org cwd=/srv/app
        saltlite '*' git.config_set user.email me@example.org global=True
    """
    if value is not None and multivar is not None:
        raise SaltInvocationError("Only one of 'value' and 'multivar' is permitted.")
    if value is None and multivar is None:
        raise SaltInvocationError("Either 'value' or 'multivar' is needed.")
    place = _Place(cwd, kwargs, user, password, ignore_retcode, output_encoding)
    name = word(key, "the name of a setting")
    for number, each in enumerate([value] if multivar is None else several(multivar)):
        text = str(each).lower() if isinstance(each, bool) else str(each)
        if "\0" in text:
            raise SaltInvocationError("A value of git's configuration has no NUL in it.")
        how = "--add" if add or number else "--replace-all"
        done = place.run([how, name, text])
        place.refuse_others(done)
    kept: list[str] = config_get(key, cwd, user, output_encoding=output_encoding, all=True, **kwargs)
    return kept


def config_unset(  # noqa: PLR0913 - Salt's signature
    key: str, value_regex: str | None = None, cwd: str | None = None, user: str | None = None,
    password: str | None = None, ignore_retcode: bool = False, *, output_encoding: str | None = None, all: bool = False,
    **kwargs: Any,
) -> bool:  # fmt: skip
    """Unset a key with one value, or whose value matches; with ``all=True`` every value.

    CLI Example::

        saltlite '*' git.config_unset user.email cwd=/srv/app
        saltlite '*' git.config_unset core.gitproxy cwd=/srv/app all=True
    """
    place = _Place(cwd, kwargs, user, password, ignore_retcode, output_encoding)
    more = [] if value_regex is None else [str(value_regex)]
    done = place.run(["--unset-all" if all else "--unset", word(key, "the name of a setting"), *more])
    code = done["retcode"]
    if code == _NOT_VALID:
        raise CommandExecutionError("Section or key is invalid")
    if code == _SEVERAL:
        if config_get(key, cwd, user, all=True, **kwargs) is None:
            raise CommandExecutionError(f"Key '{key}' does not exist")
        matches = "" if value_regex is None else ", or none or several match value_regex"
        raise CommandExecutionError(f"Multiple values exist for key '{key}'{matches}")
    if code == _BAD_PATTERN:
        raise CommandExecutionError("The value_regex is invalid")
    place.refuse_others(done)
    return True


class _Place:
    """A configuration: of the checkout at `cwd`, or with `global` of a user."""

    def __init__(
        self,
        cwd: str | None,
        kwargs: dict[str, Any],
        user: str | None,
        password: str | None,
        ignore_retcode: bool,
        output_encoding: str | None,
    ) -> None:
        more = {name: value for name, value in kwargs.items() if name != "global" and not name.startswith("__pub_")}
        of_user = bool(kwargs.get("global"))
        if cwd is None and not of_user:
            raise SaltInvocationError("'cwd' argument required unless global=True")
        self._cwd = None if cwd is None else path(cwd, user)
        self._scope = "--global" if of_user else "--local"
        self._how = {
            "user": user,
            "password": password,
            "ignore_retcode": ignore_retcode,
            "output_encoding": output_encoding,
            **more,
        }

    def run(self, words: list[str]) -> dict[str, Any]:
        """Run `git config` with these words."""
        return git(["config", self._scope, *words], self._cwd, self._how, fail=False)

    def refuse_others(self, done: dict[str, Any]) -> None:
        """Raise CommandExecutionError if the command failed."""
        if done["retcode"]:
            reason = " ".join(lines({"stdout": done["stderr"]})) or f"git ended with return code {done['retcode']}"
            raise CommandExecutionError(f"The configuration of git stays as it is: {reason}")
