"""Groups of packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _dnf, _dnf_groups

from .changing import install
from .installed import list_pkgs

if TYPE_CHECKING:
    from collections.abc import Sequence

_KINDS = _dnf_groups.KINDS


def group_list(root: str | None = None) -> dict[str, Any]:
    """
    The groups of packages: ``{"installed": [], "available": [], "installed environments": [], "available
    environments": [], "available languages": {}}``. dnf5 gives ids, older programs names.

    CLI Example::

        saltlite '*' pkg.group_list
    """
    command = ["grouplist", "hidden"] if _dnf.program() == "yum" else ["group", "list", "--hidden"]
    done = _dnf.run({"root": root}, command)
    if done.returncode and "No group" not in done.stderr:
        raise _dnf.failed(done)
    return _dnf_groups.read_groups(done.stdout)


def group_info(
    name: str,
    expand: bool = False,
    ignore_groups: list[str] | None = None,
    *,
    fromrepo: str | None = None,
    enablerepo: str | None = None,
    disablerepo: str | None = None,
    root: str | None = None,
) -> dict[str, Any]:
    """
    The packages of a group: ``{mandatory, optional, default, conditional: [names], type, group, id, description}``.

    For an environment these are groups, or with ``expand`` the packages of all its groups.

    CLI Example::

        saltlite '*' pkg.group_info 'Perl Support'
    """
    given = {"fromrepo": fromrepo, "enablerepo": enablerepo, "disablerepo": disablerepo, "root": root}
    command = ["groupinfo"] if _dnf.program() == "yum" else ["group", "info"]
    done = _dnf.run(given, command, [_dnf_groups.checked_name(name)])
    found = _dnf_groups.read_group(done.stdout)
    if not found["group"] and not found["id"]:
        raise CommandExecutionError(f"There is no group {name!r}.")
    if not expand or found["type"] != "environment group":
        return found
    seen = ignore_groups if ignore_groups is not None else []
    packages: dict[str, set[str]] = {kind: set() for kind in _KINDS}
    for member in (member for kind in _KINDS for member in found[kind]):
        if member not in seen:
            seen.append(member)
            below = group_info(member, True, seen, **given)
            for kind in _KINDS:
                packages[kind].update(below[kind])
    return {**found, **{kind: sorted(packages[kind]) for kind in _KINDS}}


def group_diff(name: str, root: str | None = None) -> dict[str, dict[str, list[str]]]:
    """
    Which packages of a group are installed: ``{mandatory, optional, default, conditional: {"installed": [], "not
    installed": []}}``.

    CLI Example::

        saltlite '*' pkg.group_diff 'Perl Support'
    """
    found = group_info(name, expand=True, root=root)
    present = list_pkgs(root=root)
    return {
        kind: {
            "installed": [each for each in found[kind] if each in present],
            "not installed": [each for each in found[kind] if each not in present],
        }
        for kind in _KINDS
    }


def group_install(
    name: str | list[str],
    skip: str | Sequence[str] = (),
    include: str | Sequence[str] = (),
    *,
    root: str | None = None,
    test: bool = False,
) -> dict[str, dict[str, str]]:
    """
    Install the mandatory and default packages of a group, or of several parted by commas: what ``install`` returns.

    ``skip`` leaves out default packages, ``include`` adds others. ``test=True`` changes nothing.

    CLI Example::

        saltlite '*' pkg.group_install 'Group 1'
        saltlite '*' pkg.group_install 'Group 1,Group 2' skip='foo,bar' include='baz'
    """
    groups = _texts(name)
    if not groups:
        raise SaltInvocationError("No groups were given.")
    found = [group_info(group, root=root) for group in groups]
    mandatory = [each for one in found for each in one["mandatory"]]
    default = [each for one in found for each in one["default"] if each not in _texts(skip)]
    present = list_pkgs(root=root)
    wanted = [each for each in dict.fromkeys([*mandatory, *default, *_texts(include)]) if each not in present]
    if not wanted:
        return {}
    return install(pkgs=wanted, test=test, root=root or "")


def groupinstall(
    name: str | list[str],
    skip: str | Sequence[str] = (),
    include: str | Sequence[str] = (),
    *,
    root: str | None = None,
    test: bool = False,
) -> dict[str, dict[str, str]]:
    """
    The same as ``group_install``.

    CLI Example::

        saltlite '*' pkg.groupinstall 'Group 1'
    """
    return group_install(name, skip, include, root=root, test=test)


def _texts(given: str | Sequence[str]) -> list[str]:
    return [str(each).strip() for each in (given.split(",") if isinstance(given, str) else given) if str(each).strip()]
