"""Looking at the minion of this machine: its configuration, its folders, its masters, its modules."""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

from saltlite.cli.configs import missing_folders
from saltlite.cli.diagnosis import look
from saltlite.cli.diagnosis.evidence import MasterSeen, MinionEvidence
from saltlite.cli.diagnosis.modules import try_modules
from saltlite.config.load import load_minion
from saltlite.config.minion import MinionConfig
from saltlite.config.values import parse_address
from saltlite.errors import ConfigError, JournalError, LinkError, RemoteProtocolError, StartupError, UsageError
from saltlite.minion.jobs import journal_format, spool
from saltlite.minion.processes.identity import join_token, pinned_fleet, read_pin
from saltlite.minion.processes.status_file import Status, read_status
from saltlite.model.keys import parse_fingerprint
from saltlite.platform.master_probe import MasterProof, probe_master
from saltlite.platform.privileges import read_secret

CONNECT_S = 5.0
"""How long a master may take to accept a connection, and again to prove itself."""

KEY_FILES = ("minion.key", "fleet.pin", "minion_id")


class _Spool(NamedTuple):
    """What lies in the spool. `results` is None when it cannot be seen."""

    results: int | None = None
    size: int = 0
    damaged: tuple[str, ...] = ()


def look_at_minion(config_dir: str) -> MinionEvidence:
    """Everything that the checks of a minion want to know. Raises nothing that could have been foreseen."""
    config, problems = _config(config_dir)
    around = look.around("minion", config_dir, config, {} if config is None else _paths(config), problems)
    if config is None:
        return MinionEvidence(around, None, "", "", "", (), "", "", 0.0, "", 0, "", None, None, 0, (), None)
    pinned, source = _pinned(config)
    status = read_status(config.data_dir) or Status("", "", 0.0)
    journal_problem, jobs = _journal(os.path.join(config.data_dir, "journal"))
    kept = _spool(os.path.join(config.data_dir, "spool"))
    # Before ZeroMQ, whose threads no new process should be made beside.
    modules = try_modules(config_dir)
    return MinionEvidence(
        around=around,
        config=config,
        id=_id(config),
        pinned=pinned,
        pin_source=source,
        masters=[_master(*parse_address(text, config.port), pinned) for text in config.master],
        phase=status.phase,
        reason=status.reason,
        phase_at=status.at,
        resources_problem=status.resources,
        refused_answers=status.refused,
        types=status.types,
        looked_at=status.looked_at,
        journal_problem=journal_problem,
        journal_jobs=jobs,
        spool_results=kept.results,
        spool_bytes=kept.size,
        spool_damaged=kept.damaged,
        modules=modules,
    )


def _config(config_dir: str) -> tuple[MinionConfig | None, list[str]]:
    try:
        loaded = load_minion(config_dir)
        return loaded.config, missing_folders(loaded)
    except ConfigError as error:
        return None, str(error).split("\n")


def _paths(config: MinionConfig) -> dict[str, str]:
    files = {f"pki_dir/{name}": os.path.join(config.pki_dir, name) for name in KEY_FILES}
    token = {"join_token_file": config.join_token_file} if config.join_token_file else {}
    return {
        "pki_dir": config.pki_dir,
        **files,
        **token,
        "data_dir": config.data_dir,
        "data_dir/journal": os.path.join(config.data_dir, "journal"),
        "data_dir/spool": os.path.join(config.data_dir, "spool"),
    }


def _id(config: MinionConfig) -> str:
    """The id that the minion has, or will take when it is started."""
    if config.id:
        return config.id
    try:
        kept = read_secret(os.path.join(config.pki_dir, "minion_id"))
    except StartupError:
        kept = None  # the check of the modes says why
    return kept.decode(errors="replace").strip() if kept is not None else socket.getfqdn().lower()


def _pinned(config: MinionConfig) -> tuple[str, str]:
    """The fingerprint of the fleet that this minion belongs to, and where that is written; as the minion does."""
    where = os.path.join(config.pki_dir, "fleet.pin")
    try:
        kept, former = read_pin(where)
        pinned = pinned_fleet(config, kept, former)
        if pinned is not None:
            return pinned, where if pinned == kept else "the option 'fleet'"
        token = join_token(config)
    except (StartupError, UsageError):
        return "", ""
    return (token.fleet, "the join token") if token is not None else ("", "")


def _master(host: str, port: int, pinned: str) -> MasterSeen:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return MasterSeen(address, (), error.strerror or str(error), "", None, "")
    resolved = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError as error:
        return MasterSeen(address, resolved, "", error.strerror or str(error), None, "")
    try:
        return MasterSeen(address, resolved, "", "", _proof(address, pinned), "")
    except (LinkError, RemoteProtocolError) as error:
        return MasterSeen(address, resolved, "", "", None, str(error))


def _proof(address: str, pinned: str) -> MasterProof:
    """What the master proves: of the pinned fleet, or one that took its place; else of its own."""
    proof = probe_master(address, CONNECT_S)
    if not pinned or proof.fleet == pinned:
        return proof
    try:
        return probe_master(address, CONNECT_S, parse_fingerprint(pinned))
    except (LinkError, RemoteProtocolError):
        return proof


def _journal(where: str) -> tuple[str, int | None]:
    """What is wrong with the journal, and how many jobs it remembers; None when it is not there or hidden."""
    try:
        with open(where, "rb") as file:
            return "", len(journal_format.replay(file.read(), where).entries)
    except (FileNotFoundError, PermissionError):
        return "", None
    except (OSError, JournalError) as error:
        return str(error), None


def _spool(where: str) -> _Spool:
    try:
        with os.scandir(where) as entries:
            files = [(entry.name, entry.stat(follow_symlinks=False).st_size) for entry in entries]
    except OSError:
        return _Spool()
    sizes = [size for name, size in files if name.endswith(spool.RESULT)]
    damaged = tuple(sorted(os.path.join(where, name) for name, _ in files if name.endswith(spool.DAMAGED)))
    return _Spool(len(sizes), sum(sizes), damaged)
