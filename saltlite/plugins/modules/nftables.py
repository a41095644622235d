"""Read and change the rules of nftables with the program ``nft``.

A changed rule is active at once, and lost at the next start unless ``save`` writes it. Functions that change something
return ``{"result": ..., "comment": ...}``. ``family`` is ``ipv4`` (``ip``), ``ipv6`` (``ip6``), ``inet``, ``arp``,
``bridge`` or ``netdev``.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       nft
:platform:      Linux
"""

from __future__ import annotations

import os
import re
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _programs

__risk__ = {"delete_table": "firewall", "flush": "firewall", "save": "firewall", "set_policy": "firewall"}

SAVED = "/etc/nftables"
"""The folder of saved rules, as in Salt."""

_FAMILIES = {
    "ipv4": "ip", "ip4": "ip", "ip": "ip", "ipv6": "ip6", "ip6": "ip6", "inet": "inet", "arp": "arp",
    "bridge": "bridge", "netdev": "netdev",
}  # fmt: skip
_COUNTER = re.compile(r"\bcounter packets \d+ bytes \d+")
_SCRIPT = r"#! ?(/\S*/)?nft -f$"
"""The first line of a file of saved rules."""
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


def new_table(table: str, family: str = "ipv4") -> dict[str, Any]:
    """Create a table.

    CLI Example: ``saltlite '*' nftables.new_table filter``
    """
    if not table:
        return _result("Table needs to be specified")
    if check_table(table, family)["result"]:
        return _result(f"Table {table} in family {family} already exists", result=True)
    return _change(
        f"Table {table} in family {family} created", "add", "table", _family(family), _name(table, "a table")
    )


def delete_table(table: str, family: str = "ipv4") -> dict[str, Any]:
    """Delete a table, with its chains and rules.

    CLI Example: ``saltlite '*' nftables.delete_table filter``
    """
    there = check_table(table, family)
    if not there["result"]:
        return there
    return _change(
        f"Table {table} in family {family} deleted", "delete", "table", _family(family), _name(table, "a table")
    )


def new_chain(
    table: str = "filter", chain: str | None = None, table_type: str | None = None, hook: str | None = None,
    priority: int | None = None, family: str = "ipv4",
) -> dict[str, Any]:  # fmt: skip
    """Create a chain; with ``table_type``, ``hook`` and ``priority`` one that packets reach at that hook.

    CLI Example::

        saltlite '*' nftables.new_chain filter mine
        saltlite '*' nftables.new_chain filter input table_type=filter hook=input priority=0
    """
    there = check_table(table, family)
    if not there["result"]:
        return there
    if check_chain(table, chain, family)["result"]:
        return _result(f"Chain {chain} in table {table} in family {family} already exists", result=True)
    words = []
    if table_type or hook or priority is not None:
        if not (table_type and hook and priority is not None):
            return _result("Table_type, hook, and priority required.")
        kind, where = _name(table_type, "a type of chains"), _name(hook, "a hook")
        words = [f"{{ type {kind} hook {where} priority {_priority(priority)}; }}"]
    where = f"Chain {chain} in table {table} in family {family}"
    return _change(f"{where} created", "add", "chain", *_chain(table, chain, family), *words)


