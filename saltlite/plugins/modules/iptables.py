"""Read and change the active rules of the packet filter, and the saved ones in their file.

A changed rule is active at once, and lost at the next start unless ``save`` writes it. ``family`` is ``ipv4`` or
``ipv6``. A rule is written as for iptables; ``build_rule`` makes one of keywords.

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
from saltlite.plugins.modules import _machinefiles, _programs

__risk__ = {"flush": "firewall", "set_policy": "firewall"}

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
    done = _programs.run(_argv(family, table, "-C", chain, _words(rule)))
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


def set_policy(table: str = "filter", chain: str | None = None, policy: str | None = None, family: str = "ipv4") -> str:
    """Set the policy of a built-in chain, which decides about packets that no rule matches.

    CLI Example: ``saltlite '*' iptables.set_policy filter INPUT ACCEPT``
    """
    if not chain:
        return "Error: Chain needs to be specified"
    if not policy:
        return "Error: Policy needs to be specified"
    return _changed(family, table, "-P", chain, [_name(policy, "a policy")])


def save(filename: str | None = None, family: str = "ipv4") -> str:
    """Write the active rules to the file of this system, or to another file, from which they are loaded at the start.

    CLI Example::

        saltlite '*' iptables.save
        saltlite '*' iptables.save /etc/sysconfig/iptables
    """
    path = str(filename or _saved_file(family))
    if not os.path.isabs(path):
        raise SaltInvocationError(f"{path!r:.80} is not an absolute path.")
    rules = _programs.output([_program(family, "-save")])
    _machinefiles.replace(path, rules, 0o600)
    return f'Wrote {len(rules.splitlines())} lines to "{path}"'


def new_chain(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> bool | str:
    """Create a chain.

    CLI Example: ``saltlite '*' iptables.new_chain filter CUSTOM``
    """
    return _changed(family, table, "-N", chain, []) or True if chain else "Error: Chain needs to be specified"


def delete_chain(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> bool | str:
    """Delete an empty chain that no rule refers to.

    CLI Example: ``saltlite '*' iptables.delete_chain filter CUSTOM``
    """
    return _changed(family, table, "-X", chain, []) or True if chain else "Error: Chain needs to be specified"


def append(
    table: str = "filter", chain: str | None = None, rule: str | None = None, family: str = "ipv4"
) -> bool | str:
    """Append a rule to a chain. False if the chain has it already.

    CLI Example: ``saltlite '*' iptables.append filter INPUT rule='-m state --state RELATED,ESTABLISHED -j ACCEPT'``
    """
    there = check(table, chain, rule, family)
    if there is not False:
        return False if there is True else there
    return not _changed(family, table, "-A", str(chain), _words(rule))


def insert(
    table: str = "filter", chain: str | None = None, position: int | None = None, rule: str | None = None,
    family: str = "ipv4",
) -> bool | str:  # fmt: skip
    """Insert a rule before the one at a position, which is counted from 1. False if the chain has it already.

    CLI Example: ``saltlite '*' iptables.insert filter INPUT position=3 rule='-p tcp --dport 22 -j ACCEPT'``
    """
    if chain and not position:
        return "Error: Position needs to be specified or use append (-A)"
    there = check(table, chain, rule, family)
    if there is not False:
        return False if there is True else there
    return _changed(family, table, "-I", str(chain), [str(_programs.number(position, "position")), *_words(rule)])


def delete(
    table: str, chain: str | None = None, position: int | None = None, rule: str | None = None, family: str = "ipv4"
) -> str:
    """Delete the rule at a position, or a rule as it is written.

    CLI Example::

        saltlite '*' iptables.delete filter INPUT position=3
        saltlite '*' iptables.delete filter INPUT rule='-p tcp --dport 22 -j ACCEPT'
    """
    if not chain:
        return "Error: Chain needs to be specified"
    if position and rule:
        return "Error: Only specify a position or a rule, not both"
    if not (position or rule):
        return "Error: Position or rule needs to be specified"
    which = [str(_programs.number(position, "position"))] if position else _words(rule)
    return _changed(family, table, "-D", chain, which)


def flush(table: str = "filter", chain: str = "", family: str = "ipv4") -> str:
    """Delete all rules of a chain, or of all chains of a table.

    CLI Example: ``saltlite '*' iptables.flush filter INPUT``
    """
    return _changed(family, table, "-F", chain, [])


def build_rule(
    table: str = "filter", chain: str | None = None, command: str | None = None, position: Any = "",
    full: bool | None = None, family: str = "ipv4", **kwargs: Any,
) -> str:  # fmt: skip
    """Return a rule made of keywords: the long options of iptables, and some of Salt's: ``proto`` ``if`` ``of``
    ``connstate`` ``dports`` ``sports`` ``match`` (a list, or separated by commas) ``jump`` ``comment``. A value that
    begins with ``!`` or ``not`` is negated. With ``full`` it is a whole command, of which ``command`` is the letter.

    CLI Example::

        saltlite '*' iptables.build_rule match=state connstate=RELATED,ESTABLISHED jump=ACCEPT
        saltlite '*' iptables.build_rule filter INPUT command=I position=3 full=True proto=tcp dport=22 jump=ACCEPT
    """
    rule = " ".join(_options({name: value for name, value in kwargs.items() if not name.startswith("__")}))
    if not full:
        return rule
    for name, value in (("Table", table), ("Chain", chain), ("Command", command)):
        if not value:
            return f"Error: {name} needs to be specified"
    flag = f"-{command}" if len(str(command)) == 1 else f"--{command}"
    words = [_program(family), "--wait", "-t", table, flag, chain, position, rule]
    return " ".join(str(word) for word in words if word not in ("", None))


_OF_STATES = ("name", "state", "save", "chain", "table")
"""Keywords that states of Salt pass on, and which are no part of a rule."""
_OF_TARGETS = {
    "add-set", "and-mark", "checksum-fill", "clamp-mss-to-pmtu", "ctevents", "ctmask", "del-set", "ecn-tcp-remove",
    "exist", "expevents", "gateway", "helper", "label", "log-ip-options", "log-level", "log-prefix",
    "log-tcp-options", "log-tcp-sequence", "log-uid", "map-set", "mask", "mss", "new", "nfmask", "nflog-group",
    "nflog-prefix", "nflog-range", "nflog-threshold", "notrack", "on-ip", "on-port", "or-mark", "persistent",
    "queue-balance", "queue-bypass", "queue-num", "random", "random-fully", "reject-with", "restore",
    "restore-mark", "save-mark", "selctx", "set-class", "set-dscp", "set-dscp-class", "set-mark", "set-mss",
    "set-tos", "set-xmark", "strip-options", "timeout", "to", "to-destination", "to-ports", "to-source",
    "tproxy-mark", "ttl-dec", "ttl-inc", "ttl-set", "xor-mark", "zone",
}  # fmt: skip
"""Options of targets: they follow the jump."""


def _options(given: dict[str, Any]) -> list[str]:
    """The options of a rule in the order of iptables: protocol, matches and their options, target and its options."""
    rest = {str(name): value for name, value in given.items() if name not in _OF_STATES}
    for name, other in (("target", "jump"), ("j", "jump"), ("proto", "protocol")):
        if name in rest:
            rest[other] = rest.pop(name)
    found = [
        _option(flag, rest.pop(name)) for name, flag in (("if", "-i"), ("of", "-o"), ("protocol", "-p")) if name in rest
    ]
    matches = rest.pop("match", [])
    modules = [one.strip() for one in (matches.split(",") if isinstance(matches, str) else matches)]
    needed = (("connstate", "state"), ("dports", "multiport"), ("sports", "multiport"), ("comment", "comment"))
    modules += [module for name, module in needed if name in rest]
    found += [f"-m {module}" for module in dict.fromkeys(modules)]
    if "connstate" in rest:
        found.append(_option("--state", rest.pop("connstate")))
    for name in ("dports", "sports"):
        if isinstance(rest.get(name), list | tuple):
            rest[name] = ",".join(map(str, rest[name]))
    jump = rest.pop("jump", None)
    last = {name: rest.pop(name) for name in list(rest) if name in _OF_TARGETS}
    found += [_option(f"-{name}" if len(name) == 1 else f"--{name}", value) for name, value in rest.items()]
    found += [] if jump is None else [_option("--jump", jump)]
    return found + [_option(f"--{name}", value) for name, value in last.items()]


def _option(flag: str, value: Any) -> str:
    text = "" if value is None else str(value)
    plain = re.sub(r"^(?:!|not\b)\s*", "", text)
    negation = "! " if plain != text else ""
    if not plain:
        return negation + flag
    quoted = f'"{plain}"' if re.search(r"\s", plain) or flag == "--comment" else plain
    return f"{negation}{flag} {quoted}"


def _words(rule: Any) -> list[str]:
    """The words of a rule. Raises SaltInvocationError for what is no part of one."""
    try:
        words = shlex.split(str(rule))
    except ValueError as error:
        raise SaltInvocationError(f"The rule {rule!r:.80} cannot be split into words: {error}.") from error
    # iptables itself refuses a second command; these options would select another table, or load a module.
    for word in words:
        if "\0" in word or "\n" in word or word.startswith(("-t", "--table", "--modprobe", "-M")):
            raise SaltInvocationError(f"{word!r:.80} is not part of a rule.")
    return words


def _argv(family: str, table: Any, command: str, chain: Any, words: list[str]) -> list[str]:
    chains = [_name(chain, "a chain")] if chain else []
    return [_program(family), "--wait", "-t", _name(table, "a table"), command, *chains, *words]


def _changed(family: str, table: Any, command: str, chain: Any, words: list[str]) -> str:
    """Run one command; return what it prints, which is nothing."""
    return _programs.output(_argv(family, table, command, chain, words)).rstrip("\n")


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
