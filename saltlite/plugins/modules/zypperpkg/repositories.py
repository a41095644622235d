"""Runs zypper without prompts and parses its XML; repositories: what they offer, and how they are configured."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages, _rpm

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from saltlite.loader.hints import __grains__


# A name may have a kind as its prefix. A leading hyphen, tilde or exclamation mark would remove the package.
TARGETS = _packages.NameRules(
    re.compile(r"(?:(?:package|pattern|patch|product|srcpackage):|/)?[A-Za-z0-9_][A-Za-z0-9_.+~^%{}():/-]*", re.ASCII),
    _rpm.VERSIONS,
)

_REPOSITORY = r"[A-Za-z0-9_][A-Za-z0-9_.:+@()-]*"

_SUCCESS = (0, 100, 101, 102, 103)
"""Exit codes of success: done, updates or security updates are there, reboot or restart needed. Contract: zypper(8)."""

_LOCKED = 7
_NO_ROOT = 5
_CUT_REASON = r"^ Solution 1:"


class Answer:
    """The XML output of zypper, and the ended process."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        from xml.etree import ElementTree

        self.done = done
        try:
            self.xml: Element = ElementTree.fromstring(done.stdout)  # noqa: S314 - from the program on this machine
        except ElementTree.ParseError:
            self.xml = ElementTree.Element("stream")

    def all(self, tag: str) -> list[dict[str, str]]:
        """The attributes of all elements with this tag."""
        return [dict(element.attrib) for element in self.xml.iter(tag)]

    def problems(self) -> list[str]:
        """Its error messages."""
        found = [(each.text or "").strip() for each in self.xml.iter("message") if each.get("type") == "error"]
        for prompt in self.xml.iter("prompt"):
            text = (prompt.findtext("description") or "").strip()
            if text.startswith("Problem"):
                found.append(" ".join(re.split(_CUT_REASON, text, flags=re.MULTILINE)[0].split()))
        return [text for text in found if text]

    def checked(self, *also: int) -> Answer:
        """This answer. Raises CommandExecutionError if zypper failed; `also` are additional exit codes of success."""
        if self.done.returncode not in (*_SUCCESS, *also):
            raise self.failed()
        return self

    def planned(self) -> dict[str, str]:
        """The planned changes: `{name: new version}`, with an empty string for removed packages."""
        found: dict[str, str] = {}
        for part in self.xml.iterfind("install-summary/*"):
            for row in part.iter("solvable"):
                if row.get("type", "package") == "package":
                    found[str(row.get("name"))] = "" if part.tag == "to-remove" else str(row.get("edition"))
        return found

    def failed(self) -> CommandExecutionError:
        """The error for a failed command."""
        if self.done.returncode == _LOCKED:
            holder = re.search(r"pid (\d+) \(([^)]*)\)", self.done.stdout)
            who = f" (process {holder[1]}, {os.path.basename(holder[2])})" if holder else ""
            return _packages.database_locked(who)
        if self.done.returncode == _NO_ROOT:
            return _packages.not_root()
        return _packages.failure(self.done, self.problems()[: _packages.REASON_LINES])


def run(root: str | None, command: Sequence[str], names: Sequence[str] = (), *, fetch: bool = False) -> Answer:
    """Run one command. Without `fetch` it uses the package lists as they are."""
    return Answer(_packages.run(_argv(root, ["--xmlout"], command, names, fetch)))


def text(root: str | None, command: Sequence[str], names: Sequence[str] = ()) -> str:
    """The output of a command that prints no XML. Raises CommandExecutionError."""
    done = _packages.run(_argv(root, [], command, names, fetch=False))
    if done.returncode not in _SUCCESS:
        raise Answer(done).failed()
    return done.stdout


def _argv(
    root: str | None, form: Sequence[str], command: Sequence[str], names: Sequence[str], fetch: bool
) -> list[str]:
    folder = _rpm.root_folder(root)
    options = [*(["--root", folder] if folder else []), *([] if fetch else ["--no-refresh"]), *form]
    return ["zypper", "--non-interactive", *options, *command, *(["--"] if names else []), *names]


def repositories(given: Any) -> list[str]:
    """The aliases in a list or a comma-separated string. Raises SaltInvocationError for an invalid alias."""
    found = _packages.words(given)
    for alias in found:
        if not re.fullmatch(_REPOSITORY, alias, re.ASCII):
            raise SaltInvocationError(f"{alias!r} is not the alias of a repository.")
    return found


_FOUND = r"^Information for package (\S+):$"
_FIELD = r"^(\S[^:\n]*?) *: ?(.*)$"
_REFRESHED = r"^Building repository '(.*)' cache"
_UP_TO_DATE = r"^Repository '(.*)' is up to date"


