"""Looking at the master of this machine: its configuration, its folders, its socket, its port."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from saltlite.cli.diagnosis import look
from saltlite.cli.diagnosis.evidence import FleetSeen, MasterEvidence
from saltlite.client.local import LocalClient
from saltlite.config.load import load_master
from saltlite.config.master import MasterConfig
from saltlite.config.paths import master_socket
from saltlite.errors import ConfigError, LinkError, RemoteProtocolError, SaltliteError, StartupError
from saltlite.master.processes.identity import fleet_files
from saltlite.model.keys import KeyState, fingerprint
from saltlite.platform.master_probe import MasterProof, probe_master
from saltlite.wire.certificate import MasterCertificate

PROBE_S = 5.0
"""How long the port may take to answer."""

KEY_FILES = ("fleet.key", "fleet.chain", "master.key", "job.key", "master.cert")

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "*": "127.0.0.1"}  # noqa: S104 - nothing listens here


class _Said(NamedTuple):
    """What the running master answered."""

    status: dict[str, Any] | None = None
    keys: list[dict[str, Any]] | None = None
    until: int | None = None
    silence: str = ""


def look_at_master(config_dir: str) -> MasterEvidence:
    """Everything that the checks of a master want to know. Raises nothing that could have been foreseen."""
    config, problems = _config(config_dir)
    if config is None:
        around = look.around("master", config_dir, None, {}, problems)
        return MasterEvidence(around, None, None, None, None, None, "", "", None, "", ())
    around = look.around("master", config_dir, config, _paths(config), problems)
    said = _ask(master_socket(config.sock_dir))
    address = own_address(config)
    proof, probe_problem = _probe(address)
    since, until = _certificate(os.path.join(config.pki_dir, "master.cert"))
    return MasterEvidence(
        around=around,
        config=config,
        status=said.status,
        keys=said.keys,
        certificate_from=since,
        certificate_until=said.until if until is None else until,
        silence=said.silence,
        address=address,
        proof=proof,
        probe_problem=probe_problem,
        processes=look.children(around.pid) if around.pid is not None else [],
        link_uid=look.uid_of(config.link_user),
        fleet=_fleet(config.pki_dir, sum(row["state"] == KeyState.ACCEPTED for row in said.keys or ())),
    )


def _config(config_dir: str) -> tuple[MasterConfig | None, list[str]]:
    try:
        return load_master(config_dir).config, []
    except ConfigError as error:
        return None, str(error).split("\n")


def _fleet(pki_dir: str, accepted: int) -> FleetSeen | None:
    """What the files say of the fleet; `accepted` is how many minions the running master has let in."""
    try:
        found = fleet_files(pki_dir, accepted)
    except StartupError as error:
        return FleetSeen("", str(error)) if os.access(pki_dir, os.R_OK | os.X_OK) else None
    fleet = fingerprint(found.public) if found.public is not None else ""
    return FleetSeen(fleet, found.problem(), found.behind(), len(found.chain))


def _paths(config: MasterConfig) -> dict[str, str]:
    files = {f"pki_dir/{name}": os.path.join(config.pki_dir, name) for name in KEY_FILES}
    return {
        "pki_dir": config.pki_dir,
        **files,
        "pki_dir/fleet.id": os.path.join(config.pki_dir, "fleet.id"),
        "data_dir": config.data_dir,
        "data_dir/store.sqlite": os.path.join(config.data_dir, "store.sqlite"),
        "sock_dir": config.sock_dir,
        "sock_dir/master.ipc": master_socket(config.sock_dir),
        "auth_file": config.auth_file,
        **({"sharedsecret_file": config.sharedsecret_file} if config.sharedsecret_file else {}),
    }


def _ask(socket: str) -> _Said:
    try:
        with LocalClient(socket) as client:
            return _Said(
                status=client.call("status"),
                keys=client.call("key_list")["keys"],
                until=client.call("key_finger")["master"]["not_after"],
            )
    except SaltliteError as error:
        return _Said(silence=str(error))


def own_address(config: MasterConfig) -> str:
    """`host:port` at which this machine reaches its own master."""
    host = _ANY.get(config.interface, config.interface)
    return f"[{host}]:{config.port}" if ":" in host else f"{host}:{config.port}"


def _probe(address: str) -> tuple[MasterProof | None, str]:
    try:
        return probe_master(address, PROBE_S), ""
    except (LinkError, RemoteProtocolError) as error:
        return None, str(error)


def _certificate(where: str) -> tuple[int | None, int | None]:
    """From when and until when the certificate on the disk is good; Nones where it cannot be read."""
    try:
        with open(where, "rb") as file:
            certificate = MasterCertificate.decode(file.read(4096))
    except (OSError, RemoteProtocolError):
        return None, None
    return certificate.not_before, certificate.not_after
