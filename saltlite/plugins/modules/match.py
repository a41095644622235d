"""Match targets against this minion, with the master's matchers.

``minion_id`` replaces the id of this minion; grains, pillar and addresses stay its own. An invalid target is an error,
as on the command line. Nodegroups are known only to the master.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError, UsageError
from saltlite.plugins.modules import _nested

if TYPE_CHECKING:
    from saltlite.loader.hints import __matches__, __salt__

__func_alias__ = {"list_": "list"}


def compound(tgt: str, minion_id: str | None = None) -> bool:
    """Return whether a compound target matches this minion.

    CLI Example::

        saltlite '*' match.compound 'G@os:Debian and web*'
        saltlite '*' match.compound 'L@web1,web2 and not E@.*-test' minion_id=web1
    """
    return _is_true(tgt, "compound", minion_id)


def glob(tgt: str, minion_id: str | None = None) -> bool:
    """Return whether a glob matches the minion's id.

    CLI Example: ``saltlite '*' match.glob 'web*'``
    """
    return _is_true(tgt, "glob", minion_id)


def pcre(tgt: str, minion_id: str | None = None) -> bool:
    """Return whether a regular expression matches the start of the minion's id.

    CLI Example: ``saltlite '*' match.pcre 'web[0-9]+'``
    """
    return _is_true(tgt, "pcre", minion_id)


def list_(tgt: str | list[str], minion_id: str | None = None) -> bool:
    """Return whether the minion's id is in a list, given as a list or with commas.

    CLI Example: ``saltlite '*' match.list web1,web2``
    """
    return _is_true(",".join(map(str, tgt)) if isinstance(tgt, list | tuple) else tgt, "list", minion_id)


def grain(tgt: str, delimiter: str = ":") -> bool:
    """Return whether a grain matches a glob, given as keys and glob.

    CLI Example::

        saltlite '*' match.grain 'os:Deb*'
        saltlite '*' match.grain 'ipv6|2001:db8::1' delimiter='|'
    """
    return _is_true(tgt, "grain", None, delimiter)


def grain_pcre(tgt: str, delimiter: str = ":") -> bool:
    """Return whether a grain matches a regular expression, given as keys and expression.

    CLI Example: ``saltlite '*' match.grain_pcre 'os:(Debian|Ubuntu)'``
    """
    return _is_true(tgt, "grain_pcre", None, delimiter)


def pillar(tgt: str, delimiter: str = ":") -> bool:
    """Return whether a pillar value matches a glob, given as keys and glob.

    CLI Example: ``saltlite '*' match.pillar 'role:web*'``
    """
    return _is_true(tgt, "pillar", None, delimiter)


def pillar_pcre(tgt: str, delimiter: str = ":") -> bool:
    """Return whether a pillar value matches a regular expression, given as keys and expression.

    CLI Example: ``saltlite '*' match.pillar_pcre 'role:web[0-9]+'``
    """
    return _is_true(tgt, "pillar_pcre", None, delimiter)


def ipcidr(tgt: str) -> bool:
    """Return whether this minion has an address, or one in a network.

    CLI Example::

        saltlite '*' match.ipcidr 192.0.2.0/24
        saltlite '*' match.ipcidr 2001:db8::/32
    """
    return _is_true(tgt, "ipcidr", None)


def data(tgt: str) -> bool:
    """Return whether a value stored by ``data.update`` matches, given as key, colon and glob.

    CLI Example: ``saltlite '*' match.data 'spam:eggs'``
    """
    key, colon, pattern = _text(tgt).partition(":")
    if not colon:
        return False
    if "data.getval" not in __salt__:
        raise CommandExecutionError("This minion has no module `data`, so it keeps no such values.")
    value, pattern = __salt__["data.getval"](key), pattern.split(":")[0]
    if isinstance(value, Mapping):
        return pattern in value
    values = value if isinstance(value, list) else [] if value is None else [value]
    return any(fnmatch.fnmatch(str(member).lower(), pattern.lower()) for member in values)


def filter_by(
    lookup: dict[str, Any], tgt_type: str = "compound", minion_id: str | None = None,
    merge: dict[str, Any] | None = None, merge_lists: bool = False, default: str = "default",
) -> Any:  # fmt: skip
    """Return the value of the first key that is a matching target, else of the key ``default``, or ``None``. ``merge``
    is merged over a match; ``merge_lists`` joins lists.

    CLI Example: ``saltlite '*' match.filter_by '{web*: [app, caching], db*: [db]}' minion_id=web03``
    """
    if merge and not isinstance(merge, Mapping):
        raise SaltInvocationError("What is merged is a map, as in '{pkg: httpd}'.")
    if not isinstance(lookup, Mapping):
        raise SaltInvocationError("The values to choose from are a map, as in '{web*: [app], db*: [db]}'.")
    for key, value in lookup.items():
        is_true = _may_be_true if key == default else _is_true
        if not is_true(key, tgt_type, minion_id):
            continue
        if not merge:
            return value
        if not isinstance(value, Mapping | None):
            raise SaltInvocationError("Only a map can have something merged into it.")
        return _nested.laid_over(value or {}, merge, lists=merge_lists)
    return lookup.get(default)


def search_by(lookup: dict[str, Any], tgt_type: str = "compound", minion_id: str | None = None) -> list[str] | None:
    """Return the keys whose lists contain a matching target, or ``None``.

    CLI Example: ``saltlite '*' match.search_by '{web: [web1, web2], db: ["G@role:db"]}'``
    """
    if not isinstance(lookup, Mapping):
        raise SaltInvocationError("The lists to search are a map, as in '{web: [web1, web2]}'.")
    found = []
    for key, targets in lookup.items():
        each = [targets] if isinstance(targets, str) else targets or []
        found += [key for target in each if _is_true(target, tgt_type, minion_id)]
    return found or None


def ifelse(
    *args: Any,
    tgt_type: str = "compound",
    minion_id: str | None = None,
    merge: dict[str, Any] | None = None,
    merge_lists: bool = False,
) -> Any:
    """Return the value of the first matching target in pairs of target and value, else the last argument.

    ``True`` and ``False`` are targets too.

    CLI Example: ``saltlite '*' match.ifelse 'web*' Web 'db*' Database Other minion_id=db3``
    """
    if len(args) % 2 == 0:
        raise SaltInvocationError("Pairs of a target and a value are needed, and a value for all others at the end.")
    for target, value in zip(args[:-1:2], args[1::2], strict=True):
        if target is True or (target is not False and _is_true(target, tgt_type, minion_id)):
            return filter_by({"*": value}, "glob", minion_id, merge, merge_lists)
    return args[-1]


def _may_be_true(tgt: Any, kind: str, minion_id: str | None) -> bool:
    """Like `_is_true`, but an invalid target is False, because the key of the default need not be one."""
    try:
        return _is_true(tgt, kind, minion_id)
    except SaltInvocationError:
        return False


def _is_true(tgt: Any, kind: str, minion_id: str | None, delimiter: str = ":") -> bool:
    try:
        whose = None if minion_id is None else str(minion_id)
        return __matches__(_text(tgt), kind.removesuffix("_"), minion_id=whose, delimiter=delimiter)
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def _text(tgt: Any) -> str:
    if not isinstance(tgt, str | int | float):
        raise SaltInvocationError(f"A target is a text, not {tgt!r:.80}.")
    return str(tgt)