def latest_version(*names: str, refresh: bool = True, root: str | None = None) -> Any:
    """The version that an install or upgrade would bring; an empty string if the package is up to date or unknown.

    Several names give a dict. ``refresh=False`` uses the package lists as they are; ``root`` is the folder of another
    system.

    CLI Example::

        saltlite '*' pkg.latest_version openssl
        saltlite '*' pkg.latest_version openssl curl refresh=False
        saltlite '*' pkg.available_version openssl
    """
    if not names:
        return ""
    known = info_available(*names, refresh=refresh, root=root)
    found = {}
    for name in map(str, names):
        row = known.get(_rpm.normalised(name, _rpm.native_architecture(__grains__)), {})
        newer = str(row.get("status", "")).startswith(("not installed", "out-of-date"))
        found[name] = row["version"] if newer else ""
    return _packages.single(names, found)


available_version = latest_version


def upgrade_available(name: str, refresh: bool = True, root: str | None = None) -> bool:
    """Whether an upgrade of the package is available.

    CLI Example: ``saltlite '*' pkg.upgrade_available openssl``
    """
    return bool(latest_version(name, refresh=refresh, root=root))


def info_available(*names: str, refresh: bool = True, root: str | None = None) -> dict[str, dict[str, Any]]:
    """Information about packages that repositories offer: ``{name: {version, arch, repository, status, summary,
    ...}}``.

    ``installed`` is a bool. Names that no repository offers are skipped.

    CLI Example: ``saltlite '*' pkg.info_available openssl curl``
    """
    wanted = sorted({_rpm.normalised(_rpm.NAME_RULES.name(n), _rpm.native_architecture(__grains__)) for n in names})
    if not wanted:
        return {}
    if refresh:
        refresh_db(root=root)
    _, *parts = re.split(_FOUND, text(root, ["info", "-t", "package"], wanted), flags=re.MULTILINE)
    found: dict[str, dict[str, Any]] = {}
    for name, described in zip(parts[::2], parts[1::2], strict=True):
        row: dict[str, Any] = {}
        for line in described.splitlines():
            field = re.match(_FIELD, line)
            if field and field[1].lower() == "description":
                break  # its lines are the packager's own, and may look like fields
            if field and field[1] not in ("Name",) and field[2].strip():
                row[field[1].lower()] = field[2].strip()
        if "installed" in row:
            row["installed"] = row["installed"].lower().startswith("yes")
        found[name] = row
    return found


def list_upgrades(
    refresh: bool = True, root: str | None = None, *, fromrepo: str | list[str] | None = None
) -> dict[str, str]:
    """The packages that an upgrade would change, with their new versions. ``fromrepo`` searches only these
    repositories.

    CLI Example::

        saltlite '*' pkg.list_upgrades
        saltlite '*' pkg.list_upgrades refresh=False
        saltlite '*' pkg.list_updates
    """
    if refresh:
        refresh_db(root=root)
    chosen = [part for alias in repositories(fromrepo) for part in ("--repo", alias)]
    rows = run(root, ["list-updates", *chosen]).checked().all("update")
    return {row["name"]: row["edition"] for row in rows if row.get("kind") == "package"}


list_updates = list_upgrades


def list_repo_pkgs(
    *args: str, fromrepo: str | None = None, byrepo: bool = False, root: str | None = None
) -> dict[str, Any]:
    """The packages that repositories offer, with all their versions, newest first: ``{name: [versions]}``.

    Names and globs limit the result. ``byrepo=True`` gives ``{repository: {name: [versions]}}``.

    CLI Example::

        saltlite '*' pkg.list_repo_pkgs bash 'samba*'
        saltlite '*' pkg.list_repo_pkgs 'samba*' fromrepo=repo-oss byrepo=True
    """
    names = _rpm.checked_names(args)
    chosen = repositories(fromrepo)
    rows = (
        (row.get("repository", ""), row["name"], row["edition"])
        for row in _search(root, ["--details", "--type", "package"], names)
        if _packages.matches(row["name"], names)
    )
    found = (row for row in rows if row[0] != "(System Packages)" and (not chosen or row[0] in chosen))
    return _packages.offers(found, _rpm.compare, by_repository=byrepo)


def _search(root: str | None, options: list[str], words: list[str]) -> list[dict[str, str]]:
    """The rows of a search; none if nothing matches."""
    answer = run(root, ["search", *options], words)
    if answer.done.returncode == _NOTHING_FOUND and not answer.problems():
        return []
    return answer.checked().all("solvable")