def delete_chain(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> dict[str, Any]:
    """Delete a chain without rules.

    CLI Example: ``saltlite '*' nftables.delete_chain filter mine``
    """
    there = check_chain(table, chain, family)
    if not there["result"]:
        return there
    where = f"Chain {chain} in table {table} in family {family}"
    return _change(f"{where} deleted", "delete", "chain", *_chain(table, chain, family))


def append(
    table: str = "filter", chain: str | None = None, rule: str | None = None, family: str = "ipv4"
) -> dict[str, Any]:
    """Append a rule to a chain, unless the chain has it.

    CLI Example: ``saltlite '*' nftables.append filter input rule='tcp dport 22 log accept'``
    """
    return _add("add", table, chain, rule, family, [])


def insert(
    table: str = "filter", chain: str | None = None, position: int | None = None, rule: str | None = None,
    family: str = "ipv4",
) -> dict[str, Any]:  # fmt: skip
    """Insert a rule at the beginning of a chain, or before the rule with the handle ``position``, unless it is there.

    CLI Example: ``saltlite '*' nftables.insert filter input rule='tcp dport 22 log accept'``
    """
    at = ["position", str(_programs.number(position, "position"))] if position else []
    return _add("insert", table, chain, rule, family, at)


def delete(
    table: str, chain: str | None = None, position: int | None = None, rule: str | None = None, family: str = "ipv4"
) -> dict[str, Any]:
    """Delete the rule with the handle ``position``, or a rule as it is written.

    CLI Example::

        saltlite '*' nftables.delete filter input position=3
        saltlite '*' nftables.delete filter input rule='tcp dport 22 log accept'
    """
    if position and rule:
        return _result("Only specify a position or a rule, not both")
    there = check_chain(table, chain, family)
    if not there["result"]:
        return there
    if position:
        handle = str(_programs.number(position, "position"))
    else:
        result, handle = _look(table, chain, rule, family)
        if not result["result"]:
            return result
    which = f"Rule {rule or f'with handle {handle}'} in chain {chain} in table {table} in family {family}"
    return _change(f"{which} deleted", "delete", "rule", *_chain(table, chain, family), "handle", handle)


def flush(table: str = "filter", chain: str = "", family: str = "ipv4") -> dict[str, Any]:
    """Delete all rules of a chain, or of all chains of a table.

    CLI Example: ``saltlite '*' nftables.flush filter input``
    """
    there = check_chain(table, chain, family) if chain else check_table(table, family)
    if not there["result"]:
        return there
    where = f"{f'chain {chain} in ' if chain else ''}table {table} in family {family}"
    words = ["chain", *_chain(table, chain, family)] if chain else ["table", _family(family), _name(table, "a table")]
    return _change(f"Flushed rules from {where}.", "flush", *words)


def set_policy(
    table: str = "filter", chain: str | None = None, policy: str | None = None, family: str = "ipv4"
) -> bool | str:
    """Set the policy of a chain with a hook: ``accept`` or ``drop``. False if there is no such chain.

    CLI Example: ``saltlite '*' nftables.set_policy filter input accept``
    """
    if not chain:
        return "Error: Chain needs to be specified"
    if not policy:
        return "Error: Policy needs to be specified"
    word = str(policy).lower()
    if word not in {"accept", "drop"}:
        raise SaltInvocationError(f"A policy is accept or drop, not {policy!r:.40}.")
    if get_policy(table, chain, family) is None:
        return False
    _nft("add", "chain", *_chain(table, chain, family), f"{{ policy {word}; }}")
    return True


def save(filename: str | None = None, family: str = "ipv4") -> str:
    """Write the rules of a family to a file in the syntax of nft, ``/etc/nftables/salt-FAMILY.nft`` by default.

    They are loaded at the start if the configuration of nftables includes that file. Another file that exists is
    replaced only if it is a script of nft.

    CLI Example: ``saltlite '*' nftables.save /etc/nftables/mine.nft family=inet``
    """
    path = str(filename or f"{SAVED}/salt-{_family(family)}.nft")
    if not os.path.isabs(path):
        raise SaltInvocationError(f"{path!r:.80} is not an absolute path.")
    if filename:
        _machinefiles.refuse_other(path, _SCRIPT, "rules of nft")
    text = "#! nft -f\n\n" + "\n\n".join(get_rules(family)) + "\n"
    _machinefiles.replace(path, text, 0o600)
    return text


def _add(verb: str, table: str, chain: str | None, rule: str | None, family: str, at: list[str]) -> dict[str, Any]:
    there, _handle = _look(table, chain, rule, family)
    where = f"Rule {rule} in chain {chain} in table {table} in family {family}"
    if there["result"] or "Rule" not in there["comment"] or not rule:
        return there
    if re.search(r"[;\n\0]", str(rule)):
        # nft would read what follows as another command.
        raise SaltInvocationError(f"{rule!r:.80} is not one rule.")
    return _change(f"{where} added", verb, "rule", *_chain(table, chain, family), *at, *str(rule).split())


def _change(done: str, *words: str) -> dict[str, Any]:
    """Run one command. Its failure is a result with what nft says."""
    ended = _programs.run(["nft", "--", *words])
    return _result(done, result=True) if not ended.retcode else _result(f"nft failed: {ended.reason()}")


def _chain(table: Any, chain: Any, family: str) -> list[str]:
    return [_family(family), _name(table, "a table"), _name(chain, "a chain")]


def _priority(value: Any) -> int:
    text = str(value)
    if not re.fullmatch(r"-?[0-9]{1,6}", text, re.ASCII):
        raise SaltInvocationError(f"A priority is a whole number, not {value!r:.40}.")
    return int(text)


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
