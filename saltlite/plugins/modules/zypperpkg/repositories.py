"""Repositories: the files that say where packages come from."""

from __future__ import annotations

import os
import re
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages, _repofiles, _rpm

from .available import refresh_db

_FOLDER = "/etc/zypp/repos.d"
_URL = re.compile(r"[a-z][a-z0-9+.-]*:[^\s]")

_SETTINGS = {
    "enabled": "enabled",
    "refresh": "autorefresh",
    "cache": "keeppackages",
    "gpgcheck": "gpgcheck",
    "priority": "priority",
    "name": "name",
    "humanname": "name",
    "baseurl": "baseurl",
    "url": "baseurl",
    "mirrorlist": "mirrorlist",
    "type": "type",
    "gpgkey": "gpgkey",
}
"""Keyword argument of `mod_repo` -> setting in the file."""

_FLAGS = ("enabled", "autorefresh", "keeppackages", "gpgcheck", "repo_gpgcheck", "pkg_gpgcheck")


def list_repos(root: str | None = None) -> dict[str, dict[str, Any]]:
    """
    The configured repositories: ``{alias: {alias, name, baseurl, enabled, autorefresh, ...}}``.

    ``root`` is a folder that holds another system.

    CLI Example::

        saltlite '*' pkg.list_repos
    """
    return {alias: _shown(alias, values) for alias, values in _repofiles.read([_folder(root)]).items()}


def get_repo(repo: str, root: str | None = None) -> dict[str, Any]:
    """
    How a repository is configured; an empty dict when there is none.

    CLI Example::

        saltlite '*' pkg.get_repo repo-oss
    """
    return list_repos(root).get(str(repo), {})


def del_repo(repo: str, root: str | None = None, test: bool = False) -> dict[str, Any]:
    """
    Remove a repository: ``{alias: True, "message": sentence}``. ``test=True`` removes nothing.

    CLI Example::

        saltlite '*' pkg.del_repo repo-oss
    """
    known = _repofiles.read([_folder(root)])
    if repo not in known:
        raise CommandExecutionError(f"There is no repository {repo!r}.")
    path = str(known[repo]["file"])
    text = _repofiles.without(path, repo)
    if not test:
        _repofiles.save(path, text)
    return {repo: True, "message": f"Repository '{repo}' has been removed."}


def mod_repo(repo: str, root: str | None = None, test: bool = False, **kwargs: Any) -> dict[str, Any]:
    """
    Change a repository, or add it; what ``get_repo`` says of it then. ``test=True`` says what that would be, and writes
    and fetches nothing.

    Keyword arguments: ``url`` (or ``baseurl``) or ``mirrorlist``, of which a new one needs one; ``enabled``,
    ``refresh`` (fetch its lists whenever they are old), ``cache`` (keep its packages), ``gpgcheck``, ``priority``,
    ``name``, ``type``, ``gpgkey``, and ``gpgautoimport``, which fetches the lists and trusts their key.

    CLI Example::

        saltlite '*' pkg.mod_repo mine url=https://example.org/repo name='My packages' refresh=True
        saltlite '*' pkg.mod_repo mine enabled=False
    """
    _repofiles.checked_id(repo)
    given = _packages.take(kwargs, *_SETTINGS, "gpgautoimport")
    values = {_SETTINGS[key]: value for key, value in given.items() if key in _SETTINGS and value is not None}
    known = _repofiles.read([_folder(root)])
    before = known.get(repo)
    link = values.get("baseurl") or values.get("mirrorlist")
    if before is None and not link:
        raise CommandExecutionError(f"There is no repository {repo}: a new one needs url or mirrorlist.")
    if link and not _URL.match(str(link)):
        raise SaltInvocationError(f"{link!r} is not the URL of a repository.")
    if before is None:
        _refuse_twice(repo, str(link), known)
        values = {"name": repo, "enabled": True, "autorefresh": False, "keeppackages": False, **values}
    path = str(before["file"]) if before else os.path.join(_folder(root), f"{repo}.repo")
    text = _repofiles.changed(path, repo, values)
    if test:
        return _shown(repo, _repofiles.stanzas_of(text)[repo])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if values:
        _repofiles.save(path, text)
    if given["gpgautoimport"]:
        refresh_db(root=root, repos=repo, gpgautoimport=True)
    found = get_repo(repo, root)
    if not values and not given["gpgautoimport"]:
        found["comment"] = "Specified arguments did not result in modification of repo"
    return found


def _folder(root: str | None) -> str:
    return _rpm.below(_rpm.root_folder(root), _FOLDER)


def _shown(alias: str, values: dict[str, Any]) -> dict[str, Any]:
    """Flags as bools, `NONE` as None, as Salt's users know it."""
    found: dict[str, Any] = {"alias": alias}
    for key, value in values.items():
        if key == "file":
            continue
        found[key] = value == "1" if key in _FLAGS and value in ("0", "1") else None if value == "NONE" else value
    return found


def _refuse_twice(repo: str, url: str, known: dict[str, dict[str, Any]]) -> None:
    for alias, values in known.items():
        if str(values.get("baseurl", "")).rstrip("/") == url.rstrip("/"):
            raise CommandExecutionError(f"Repository {repo} is there already: as {alias}.")