_NOTHING_FOUND = 104
"""What zypper returns when a search finds nothing. Contract: zypper(8), exit codes."""

_SEARCHES = {
    "provides": "--provides", "recommends": "--recommends", "requires": "--requires", "suggests": "--suggests",
    "conflicts": "--conflicts", "obsoletes": "--obsoletes", "file_list": "--file-list",
    "search_descriptions": "--search-descriptions", "case_sensitive": "--case-sensitive",
    "installed_only": "--installed-only", "not_installed_only": "--not-installed-only", "details": "--details",
}  # fmt: skip
_MATCHES = {"exact": "--match-exact", "words": "--match-words", "substrings": "--match-substrings"}


def search(
    criteria: str, refresh: bool = False, match: str | None = None, root: str | None = None, **kwargs: Any
) -> dict[str, dict[str, str]]:
    """Packages, patterns, patches and products that match: ``{name: {status, kind, summary}}``; an error if there are
    none.

    ``match`` is exact, words or substrings. Flags: provides, recommends, requires, suggests, conflicts, obsoletes,
    file_list, search_descriptions, case_sensitive, installed_only, not_installed_only and details.

    CLI Example::

        saltlite '*' pkg.search apache2
        saltlite '*' pkg.search 'perl(strict)' provides=True match=exact
    """
    given = _packages.take(kwargs, *_SEARCHES)
    if match is not None and match not in _MATCHES:
        raise SaltInvocationError(f"match is {match!r}, and can be {', '.join(_MATCHES)}.")
    if refresh:
        refresh_db(root=root)
    options = [_MATCHES[match]] if match else []
    options += [option for key, option in _SEARCHES.items() if given[key]]
    rows = _search(root, options, [_packages.path(criteria)])
    if not rows:
        raise CommandExecutionError(f"Nothing matches {criteria!r}.")
    return {row["name"]: row for row in rows}


def refresh_db(
    force: bool | None = None,
    root: str | None = None,
    gpgautoimport: bool = False,
    repos: str | list[str] | None = None,
) -> dict[str, bool]:
    """Fetch the package lists: ``{repository: True}`` for a new list, False for one that is up to date.

    ``repos`` selects repositories; ``force=False`` fetches only changed lists; ``gpgautoimport`` trusts new keys.

    CLI Example::

        saltlite '*' pkg.refresh_db
        saltlite '*' pkg.refresh_db repos=repo-oss force=False
    """
    keys = ["--gpg-auto-import-keys"] if gpgautoimport else []
    forced = [] if force is False else ["--force"]
    answer = run(root, [*keys, "refresh", *forced], repositories(repos), fetch=True)
    if answer.done.returncode != _NO_REPOSITORIES:
        answer.checked()
    found: dict[str, bool] = {}
    for message in answer.xml.iter("message"):
        match = re.match(_UP_TO_DATE, message.text or "")
        if match:
            found[match[1]] = False
    for row in answer.all("progress"):
        match = re.match(_REFRESHED, row.get("name", ""))
        if match and row.get("done") == "1":
            found[match[1]] = True
    return found


_NO_REPOSITORIES = 6
"""What zypper returns when there are no repositories. Contract: zypper(8), exit codes."""


def list_patterns(refresh: bool = False, root: str | None = None) -> dict[str, dict[str, Any]]:
    """The patterns that repositories offer: ``{name: {"installed": bool, "summary": text}}``.

    CLI Example: ``saltlite '*' pkg.list_patterns``
    """
    return _kind("pattern", refresh, root)


def list_installed_patterns(root: str | None = None) -> dict[str, dict[str, Any]]:
    """The installed patterns: ``{name: {"installed": True, "summary": text}}``.

    CLI Example: ``saltlite '*' pkg.list_installed_patterns``
    """
    return {name: row for name, row in list_patterns(root=root).items() if row["installed"]}


def list_patches(refresh: bool = False, root: str | None = None) -> dict[str, dict[str, Any]]:
    """The patches that repositories offer: ``{name: {"installed": bool, "summary": text}}``.

    CLI Example: ``saltlite '*' pkg.list_patches``
    """
    return _kind("patch", refresh, root)


def list_installed_patches(root: str | None = None) -> dict[str, dict[str, Any]]:
    """The installed patches: ``{name: {"installed": True, "summary": text}}``.

    CLI Example: ``saltlite '*' pkg.list_installed_patches``
    """
    return {name: row for name, row in list_patches(root=root).items() if row["installed"]}


