"""Python packages, through pip: of the minion's own Python, or of any virtualenv.

All functions take ``bin_env`` (the folder of a virtualenv, its folder ``bin``, or the path of a ``pip`` or ``python``),
``user`` (who runs pip) and ``cwd``. No package name can be taken for an option. Addresses of indexes and proxies, which
may contain passwords, are passed to pip in its environment.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       pip 9 or newer
:platform:      all
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules import _packages
from saltlite.plugins.modules._commands import run_needed

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __salt__

__func_alias__ = {"list_": "list"}

# The process may have imported what they replace.
__own_process__ = ("install", "uninstall", "upgrade")

__risk__ = {"uninstall": "remove", "upgrade": "upgrade-all"}

_FLAGS = {
    "no_index": "--no-index", "upgrade": "--upgrade", "force_reinstall": "--force-reinstall",
    "ignore_installed": "--ignore-installed", "no_deps": "--no-deps", "no_cache_dir": "--no-cache-dir",
    "pre_releases": "--pre", "test": "--dry-run",
}  # fmt: skip
_VALUES = {
    "log": "--log", "timeout": "--timeout", "target": "--target", "source": "--src",
    "exists_action": "--exists-action", "cert": "--cert", "cache_dir": "--cache-dir",
}  # fmt: skip
_LISTS = {
    "find_links": "--find-links",
    "no_binary": "--no-binary",
    "trusted_host": "--trusted-host",
    "global_options": "--global-option",
}
_SECRETS = {"index_url": "PIP_INDEX_URL", "extra_index_url": "PIP_EXTRA_INDEX_URL", "proxy": "PIP_PROXY"}
"""Every user of a machine can read the command lines of others, but not their environments."""

_PRERELEASES = {"include_alpha": "a", "include_beta": "b", "include_rc": "rc"}
_REASON_LINES = 3

_START = (
    "import sys; sys.path[:] = filter(None, sys.path); import runpy; "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)
_OF_PYTHON = ("-c", _START)
"""Arguments for `-m pip` without importing modules from `cwd`; not all versions of Python have the option `-P`."""


class _Network(TypedDict, total=False):
    log: str
    proxy: str
    timeout: int
    saltenv: str
    extra_args: list[Any]
    test: bool


class _Installing(_Network, total=False):
    cache_dir: str
    cert: str
    editable: str | list[str]
    env_vars: dict[str, Any]
    exists_action: str
    extra_index_url: str
    find_links: str | list[str]
    force_reinstall: bool
    global_options: str | list[str]
    ignore_installed: bool
    index_url: str
    no_binary: str | list[str]
    no_cache_dir: bool
    no_deps: bool
    no_index: bool
    pre_releases: bool
    source: str
    target: str
    trusted_host: str | list[str]
    upgrade: bool


class _Versions(TypedDict, total=False):
    extra_index_url: str
    include_alpha: bool
    include_beta: bool
    include_rc: bool
    index_url: str


def __virtual__() -> str:  # noqa: N807 - the name that the loader asks for
    return "pip"


def install(
    pkgs: str | list[str] | None = None, requirements: str | list[str] | None = None, bin_env: str | None = None, *,
    user: str | None = None, cwd: str | None = None, **kwargs: Unpack[_Installing],
) -> dict[str, Any]:  # fmt: skip
    """Install packages: ``{pid, retcode, stdout, stderr}`` of pip.

    ``pkgs`` is a list, or a comma-separated string (with semicolons for the commas of a version, as in ``a>=1;<2``);
    ``requirements`` are files of the minion or of the file server. ``editable`` are folders and repositories. Other
    keyword arguments are options of pip: ``upgrade``, ``force_reinstall``, ``ignore_installed``, ``no_deps``,
    ``pre_releases``, ``index_url``, ``extra_index_url``, ``no_index``, ``find_links``, ``trusted_host``, ``proxy``,
    ``cert``, ``timeout``, ``target``, ``source``, ``no_binary``, ``no_cache_dir``, ``cache_dir``, ``exists_action``,
    ``global_options`` and ``log``; ``extra_args`` are passed unchanged. ``env_vars`` are environment variables.
    ``test=True`` reports what would be installed, and changes nothing.

    CLI Example::

        saltlite '*' pip.install requests,flask
        saltlite '*' pip.install 'requests>=2;<3' bin_env=/srv/venv user=www-data upgrade=True
        saltlite '*' pip.install requirements=salt://site/requirements.txt bin_env=/srv/venv
    """
    given = _take(kwargs, _Installing)
    if given["no_index"] and (given["index_url"] or given["extra_index_url"]):
        raise SaltInvocationError("no_index excludes index_url and extra_index_url.")
    names = [_word(name, "package").replace(";", ",") for name in _packages.words(pkgs)]
    argv = ["install", *_options(given), *_requirements(requirements, given["saltenv"] or "base")]
    for each in _packages.words(given["editable"]):
        argv += ["--editable", _word(each, "package")]
    if not names and not requirements and not given["editable"]:
        return {"retcode": 0, "stdout": "No packages to install."}
    env = _texts(given["env_vars"])
    return _run([*argv, "--", *names], bin_env, user, cwd, env=env | _secrets(given))


def uninstall(
    pkgs: str | list[str] | None = None, requirements: str | list[str] | None = None, bin_env: str | None = None, *,
    user: str | None = None, cwd: str | None = None, **kwargs: Unpack[_Network],
) -> dict[str, Any]:  # fmt: skip
    """Remove packages: ``{pid, retcode, stdout, stderr}`` of pip.

    ``pkgs`` and ``requirements`` are as for ``install``. ``test=True`` reports what would be removed.

    CLI Example: ``saltlite '*' pip.uninstall requests,flask bin_env=/srv/venv``
    """
    given = _take(kwargs, _Network)
    names = [_word(name, "package") for name in _packages.words(pkgs)]
    if given["test"]:
        there = list_(bin_env=bin_env, user=user, cwd=cwd)
        found = [f"{name}-{there[name]}" for name in map(normalize, names) if name in there]
        return {"retcode": 0, "stdout": f"Would uninstall {' '.join(found) or 'nothing'}"}
    argv = ["uninstall", "--yes", *_options({**given, "timeout": None})]
    argv += _requirements(requirements, given["saltenv"] or "base")
    if not names and not requirements:
        return {"retcode": 0, "stdout": "No packages to uninstall."}
    return _run([*argv, "--", *names], bin_env, user, cwd, env=_secrets(given))


def list_(
    prefix: str | None = None,
    bin_env: str | None = None,
    user: str | None = None,
    cwd: str | None = None,
    env_vars: dict[str, Any] | None = None,
) -> dict[str, str]:
    """The installed packages: ``{name: version}``, or only those whose name begins with ``prefix``.

    Names are normalized to lower case with hyphens.

    CLI Example::

        saltlite '*' pip.list
        saltlite '*' pip.list django bin_env=/srv/venv
        saltlite '*' pip.list_freeze_parse django bin_env=/srv/venv
    """
    rows = _rows(_checked(_run(["list", "--format=json"], bin_env, user, cwd, env=_texts(env_vars))))
    found = {normalize(row["name"]): str(row["version"]) for row in rows}
    begin = normalize(prefix or "")
    return {name: version for name, version in found.items() if name.startswith(begin)}


list_freeze_parse = list_


def freeze(
    bin_env: str | None = None,
    user: str | None = None,
    cwd: str | None = None,
    *,
    env_vars: dict[str, Any] | None = None,
) -> list[str]:
    """The installed packages, including pip itself, as lines of a requirements file.

    CLI Example: ``saltlite '*' pip.freeze bin_env=/srv/venv``
    """
    return _checked(_run(["freeze", "--all"], bin_env, user, cwd, env=_texts(env_vars))).splitlines()


def version(bin_env: str | None = None, cwd: str | None = None, user: str | None = None) -> str | None:
    """The version of pip, or None if it cannot be determined.

    CLI Example::

        saltlite '*' pip.version
        saltlite '*' pip.version bin_env=/srv/venv
    """
    key = f"pip.version.{bin_env}.{user}"
    if key not in __context__:
        match = re.match(r"pip (\S+)", _checked(_run(["--version"], bin_env, user, cwd)))
        __context__[key] = match[1] if match else None
    found: str | None = __context__[key]
    return found


def list_upgrades(bin_env: str | None = None, user: str | None = None, cwd: str | None = None) -> dict[str, str]:
    """The packages with a newer version: ``{name: "2.0 [wheel]"}``.

    CLI Example: ``saltlite '*' pip.list_upgrades bin_env=/srv/venv``
    """
    rows = _rows(_checked(_run(["list", "--outdated", "--format=json"], bin_env, user, cwd)))
    return {str(row["name"]): f"{row['latest_version']} [{row['latest_filetype']}]" for row in rows}


def upgrade_available(pkg: str, bin_env: str | None = None, user: str | None = None, cwd: str | None = None) -> bool:
    """Whether an installed package has a newer version.

    CLI Example: ``saltlite '*' pip.upgrade_available requests bin_env=/srv/venv``
    """
    name = normalize(_word(pkg, "package"))
    return name in {normalize(each) for each in list_upgrades(bin_env, user, cwd)}


def upgrade(
    bin_env: str | None = None, user: str | None = None, cwd: str | None = None, *, test: bool = False
) -> dict[str, Any]:
    """Upgrade every package with a newer version: ``{changes: {name: {old, new}}, result, comment}``.

    ``test=True`` reports what would change, and changes nothing.

    CLI Example: ``saltlite '*' pip.upgrade bin_env=/srv/venv``
    """
    before = list_(bin_env=bin_env, user=user, cwd=cwd)
    newer = list_upgrades(bin_env, user, cwd)
    if test:
        planned = {name: {"old": before[normalize(name)], "new": to.split()[0]} for name, to in newer.items()}
        return {"changes": planned, "result": True, "comment": ""}
    results = [_run(["install", "--upgrade", "--", _word(name, "package")], bin_env, user, cwd) for name in newer]
    after = list_(bin_env=bin_env, user=user, cwd=cwd)
    changes = _packages.difference(before, after)
    comment = "\n".join(one["stderr"] for one in results if one["stderr"])
    return {"changes": changes, "result": not any(one["retcode"] for one in results), "comment": comment}


def is_installed(pkgname: str, bin_env: str | None = None, user: str | None = None, cwd: str | None = None) -> bool:
    """Whether a package is installed.

    CLI Example: ``saltlite '*' pip.is_installed requests bin_env=/srv/venv``
    """
    return normalize(_word(pkgname, "package")) in list_(bin_env=bin_env, user=user, cwd=cwd)


def list_all_versions(
    pkg: str, bin_env: str | None = None, *, user: str | None = None, cwd: str | None = None,
    **kwargs: Unpack[_Versions],
) -> list[str] | None:  # fmt: skip
    """The versions of a package in the index, oldest first; None if there are none.

    ``include_alpha``, ``include_beta`` and ``include_rc`` add pre-releases; ``index_url`` and ``extra_index_url``
    select the index.

    CLI Example: ``saltlite '*' pip.list_all_versions requests``
    """
    given = _take(kwargs, _Versions)
    parts = [part for key, part in _PRERELEASES.items() if given[key]]
    more = ["--pre"] if parts else []
    name = _word(pkg, "package")
    done = _run(["index", "versions", *more, "--", name], bin_env, user, cwd, env=_secrets(given), ignore_retcode=True)
    if 'unknown command "index"' in done["stderr"]:
        found = _versions_of_old_pip(name, more, bin_env, user, cwd, _secrets(given))
    else:
        match = re.search(r"^Available versions: (.*)$", done["stdout"], re.MULTILINE)
        if match is None and "No matching distribution found" not in done["stderr"]:
            _checked(done)
        found = match[1].split(", ")[::-1] if match else []
    excluded = "|".join(part for key, part in _PRERELEASES.items() if not given[key])
    dropped = re.compile(rf"\d({excluded})\d*|dev") if excluded else re.compile("dev")
    return [each for each in found if not dropped.search(each)] or None


def _versions_of_old_pip(
    name: str, more: list[str], bin_env: str | None, user: str | None, cwd: str | None, env: Mapping[str, str]
) -> list[str]:
    """What pip before 21.2 says when it is asked for a version that no package has. The resolver that is new in 20.3
    does not say it."""
    for resolver in ([], ["--use-deprecated=legacy-resolver"]):
        argv = ["install", *more, *resolver, "--", f"{name}==versions"]
        done = _run(argv, bin_env, user, cwd, env=env, ignore_retcode=True)
        match = re.search(r"\(from versions: (.*)\)", done["stderr"])
        if match is not None:
            return [each for each in match[1].split(", ") if each != "none"]
    _checked(done)
    return []


def normalize(name: str) -> str:
    """The normalized name of a package (PEP 503).

    CLI Example: ``saltlite '*' pip.normalize requests_ntlm``
    """
    return re.sub(r"[-_.]+", "-", str(name)).lower()


def _run(
    arguments: Sequence[str], bin_env: str | None, user: str | None, cwd: str | None, *,
    env: Mapping[str, str] | None = None, ignore_retcode: bool = False,
) -> dict[str, Any]:  # fmt: skip
    if user is not None:
        _word(user, "user")
    environment = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", **(env or {})}
    if bin_env and os.path.isdir(bin_env):
        environment["VIRTUAL_ENV"] = _virtualenv(bin_env)
    done: dict[str, Any] = run_needed(
        __salt__["cmd.run_all"],
        [*_pip(bin_env), *arguments],
        cwd=cwd,
        runas=user,
        env=environment,
        ignore_retcode=ignore_retcode,
        output_loglevel="quiet",  # the URL of a package may have a password in it
    )
    if done["retcode"] and "No module named pip" in done["stderr"]:
        raise CommandNotFoundError(f"pip (there is none for {bin_env or sys.executable})")
    return done


def _virtualenv(folder: str | os.PathLike[str]) -> str:
    """The folder of a virtualenv, which may be named by its folder `bin`, as in Salt."""
    folder = os.fspath(folder)
    above, _, last = folder.rstrip("/").rpartition("/")
    return above or "/" if last == "bin" and not os.path.isdir(os.path.join(folder, "bin")) else folder


def _pip(bin_env: str | None) -> list[str]:
    """The command that runs pip."""
    if not bin_env:
        return [sys.executable, *_OF_PYTHON]
    place = _word(bin_env, "virtualenv or program")
    if not os.path.isabs(place):
        raise SaltInvocationError(f"{place} is not an absolute path.")
    if os.path.isdir(place):
        place = _virtualenv(place)
        for name in ("python", "python3"):
            program = os.path.join(place, "bin", name)
            if os.access(program, os.X_OK):
                return [program, *_OF_PYTHON]
        raise CommandNotFoundError(f"python (there is none in the virtualenv {place})")
    if not os.access(place, os.X_OK):
        raise CommandNotFoundError(place)
    return [place, *_OF_PYTHON] if os.path.basename(place).startswith("python") else [place]


def _options(given: Mapping[str, Any]) -> list[str]:
    argv = [flag for key, flag in _FLAGS.items() if given.get(key)]
    for key, option in _VALUES.items():
        if given.get(key) is not None:
            argv += [option, _word(given[key], key)]
    for key, option in _LISTS.items():
        for each in _packages.words(given.get(key)):
            # Only a global option may begin with a hyphen.
            argv.append(f"{option}={each if key == 'global_options' else _word(each, key)}")
    for extra in given.get("extra_args") or ():
        argv += [str(word) for pair in extra.items() for word in pair] if isinstance(extra, Mapping) else [str(extra)]
    return argv


def _requirements(requirements: str | list[str] | None, saltenv: str) -> list[str]:
    argv: list[str] = []
    for each in _packages.words(requirements):
        path = _word(each, "file")
        if "://" in path:
            path = __salt__["cp.cache_file"](path, saltenv)
            if not path:
                raise CommandExecutionError(f"There is no file {each} on the master.")
        argv += ["--requirement", path]
    return argv


def _secrets(given: Mapping[str, Any]) -> dict[str, str]:
    return {name: _word(given[key], key) for key, name in _SECRETS.items() if given.get(key)}


def _texts(variables: Mapping[str, Any] | None) -> dict[str, str]:
    return {str(key): str(value) for key, value in dict(variables or {}).items()}


def _word(text: Any, what: str) -> str:
    """A valid argument for a command. Raises SaltInvocationError."""
    found = str(text)
    if not found.strip() or found.startswith("-") or not found.isprintable():
        raise SaltInvocationError(f"{text!r} is not the name of a {what}.")
    return found


def _take(kwargs: Mapping[str, Any], known: type) -> dict[str, Any]:
    return _packages.take(kwargs, *sorted(known.__annotations__))  # with those of its bases: it is a TypedDict


def _checked(done: Mapping[str, Any]) -> str:
    if done["retcode"]:
        lines = [line.strip() for line in str(done["stderr"]).splitlines() if line.strip()]
        words = "; ".join(lines[:_REASON_LINES]) or "it gave no reason"
        raise CommandExecutionError(f"pip failed (return code {done['retcode']}): {words}")
    return str(done["stdout"])


def _rows(text: str) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = json.loads(text)
    except ValueError as error:
        raise CommandExecutionError(f"pip did not print a list of packages: {text[:100]!r}") from error
    return rows
