"""The bundle of this version of saltlite, and the installers that the API offers to machines with a join token.

The bundle is a tar of wheels, of the deploy script and of the minion's unit, made from what is installed here. An offer
is one file a token, `<token id>.json`, with the installer's text; every user may read it, for it has no secret.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import time
from importlib import resources
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from saltlite import __version__
from saltlite.cloud.deploy import upload
from saltlite.cloud.deploy.settings import BUILT_IN
from saltlite.config.api import ApiConfig
from saltlite.errors import SaltliteError, UsageError
from saltlite.model.keys import JoinToken
from saltlite.platform.privileges import read_secret, require_trusted
from saltlite.platform.tls_files import OWN_FILE

INSTALLER = "install.sh"
WHEELS = "wheels"
"""The folder beside the offers with wheels for other kinds of minions."""
HOME, CONFIG_DIR = "/opt/saltlite", "/etc/saltlite"
"""Where the installer puts a minion."""
NOTHING_CAME = (
    "saltlite: what came is not the installer that was offered: nothing was run. If its join token has expired or was "
    "revoked, make a new one on the master"
)
"""What the command of wget says; wget itself prints no answer that is an error."""
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:]{2,45}\]", re.ASCII)


def bundle_of(wheel_dir: str = "") -> bytes:
    """The bundle, with the wheels of `wheel_dir` if there is such a folder. Raises SaltliteError."""
    packed = upload.Upload()
    wheels = {wheel.name: wheel for wheel in (upload.own_wheel(), *upload.installer(), *(upload.requirements() or ()))}
    if wheel_dir and os.path.isdir(wheel_dir):
        # Minions install what is in the bundle, so only root and this user may put a wheel there.
        wheel_files = [os.path.join(wheel_dir, name) for name in os.listdir(wheel_dir)]
        require_trusted([os.path.dirname(wheel_dir), wheel_dir, *wheel_files])
        wheels |= {wheel.name: wheel for wheel in upload.travelling(upload.this_kind(), wheel_dir)[0]}
    elif upload.requirements() is None:
        raise SaltliteError(
            "what saltlite needs was not installed from wheels here, so it cannot travel: install saltlite with pip or "
            "from a package"
        )
    for wheel in wheels.values():
        packed.add(f"wheels/{wheel.name}", wheel.data)
    packed.add(BUILT_IN, upload.text_of(""), upload.PROGRAM)
    packed.add("unit", upload.unit_text(f"{HOME}/bin/saltlite-minion", CONFIG_DIR))
    return packed.stream()


class Commands(NamedTuple):
    """The same installation, by one client or the other. Both have the token in the environment of the last shell."""

    curl: str
    """It believes no server but the one with the key of the API."""
    wget: str
    """Any wget will do, for BusyBox's can pin no key: what comes is compared with the installer before it is run."""


def offer(api: ApiConfig, token: JoinToken, expires_at: float, *, host: str, master_port: int) -> Commands:
    """Offer the installer for a token until `expires_at` (wall-clock seconds since 1970); the new minion's command.

    `host` is the name or address of this machine, as minions see it. Raises SaltliteError.
    """
    check(api, host)
    pin = pin_of(api)
    url = f"https://{host}:{api.port}/install/{token.token_id}"
    try:
        os.makedirs(api.install_dir, mode=0o755, exist_ok=True)
        _remove_expired(api.install_dir, time.time())
        bundle = bundle_of(os.path.join(api.install_dir, WHEELS))
        digest = hashlib.sha256(bundle).hexdigest()
        name = f"bundle-{digest[:16]}.tar"
        _write(os.path.join(api.install_dir, name), bundle)
        settings = {
            "URL": url,
            "PIN": pin,
            "SHA256": digest,
            "BYTES": str(len(bundle)),
            "TOKEN_ID": token.token_id,
            "VERSION": __version__,
            "MASTER": f"{host}:{master_port}",
        }
        script = "#!/bin/sh\n# Makes this machine a minion.\nset -eu\n" + upload.assignments(settings)
        script += resources.files(__package__).joinpath(INSTALLER).read_text(encoding="utf-8")
        document = {"expires_at": expires_at, "bundle": name, "script": script}
        _write(os.path.join(api.install_dir, f"{token.token_id}.json"), json.dumps(document).encode())
    except OSError as error:
        raise SaltliteError(
            f"the installer cannot be written to {api.install_dir} ({error.strerror}): run this as root on the machine "
            "of the API"
        ) from error
    digest = hashlib.sha256(script.encode("ascii")).hexdigest()
    run = f"JOIN_TOKEN={token.text()} sh"
    return Commands(
        curl=f"curl -sSk --connect-timeout 10 --pinnedpubkey {pin} {url} | {run}",
        wget=f"s=$(wget -qO- --no-check-certificate {url} | head -c {len(script)}) && "
        f"""[ "$(printf '%s\\n' "$s" | sha256sum)" = '{digest}  -' ] || """
        f"""s='echo "{NOTHING_CAME}" >&2; exit 1'; printf '%s\\n' "$s" | {run}""",
    )


def withdraw(folder: str, token_id: str) -> None:
    """Offer the installer for a token no more, if it was offered. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, f"{token_id}.json"))


def check(api: ApiConfig, host: str) -> None:
    """Raises SaltliteError if this API can offer no installer under this name or address."""
    if api.disable_ssl:
        raise UsageError("the API speaks HTTP without TLS here (disable_ssl), so it offers no installer")
    if not _HOST.fullmatch(host):
        raise UsageError(f"{host[:80]!r} is not the name or the address of a host")
    pin_of(api)


def pin_of(api: ApiConfig) -> str:
    """The SHA-256 of the public key in the API's certificate, as curl and wget take it. Raises SaltliteError."""
    path = api.ssl_crt or os.path.join(api.pki_dir, OWN_FILE)
    raw = read_secret(path) if not api.ssl_crt else _read(path)
    if raw is None:
        raise SaltliteError(f"there is no {path} yet: start saltlite-api, which serves the installer")
    try:
        certificate = x509.load_pem_x509_certificate(raw[raw.index(b"-----BEGIN CERTIFICATE") :])
    except ValueError as error:
        raise SaltliteError(f"the certificate {path} cannot be used: {error}") from error
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return "sha256//" + base64.b64encode(hashlib.sha256(key).digest()).decode()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise SaltliteError(f"the certificate {path} cannot be read: {error.strerror}") from error


def _remove_expired(folder: str, now: float) -> None:
    """Remove the offers that have expired, and the bundles that none of the others names."""
    kept = set()
    for name in os.listdir(folder):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                document = json.load(file)
            if document["expires_at"] > now:
                kept.add(document["bundle"])
            else:
                os.unlink(os.path.join(folder, name))
    for name in os.listdir(folder):
        if name.startswith("bundle-") and name not in kept:
            os.unlink(os.path.join(folder, name))


def _write(path: str, data: bytes) -> None:
    """Write a file that every user may read, whole or not at all."""
    temporary = f"{path}.new"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with open(fd, "wb") as file:
        os.fchmod(fd, 0o644)
        file.write(data)
        os.fsync(fd)
    os.rename(temporary, path)