def _kind(kind: str, refresh: bool, root: str | None) -> dict[str, dict[str, Any]]:
    if refresh:
        refresh_db(root=root)
    rows = _search(root, ["--type", kind], [])
    return {
        row["name"]: {"installed": row.get("status") == "installed", "summary": row.get("summary", "")} for row in rows
    }


def list_products(all: bool = False, refresh: bool = False, root: str | None = None) -> list[dict[str, Any]]:
    """The installed products, as zypper describes them; with ``all`` also those that repositories offer.

    CLI Example::

        saltlite '*' pkg.list_products
        saltlite '*' pkg.list_products all=True
    """
    if refresh:
        refresh_db(root=root)
    command = ["products"] if all else ["--disable-repositories", "products", "--installed-only"]
    answer = run(root, command)
    if answer.done.returncode != _NO_REPOSITORIES:
        answer.checked()
    found: list[dict[str, Any]] = []
    for element in answer.xml.iter("product"):
        row: dict[str, Any] = {key: value for key, value in element.attrib.items() if value}
        row |= {key: row[key] in ("true", "1") for key in ("isbase", "installed") if key in row}
        end = element.find("endoflife")
        if end is not None:
            row |= {"eol": end.get("text"), "eol_t": int(end.get("time_t") or 0)}
        row["description"] = " ".join((element.findtext("description") or "").split())
        found.append(row)
    return found


def list_provides(root: str | None = None) -> dict[str, list[str]]:
    """The capabilities that installed packages provide in addition to their names: ``{capability: [packages]}``.

    CLI Example: ``saltlite '*' pkg.list_provides``
    """
    found: dict[str, list[str]] = {}
    form = f"[%{{PROVIDENAME}}{_rpm.UNIT}]"
    for name, *provided in _rpm.query(["NAME", form], root=_rpm.root_folder(root)):
        for capability in provided:
            if capability not in ("", name) and name not in found.setdefault(capability, []):
                found[capability].append(name)
    return found


def resolve_capabilities(pkgs: list[Any], refresh: bool = False, root: str | None = None) -> list[Any]:
    """Replace each capability in a list by the package that provides it, if exactly one does: names and ``{name:
    version}``.

    CLI Example: ``saltlite '*' pkg.resolve_capabilities pkgs='["vim", {"perl(strict)": "1.0"}]'``
    """
    if refresh:
        refresh_db(root=root)
    found: list[Any] = []
    for name, version in TARGETS.requested(None, pkgs).items():
        exact = _search(root, ["--match-exact"], [name])
        offers = {row["name"] for row in exact or _search(root, ["--provides", "--match-exact"], [name])}
        resolved = next(iter(offers)) if len(offers) == 1 else name
        found.append({resolved: version} if version else resolved)
    return found


def list_downloaded(root: str | None = None) -> dict[str, Any]:
    """The downloaded package files: ``{name: {version: {path, size, creation_date_time, creation_date_time_t}}}``.

    CLI Example: ``saltlite '*' pkg.list_downloaded``
    """
    place = _rpm.below(_rpm.root_folder(root), "/var/cache/zypp/packages")
    return _rpm.downloaded([place], _rpm.native_architecture(__grains__))


def download(*packages: str, refresh: bool = False, root: str | None = None) -> dict[str, Any]:
    """Download packages without installing them: ``{name: {path, repository-name, repository-alias}}``.

    A message under ``_error`` lists the names that were not downloaded.

    CLI Example: ``saltlite '*' pkg.download httpd``
    """
    if not packages:
        raise SaltInvocationError("No packages were given.")
    names = [_rpm.NAME_RULES.name(name) for name in packages]
    if refresh:
        refresh_db(root=root)
    answer = run(root, ["download"], names)
    found: dict[str, Any] = {}
    for result in answer.xml.iter("download-result"):
        file, repository = result.find("localfile"), result.find("solvable/repository")
        path = "" if file is None else str(file.get("path"))
        if _rpm.is_whole(path):
            row = {} if repository is None else {f"repository-{key}": value for key, value in repository.items()}
            found[result.findtext("solvable/name") or ""] = {**row, "path": path}
    if not found:
        raise answer.failed()
    lost = [name for name in names if name not in found]
    if lost:
        found["_error"] = f"Not downloaded: {', '.join(lost)}"
    return found


def diff(*paths: str, root: str | None = None) -> dict[str, str]:
    """How installed files differ from those of the newest version of their packages: ``{path: difference}``.

    The packages are downloaded. The difference may also be ``Unchanged``, ``Not managed``, or ``N/A`` for a missing
    file.

    CLI Example: ``saltlite '*' pkg.diff /etc/apache2/httpd.conf /etc/sudoers``
    """
    folder = _rpm.root_folder(root)
    return _rpm.differences(paths, folder, lambda package: str(download(package, root=root)[package]["path"]))


