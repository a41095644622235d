"""Repositories: the files that say where packages come from."""

from __future__ import annotations

import os
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _repofiles, _rpm

_FOLDERS = ("/etc/yum.repos.d", "/etc/yum/repos.d", "/etc/distro.repos.d")
_CONFIGURATIONS = ("/etc/dnf/dnf.conf", "/etc/yum.conf", "/etc/yum/yum.conf")
_LINKS = ("baseurl", "mirrorlist", "metalink")


def list_repos(basedir: str | list[str] | None = None, root: str | None = None) -> dict[str, Any]:
    """
    The configured repositories: ``{id: {"file": path, name, baseurl, enabled, ...}}``, all values as texts.

    ``basedir`` is the folder, or folders, of their files; ``root`` a folder that holds another system.

    CLI Example::

        saltlite '*' pkg.list_repos
        saltlite '*' pkg.list_repos basedir=/srv/repos.d
    """
    return _repofiles.read(_folders(basedir, root))


def get_repo(repo: str, basedir: str | list[str] | None = None, root: str | None = None) -> dict[str, Any]:
    """
    How a repository is configured; an empty dict when there is none.

    CLI Example::

        saltlite '*' pkg.get_repo epel
    """
    found = list_repos(basedir, root).get(str(repo), {})
    return {key: value for key, value in found.items() if key != "file"}


def del_repo(repo: str, basedir: str | list[str] | None = None, root: str | None = None, test: bool = False) -> str:
    """
    Remove a repository from its file, and the file when it was the only one in it. ``test=True`` tells what would
    change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.del_repo epel
    """
    repos = list_repos(basedir, root)
    if repo not in repos:
        folders = ", ".join(_folders(basedir, root))
        raise CommandExecutionError(f"There is no repository {repo!r} in {folders}.")
    path = str(repos[repo]["file"])
    text = _repofiles.without(path, repo)
    if not test:
        _repofiles.save(path, text)
    if not text:
        return f"File {path} containing repo {repo} has been removed"
    return f"Repo {repo} has been removed from {path}"


def mod_repo(
    repo: str, basedir: str | list[str] | None = None, root: str | None = None, test: bool = False, **kwargs: Any
) -> dict[str, Any]:
    """
    Change a repository, or add it: ``{path: {id: {key: value}}}`` of the file that was written. ``test=True`` tells
    what it would hold, and writes nothing.

    Keyword arguments are settings of dnf and yum; an empty one removes the setting. A new repository needs ``name``
    and one of ``baseurl``, ``mirrorlist`` and ``metalink``, of which there is only one at any time.

    CLI Example::

        saltlite '*' pkg.mod_repo epel enabled=1 gpgcheck=1
        saltlite '*' pkg.mod_repo mine name='My packages' baseurl=https://example.org/el9 gpgcheck=0
        saltlite '*' pkg.mod_repo mine baseurl= mirrorlist=https://example.org/mirrors
    """
    _repofiles.checked_id(repo)
    given = {key: value for key, value in kwargs.items() if not key.startswith("__")}
    values = {key: None if value in (None, "", [], {}) else value for key, value in given.items()}
    links = [link for link in _LINKS if values.get(link)]
    if len(links) > 1:
        raise SaltInvocationError(f"Only one of {', '.join(_LINKS)} can be given.")
    if "name" in values and values["name"] is None:
        raise SaltInvocationError("The name of a repository cannot be removed.")
    known = list_repos(basedir, root)
    before = known.get(repo, {})
    if not before and ("name" not in values or not links):
        raise SaltInvocationError(
            f"There is no repository {repo}: a new one needs name and one of {', '.join(_LINKS)}."
        )
    if links:
        values |= {link: None for link in _LINKS if link not in links}
    elif any(link in values for link in _LINKS) and not any(before.get(link) for link in _LINKS if link not in values):
        raise SaltInvocationError(f"A repository needs one of {', '.join(_LINKS)}.")
    path = str(before.get("file") or os.path.join(_folder_for_new(basedir, root), f"{repo}.repo"))
    text = _repofiles.changed(path, repo, values)
    if not test:
        _repofiles.save(path, text)
    return {path: _repofiles.stanzas_of(text)}


def _folders(basedir: str | list[str] | None, root: str | None) -> list[str]:
    """The folders of repository files, as the configuration of dnf or yum names them."""
    if basedir:
        return [each.strip() for each in (basedir.split(",") if isinstance(basedir, str) else basedir)]
    import configparser

    folder = _rpm.root_folder(root)
    for path in _CONFIGURATIONS:
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        try:
            parser.read(_rpm.below(folder, path))
        except configparser.Error as error:
            raise CommandExecutionError(f"{path} cannot be understood: {error.message}") from error
        named = parser.get("main", "reposdir", fallback="")
        if named:
            return [_rpm.below(folder, each) for each in named.replace(",", " ").split()]
    return [_rpm.below(folder, each) for each in _FOLDERS]


def _folder_for_new(basedir: str | list[str] | None, root: str | None) -> str:
    folders = _folders(basedir, root)
    found = next((each for each in folders if os.path.isdir(each)), None)
    if found is None:
        raise SaltInvocationError(f"There is no folder for repositories: none of {', '.join(folders)} exists.")
    return found
