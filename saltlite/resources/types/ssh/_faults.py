"""What ssh says when it does not reach a host, in sentences that say what to do."""

from __future__ import annotations

import re
from collections.abc import Callable

from saltlite.errors import CommandExecutionError
from saltlite.resources.types.ssh._host import Host


class NotReachedError(CommandExecutionError):
    """A host did not let ssh in, or let go of it. `denied`: what was offered is not taken there.

    `passing`: a host that is being made or restarted looks like this for a while.
    """

    def __init__(self, text: str, *, denied: bool = False, passing: bool = False) -> None:
        super().__init__(text)
        self.denied = denied
        self.passing = passing


_DENIED = ("permission denied:",)
_PASSING = ("connection refused:", "name not found:", "no route:", "timed out after", "connection closed:")

_NOISE = re.compile(r"ControlSocket |mux_client|.*disabling multiplexing|Shared connection to |@+$|\s*$")
_METHODS = re.compile(r"Permission denied \(([^)]*)\)")
_OFFERED = re.compile(r"no matching (.+?) found\. Their offer: (\S+)")


def _denied(host: Host, log: str) -> str:
    found = _METHODS.search(log)
    takes = f"; it takes {found[1].replace(',', ', ')}" if found else ""
    key = next((line for line in log.splitlines() if "Load key" in line or "load key" in line), "")
    return f"permission denied: {host.place} refused what was offered{takes}{'. ' + key.strip() if key else ''}"


def _unknown_key(host: Host, _log: str) -> str:
    file = host.known_hosts_file or "known_hosts"
    return (
        f"host key not known: {host.place} has no key in {file}. Compare its fingerprint and add it, "
        "or set accept_new_host_keys to take the first one that it shows"
    )


def _changed_key(host: Host, _log: str) -> str:
    file = host.known_hosts_file or "known_hosts"
    return (
        f"host key changed: {host.place} shows another key than the one in {file}. It may be another machine; "
        f"if it is meant to be, remove the old key with: ssh-keygen -R '[{host.host}]:{host.port}' -f {file}"
    )


def _offer(host: Host, log: str) -> str:
    found = _OFFERED.search(log)
    what = f"{found[1]}, it offers {found[2]}" if found else "algorithms"
    return f"no agreement with {host.place} on {what}: name one that both know in ssh_options"


_CASES: tuple[tuple[str, str | Callable[[Host, str], str]], ...] = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", _changed_key),
    (r"Host key verification failed|No \S+ host key is known", _unknown_key),
    (r"Permission denied \(", _denied),
    (r"Too many authentication failures", "permission denied: {place} ends after too many keys; set identities_only"),
    (r"Connection refused", "connection refused: nothing listens at {place}"),
    (r"Could not resolve hostname", "name not found: {host} has no address"),
    (r"No route to host|Network is unreachable", "no route: {place} cannot be reached from here"),
    (r"Connection timed out|Operation timed out|timed out during", "timed out after {timeout:g} s: {place} is silent"),
    (r"Timeout, server", "connection lost: {place} stopped answering"),
    (r"Unable to negotiate", _offer),
    (r"Connection closed|Connection reset|kex_exchange_identification", "connection closed: {place} hung up"),
    (r"onfiguration option|command-line", "ssh does not know one of the ssh_options: {last}"),
    (r"cannot bind to path|ControlPath", "no room for the connection's socket: {last}"),
)
_PATTERNS = [(re.compile(pattern), sentence) for pattern, sentence in _CASES]


def fault_of(host: Host, log: str) -> NotReachedError:
    """As an error: why a host was not reached, from what ssh wrote to its log."""
    text = sentence_of(host, log)
    why = text.removeprefix(f"{host.resource_id}: ")
    return NotReachedError(text, denied=why.startswith(_DENIED), passing=why.startswith(_PASSING))


def sentence_of(host: Host, log: str) -> str:
    """Why a host was not reached, from what ssh wrote to its log; the resource is named first."""
    lines = [line.strip() for line in log.splitlines() if not _NOISE.match(line)]
    said = "\n".join(lines)
    for pattern, sentence in _PATTERNS:
        if pattern.search(said):
            if not isinstance(sentence, str):
                return f"{host.resource_id}: {sentence(host, said)}."
            text = sentence.format(place=host.place, host=host.host, timeout=host.timeout, last=lines[-1])
            return f"{host.resource_id}: {text}."
    if lines:
        return f"{host.resource_id}: ssh to {host.place} failed: {lines[-1][:300]}"
    return f"{host.resource_id}: connection lost: {host.place} ended it while the command ran."
