"""Read the rules of nftables with the program ``nft``.

No function changes a rule. ``family`` is ``ipv4`` (``ip``), ``ipv6`` (``ip6``), ``inet``, ``arp``, ``bridge`` or
``netdev``.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       nft
:platform:      Linux
"""

from __future__ import annotations

import re
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _programs

_FAMILIES = {
    "ipv4": "ip", "ip4": "ip", "ip": "ip", "ipv6": "ip6", "ip6": "ip6", "inet": "inet", "arp": "arp",
    "bridge": "bridge", "netdev": "netdev",
}  # fmt: skip
_COUNTER = re.compile(r"\bcounter packets \d+ bytes \d+")
_ONE_IN_A_SET = re.compile(r"\{ ?([^,{} ]+) ?\}")


def __virtual__() -> bool | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if _programs.find("nft") is None:
        return False, "The nftables execution module failed to load: nftables is not installed."
    return True


def version() -> str:
    """The version of nft, such as ``v1.0.6``.

    CLI Example: ``saltlite '*' nftables.version``
    """
    words = _nft("--version").split()
    return words[1] if len(words) > 1 else ""


def list_tables(family: str = "ipv4") -> list[dict[str, Any]]:
    """The tables of a family: ``family``, ``name`` and ``handle`` of each.

    CLI Example::

        saltlite '*' nftables.list_tables
        saltlite '*' nftables.list_tables family=inet
    """
    items = _json("--json", "list", "tables", _family(family))
    return [item["table"] for item in items if "table" in item]


def get_rules(family: str = "ipv4") -> list[str]:
    """The tables of a family in the syntax of nft, one string each.

    CLI Example: ``saltlite '*' nftables.get_rules family=inet``
    """
    kind = _family(family)
    return [_nft("-nnn", "list", "table", kind, _name(table["name"], "a table")) for table in list_tables(family)]


def get_rules_json(family: str = "ipv4") -> list[dict[str, Any]]:
    """All objects of a family in the JSON of nft: a list of ``metainfo``, ``table``, ``chain``, ``rule`` and others.

    CLI Example: ``saltlite '*' nftables.get_rules_json family=inet``
    """
    return _json("-nnn", "--json", "list", "ruleset", _family(family))


def get_policy(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> str | None:
    """The policy of a chain; ``None`` if there is no such chain, or if it has no hook.

    CLI Example: ``saltlite '*' nftables.get_policy filter input family=inet``
    """
    if not chain:
        return "Error: Chain needs to be specified"
    for item in get_rules_json(family):
        found = item.get("chain", {})
        if found.get("name") == chain and found.get("table") == table:
            policy: str | None = found.get("policy")
            return policy
    return None


def get_rule_handle(
    table: str = "filter", chain: str | None = None, rule: str | None = None, family: str = "ipv4"
) -> dict[str, Any]:
    """The handle of a rule: ``{"result": True, "handle": "5"}``, or a ``comment`` that says why there is none.

    CLI Example: ``saltlite '*' nftables.get_rule_handle filter input rule='tcp dport 22 accept' family=inet``
    """
    result, handle = _look(table, chain, rule, family)
    return {"result": True, "handle": handle} if result["result"] else result


def check(
    table: str = "filter", chain: str | None = None, rule: str | None = None, family: str = "ipv4"
) -> dict[str, Any]:
    """Whether a chain has a rule: ``{"result": ..., "comment": ...}``. Values of counters are ignored.

    CLI Example: ``saltlite '*' nftables.check filter input rule='tcp dport 22 counter accept' family=inet``
    """
    return _look(table, chain, rule, family)[0]


def check_chain(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> dict[str, Any]:
    """Whether a table has a chain: ``{"result": ..., "comment": ...}``.

    CLI Example: ``saltlite '*' nftables.check_chain filter input family=inet``
    """
    if not chain:
        return _result("Chain needs to be specified")
    kind, wanted = _family(family), (_name(table, "a table"), _name(chain, "a chain"))
    chains = (item["chain"] for item in _json("--json", "list", "chains", kind) if "chain" in item)
    there = any((each["table"], each["name"]) == wanted for each in chains)
    verb = "exists" if there else "does not exist"
    return _result(f"Chain {chain} in table {table} in family {family} {verb}", result=there)


def check_table(table: str | None = None, family: str = "ipv4") -> dict[str, Any]:
    """Whether a table exists: ``{"result": ..., "comment": ...}``.

    CLI Example: ``saltlite '*' nftables.check_table filter family=inet``
    """
    if not table:
        return _result("Table needs to be specified")
    there = any(each["name"] == table for each in list_tables(family))
    verb = "exists" if there else "does not exist"
    return _result(f"Table {table} in family {family} {verb}", result=there)


def _look(table: str, chain: str | None, rule: str | None, family: str) -> tuple[dict[str, Any], str]:
    """The result of `check`, and the handle of the rule."""
    if not chain:
        return _result("Chain needs to be specified"), ""
    if not rule:
        return _result("Rule needs to be specified"), ""
    for result in (check_table(table, family), check_chain(table, chain, family)):
        if not result["result"]:
            return result, ""
    listed = _nft("--handle", "list", "chain", _family(family), _name(table, "a table"), _name(chain, "a chain"))
    wanted = _plain(str(rule))
    where = f"Rule {rule} in chain {chain} in table {table} in family {family}"
    for line in listed.splitlines():
        text, mark, handle = line.rpartition(" # handle ")
        if mark and _plain(text) == wanted:
            return _result(f"{where} exists", result=True), handle.strip()
    return _result(f"{where} does not exist"), ""


def _plain(rule: str) -> str:
    """A rule for comparison: without values of counters, and without braces around a single element."""
    return _ONE_IN_A_SET.sub(r"\1", _COUNTER.sub("counter", " ".join(rule.split())))


def _result(comment: str, *, result: bool = False) -> dict[str, Any]:
    return {"comment": comment, "result": result}


def _family(family: str) -> str:
    if family not in _FAMILIES:
        raise SaltInvocationError(f"family is one of {', '.join(_FAMILIES)}, not {family!r:.40}.")
    return _FAMILIES[family]


def _name(value: Any, what: str) -> str:
    """A valid name; nft parses its arguments as one text of its language, so other characters are refused."""
    text = str(value)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_/\\.-]*", text):
        raise SaltInvocationError(f"{text!r:.80} is not the name of {what}.")
    return text


def _json(*words: str) -> list[dict[str, Any]]:
    import json

    text = _nft(*words)
    if not text:
        return []
    try:
        found: list[dict[str, Any]] = json.loads(text)["nftables"]
    except (ValueError, KeyError, TypeError) as error:
        raise CommandExecutionError(f"nft did not print JSON: {text[:80]!r}.") from error
    return found


def _nft(*words: str) -> str:
    return _programs.output(["nft", *words]).rstrip()