def services_need_restart(root: str | None = None) -> list[str]:
    """The services that still run files which an upgrade has replaced.

    CLI Example: ``saltlite '*' pkg.services_need_restart``
    """
    return text(root, ["ps", "-sss"]).split()


_FOLDER = "/etc/zypp/repos.d"
_URL = r"[a-z][a-z0-9+.-]*:[^\s]"

_SETTINGS = {
    "enabled": "enabled", "refresh": "autorefresh", "cache": "keeppackages", "gpgcheck": "gpgcheck",
    "priority": "priority", "name": "name", "humanname": "name", "baseurl": "baseurl", "url": "baseurl",
    "mirrorlist": "mirrorlist", "type": "type", "gpgkey": "gpgkey",
}  # fmt: skip
"""Keyword argument of `mod_repo` -> setting in the file."""

_FLAGS = ("enabled", "autorefresh", "keeppackages", "gpgcheck", "repo_gpgcheck", "pkg_gpgcheck")


def list_repos(root: str | None = None) -> dict[str, dict[str, Any]]:
    """The configured repositories: ``{alias: {alias, name, baseurl, enabled, autorefresh, ...}}``.

    ``root`` is the folder of another system.

    CLI Example: ``saltlite '*' pkg.list_repos``
    """
    return {alias: _shown(alias, values) for alias, values in _rpm.read_repositories([_folder(root)]).items()}


def get_repo(repo: str, root: str | None = None) -> dict[str, Any]:
    """The configuration of a repository; an empty dict if there is none.

    CLI Example: ``saltlite '*' pkg.get_repo repo-oss``
    """
    return list_repos(root).get(str(repo), {})


def del_repo(repo: str, root: str | None = None, test: bool = False) -> dict[str, Any]:
    """Remove a repository: ``{alias: True, "message": text}``. ``test=True`` removes nothing.

    CLI Example: ``saltlite '*' pkg.del_repo repo-oss``
    """
    _rpm.delete_repository([_folder(root)], repo, test=test)
    return {repo: True, "message": f"Repository '{repo}' has been removed."}


def mod_repo(repo: str, root: str | None = None, test: bool = False, **kwargs: Any) -> dict[str, Any]:
    """Change or add a repository, and return its configuration like ``get_repo``. ``test=True`` writes and fetches
    nothing.

    Keyword arguments: ``url`` (or ``baseurl``) or ``mirrorlist``, one of which a new repository needs; ``enabled``,
    ``refresh`` (fetch its lists automatically), ``cache`` (keep its packages), ``gpgcheck``, ``priority``, ``name``,
    ``type``, ``gpgkey``, and ``gpgautoimport``, which fetches the lists and trusts their key.

    CLI Example::

        saltlite '*' pkg.mod_repo mine url=https://example.org/repo name='My packages' refresh=True
        saltlite '*' pkg.mod_repo mine enabled=False
    """
    _rpm.checked_repository(repo)
    given = _packages.take(kwargs, *_SETTINGS, "gpgautoimport")
    values = {_SETTINGS[key]: value for key, value in given.items() if key in _SETTINGS and value is not None}
    known = _rpm.read_repositories([_folder(root)])
    before = known.get(repo)
    link = values.get("baseurl") or values.get("mirrorlist")
    if before is None and not link:
        raise CommandExecutionError(f"There is no repository {repo}: a new one needs url or mirrorlist.")
    if link and not re.match(_URL, str(link)):
        raise SaltInvocationError(f"{link!r} is not the URL of a repository.")
    if before is None:
        _refuse_twice(repo, str(link), known)
        values = {"name": repo, "enabled": True, "autorefresh": False, "keeppackages": False, **values}
    path = str(before["file"]) if before else os.path.join(_folder(root), f"{repo}.repo")
    text = _rpm.changed_repository(path, repo, values)
    if test:
        return _shown(repo, _rpm.stanzas_of(text)[repo])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if values:
        _rpm.save_repositories(path, text)
    if given["gpgautoimport"]:
        refresh_db(root=root, repos=repo, gpgautoimport=True)
    found = get_repo(repo, root)
    if not values and not given["gpgautoimport"]:
        found["comment"] = "Specified arguments did not result in modification of repo"
    return found


def _folder(root: str | None) -> str:
    return _rpm.below(_rpm.root_folder(root), _FOLDER)


def _shown(alias: str, values: dict[str, Any]) -> dict[str, Any]:
    """Flags become bools and `NONE` becomes None, as in Salt."""
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
