"""Read the active rules of the packet filter from ``iptables-save``, and the saved ones from their file.

No function changes a rule. ``family`` is ``ipv4`` or ``ipv6``.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       iptables
:platform:      Linux
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _programs

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__

FILE_BYTES_MAX = 64 * 1024 * 1024
"""A larger file of saved rules is not read."""

_SAVED = {
    "RedHat": ("/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables"),
    "Arch": ("/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"),
    "Void": ("/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"),
    "Debian": ("/etc/iptables/rules.v4", "/etc/iptables/rules.v6"),
    "Gentoo": ("/var/lib/iptables/rules-save", "/var/lib/ip6tables/rules-save"),
    "Alpine": ("/etc/iptables/rules-save", "/etc/iptables/rules6-save"),
    "Suse": ("/etc/sysconfig/scripts/SuSEfirewall2-custom", "/etc/sysconfig/scripts/SuSEfirewall2-custom"),
}
_LONG = {
    "-A": "append", "-p": "protocol", "-s": "source", "-d": "destination", "-j": "jump", "-g": "goto",
    "-i": "in-interface", "-o": "out-interface", "-f": "fragment", "-c": "set-counters", "-m": "match",
    "--sport": "source_port", "--source-port": "source_port", "--dport": "destination_port",
    "--destination-port": "destination_port", "--sports": "source-ports", "--dports": "destination-ports",
}  # fmt: skip
"""Option -> its name in results, as in Salt."""
_WORD = re.compile(r'"((?:\\.|[^"\\])*)"|(\S+)')


def __virtual__() -> bool | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if _programs.find("iptables") is None:
        return False, "The iptables execution module cannot be loaded: iptables not installed."
    return True


def version(family: str = "ipv4") -> str:
    """The version of iptables, such as ``v1.8.9``.

    CLI Example: ``saltlite '*' iptables.version``
    """
    words = _programs.output([_program(family), "--version"]).split()
    return words[1] if len(words) > 1 else ""


def get_rules(family: str = "ipv4") -> dict[str, Any]:
    """The active rules: ``{table: {chain: {"policy", "packet count", "byte count", "rules", "rules_comment"}}}``.

    A rule is ``{option: [value]}``; ``rules_comment`` contains the rules with a comment under that comment.

    CLI Example::

        saltlite '*' iptables.get_rules
        saltlite '*' iptables.get_rules family=ipv6
    """
    return _parsed(_programs.output([_program(family, "-save")]), "iptables-save")


def get_saved_rules(conf_file: str | None = None, family: str = "ipv4") -> dict[str, Any]:
    """The rules in the file of this system, or in another file, in the format of ``get_rules``.

    CLI Example::

        saltlite '*' iptables.get_saved_rules
        saltlite '*' iptables.get_saved_rules /etc/iptables/rules.v4
    """
    path = str(conf_file or _saved_file(family))
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = "" if os.fstat(stream.fileno()).st_size > FILE_BYTES_MAX else stream.read(FILE_BYTES_MAX)
            more = bool(stream.read(1))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CommandExecutionError(f"The saved rules in {path!r} cannot be read: {reason}.") from error
    if more:
        raise CommandExecutionError(f"{path} has more than {FILE_BYTES_MAX} bytes: it does not contain saved rules.")
    return _parsed(text, path)


def get_policy(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> str | None:
    """The policy of a chain; ``-`` for a user-defined chain, ``None`` if there is no such chain.

    CLI Example: ``saltlite '*' iptables.get_policy filter INPUT``
    """
    if not chain:
        return "Error: Chain needs to be specified"
    return _policy(get_rules(family), table, chain)


def get_saved_policy(
    table: str = "filter", chain: str | None = None, conf_file: str | None = None, family: str = "ipv4"
) -> str | None:
    """The policy of a chain in the saved rules.

    CLI Example: ``saltlite '*' iptables.get_saved_policy filter INPUT``
    """
    if not chain:
        return "Error: Chain needs to be specified"
    return _policy(get_saved_rules(conf_file, family), table, chain)


def check(table: str = "filter", chain: str | None = None, rule: str | None = None, family: str = "ipv4") -> bool | str:
    """Whether a chain has a rule, which is written as for iptables.

    CLI Example: ``saltlite '*' iptables.check filter INPUT rule='-p tcp --dport 22 -j ACCEPT'``
    """
    if not chain:
        return "Error: Chain needs to be specified"
    if not rule:
        return "Error: Rule needs to be specified"
    try:
        words = shlex.split(str(rule))
    except ValueError as error:
        raise SaltInvocationError(f"The rule {rule!r:.80} cannot be split into words: {error}.") from error
    # iptables itself refuses a second command; these options would select another table, or load a module.
    for word in words:
        if "\0" in word or "\n" in word or word.startswith(("-t", "--table", "--modprobe", "-M")):
            raise SaltInvocationError(f"{word!r:.80} is not part of a rule.")
    argv = [_program(family), "--wait", "-t", _name(table, "a table"), "-C", _name(chain, "a chain"), *words]
    done = _programs.run(argv)
    if done.retcode not in {0, 1} or "you must be root" in done.stderr:
        raise CommandExecutionError(f"iptables cannot check the rule: {done.reason()}")
    return done.retcode == 0


def check_chain(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> bool | str:
    """Whether a table has a chain.

    CLI Example: ``saltlite '*' iptables.check_chain filter INPUT``
    """
    if not chain:
        return "Error: Chain needs to be specified"
    saved = _programs.output([_program(family, "-save"), "-t", _name(table, "a table")])
    return chain in _parsed(saved, "iptables-save").get(table, {})


def _policy(rules: dict[str, Any], table: str, chain: str) -> str | None:
    found: str | None = rules.get(table, {}).get(chain, {}).get("policy")
    return found


def _parsed(text: str, source: str) -> dict[str, Any]:
    """Parse the output of iptables-save. Raises CommandExecutionError for invalid lines."""
    found: dict[str, dict[str, Any]] = {}
    table: dict[str, Any] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.startswith("*"):
                table = found.setdefault(line[1:].strip(), {})
            elif line.startswith(":") and table is not None:
                name, policy, *counters = line[1:].split()
                packets, _, size = (counters[0] if counters else "0:0").strip("[]").partition(":")
                table[name] = {
                    "policy": policy, "packet count": packets, "byte count": size, "rules": [], "rules_comment": {},
                }  # fmt: skip
            elif line.startswith(("-A ", "[")) and table is not None:
                _add_rule(table, line)
        except (KeyError, IndexError, ValueError) as error:
            raise CommandExecutionError(f"Line {number} of {source} is not a rule: {line[:80]!r}.") from error
    return found


def _add_rule(table: dict[str, Any], line: str) -> None:
    rule = _rule(line)
    chain = table[rule.pop("append")[0]]
    chain["rules"].append(rule)
    if "comment" in rule:
        chain["rules_comment"][rule["comment"][0]] = rule


def _rule(line: str) -> dict[str, list[str]]:
    """`-A INPUT ! -s 10.0.0.0/8 -j DROP` -> {"append": ["INPUT"], "source": ["! 10.0.0.0/8"], "jump": ["DROP"]}."""
    found: dict[str, list[str]] = {}
    values: list[str] | None = None
    negated = False
    for match in _WORD.finditer(line.partition("] ")[2] if line.startswith("[") else line):
        quoted, plain = match.groups()
        if plain == "!":
            negated = True
        elif plain is not None and plain.startswith("-") and len(plain) > 1:
            values = found.setdefault(_LONG.get(plain, plain.lstrip("-")), [])
            values.append("! " if negated else "")
            negated = False
        elif values is not None:
            word = re.sub(r"\\(.)", r"\1", quoted) if plain is None else plain
            before = values[-1] + ("" if values[-1] in {"", "! "} else " ")
            values[-1] = f"{before}! {word}" if negated else before + word
            negated = False
    return {name: [value.rstrip() if value == "! " else value for value in each] for name, each in found.items()}


def _saved_file(family: str) -> str:
    for grain in ("os_family", "os"):
        if __grains__.get(grain) in _SAVED:
            return _SAVED[__grains__[grain]][_number(family)]
    system = __grains__.get("os", "this system")
    raise CommandExecutionError(f"The file in which {system} saves rules is unknown: give it as conf_file.")


def _number(family: str) -> int:
    if family not in {"ipv4", "ipv6"}:
        raise SaltInvocationError(f"family is ipv4 or ipv6, not {family!r:.40}.")
    return 1 if family == "ipv6" else 0


def _program(family: str, suffix: str = "") -> str:
    return ("iptables", "ip6tables")[_number(family)] + suffix


def _name(value: Any, what: str) -> str:
    text = str(value)
    if not re.fullmatch(r"[A-Za-z0-9_.:+][A-Za-z0-9_.:+-]*", text):
        raise SaltInvocationError(f"{text!r:.80} is not the name of {what}.")
    return text
