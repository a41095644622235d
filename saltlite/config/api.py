"""The options of the HTTP API."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any

from saltlite.config.options import Choice, Duration, FilePath, FlagKind, IntegerKind, TextKind, Texts, option
from saltlite.config.paths import DEFAULT_ROOT_DIR, DEFAULT_SOCK_DIR
from saltlite.config.values import LOG_LEVELS
from saltlite.errors import UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.masters import PORT_MAX

CLIENTS = ("local", "local_async", "local_batch", "local_subset", "runner", "runner_async", "wheel", "wheel_async")
"""The clients that there are; netapi_enable_clients has those that may be used."""
SALTGUI = "saltgui_"
"""What the names of SaltGUI's settings begin with."""
OWN_PATHS = (
    "console", "docs", "events", "fleet", "hook", "install", "jobs", "keys", "login", "logout", "metrics", "minions",
    "openapi.json", "run", "stats", "token", "ws",
)  # fmt: skip
"""The first words of the API's own paths."""
_URL_PATH = re.compile(r"(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)+", re.ASCII)


def check_url_path(text: str) -> str:
    """The path of a web page. Raises UsageError if it is none, or one of the API."""
    path = "/" + text.strip("/")
    if not _URL_PATH.fullmatch(path):
        raise UsageError(f"{text[:80]!r} is not a path of letters, digits, hyphens and dots, such as /app")
    if path.split("/")[1] in OWN_PATHS:
        raise UsageError(f"{path} is a path of the API itself; choose another one")
    return path


@dataclass(frozen=True, slots=True)
class ApiConfig:
    """The configuration of the API. Durations are seconds; paths are final (see `options.assemble`)."""

    root_dir: str = option(
        DEFAULT_ROOT_DIR,
        "Moves every path that is not absolute in this file, the defaults included, so that a complete installation "
        "fits below one folder.",
        FilePath(absolute=True),
    )
    interface: str = option(
        "0.0.0.0",  # noqa: S104 - callers are elsewhere; every request is authorised by the master
        "The address to listen on: an IPv4 or IPv6 address of this machine.",
        TextKind(required=True),
    )
    port: int = option(8000, "The TCP port of the API.", IntegerKind(1, PORT_MAX))
    user: str = option(
        "saltlite-api",
        "The user that the API becomes when it is started as root; it must not be that of the master. Started by "
        "another user, the API ignores this option.",
        TextKind(required=True),
    )
    sock_dir: str = option(
        DEFAULT_SOCK_DIR,
        "The folder of the master's Unix socket, as in the master's configuration.",
        FilePath(),
    )
    pki_dir: str = option(
        "/etc/saltlite/pki/api",
        "The folder of the certificate that the API creates when ssl_crt is not set.",
        FilePath(),
    )
    ssl_crt: str = option(
        "",
        "The file of the certificate, in PEM, followed by those of its issuers. '' means one that the API creates on "
        "its first start, and whose fingerprint it prints on every start.",
        FilePath(may_be_empty=True),
    )
    ssl_key: str = option(
        "",
        "The file of the certificate's private key, in PEM; '' when it is in the file of ssl_crt.",
        FilePath(may_be_empty=True),
    )
    install_dir: str = option(
        "/var/lib/saltlite/install",
        "The folder of the installers that `saltlite key token create --install` offers to new minions at /install. "
        "Wheels in its folder `wheels` travel along, for minions with another Python or processor than this machine.",
        FilePath(),
    )
    disable_ssl: bool = option(
        False,
        "Whether the API speaks HTTP without TLS. Use it only behind a proxy on this machine, because requests "
        "contain passwords and tokens.",
        FlagKind(),
    )
    netapi_enable_clients: list[str] = option(
        list(CLIENTS),
        "The clients that requests may name. The master decides what each caller may do with them.",
        Texts(),
    )
    max_request_body_size: int = option(
        1_048_576,
        "The largest body of a request.",
        IntegerKind(1024, 32 * 1024 * 1024),
        unit="bytes",
    )
    requests_per_address: int = option(
        300,
        "How many requests one address may make; further ones are answered with 429. Bursts of ten seconds' worth are "
        "allowed.",
        IntegerKind(1, 100_000),
        unit="requests per second",
    )
    logins_per_address: int = option(
        20,
        "How many logins one address may try; further ones are answered with 429.",
        IntegerKind(1, 100_000),
        unit="logins per minute",
    )
    connections_max: int = option(
        4096,
        "How many connections may be open, including those that watch events.",
        IntegerKind(8, 65_536),
        unit="connections",
    )
    connections_per_address: int = option(
        2048,
        "How many connections one address may have open.",
        IntegerKind(1, 65_536),
        unit="connections",
    )
    request_timeout: float = option(
        30.0,
        "The time limit for receiving a request, for an idle connection, and for a client to read an answer.",
        Duration(1.0, 3600.0),
    )
    runner_timeout: float = option(
        300.0,
        "How long a runner may take; after that its process is killed.",
        Duration(1.0, 86_400.0),
    )
    cors_origins: list[str] = option(
        [],
        "Origins of web pages that may use the API in browsers, such as https://ops.example.com; none by default.",
        Texts(),
    )
    console: bool = option(
        True,
        "Whether browsers get the console at /: pages that show the fleet. What a user may see and do there is what "
        "external_auth of the master grants.",
        FlagKind(),
    )
    app: str = option(
        "",
        "The HTML file of a web page, such as that of SaltGUI (index.html), which browsers then get at / and at "
        "app_path; the console is then at /console. SaltGUI's settings, such as saltgui_templates, are options of this "
        "file. '' means none.",
        FilePath(may_be_empty=True),
    )
    app_path: str = option("/app", "The path at which `app` is served.", TextKind(check_url_path, required=True))
    static: str = option(
        "",
        "The folder with the files that `app` loads. Those that every user of the machine may read are served without "
        "a login; symbolic links and names that begin with a dot are not. '' means none.",
        FilePath(may_be_empty=True),
    )
    static_path: str = option(
        "/static", "The path below which `static` is served.", TextKind(check_url_path, required=True)
    )
    webhook_disable_auth: bool = option(
        False,
        "Whether POST /hook accepts requests without a token. Their events are created by the API's own user, which "
        "needs the paths in publisher_acl of the master: {saltlite-api: [{'@hook': [deploy, 'ci/*']}]}.",
        FlagKind(),
    )
    webhooks_per_second: int = option(
        20,
        "How many hooks are accepted from all callers together; further ones are answered with 429. Each is an event "
        "that is stored.",
        IntegerKind(1, 10_000),
        unit="hooks per second",
    )
    stats_disable_auth: bool = option(
        False,
        "Whether GET /stats and GET /metrics answer requests without a token. /metrics then has figures of the fleet "
        "if publisher_acl of the master grants them to the API's own user: "
        "{saltlite-api: [{'@runner': [manage.status]}]}.",
        FlagKind(),
    )
    log_level: str = option("warning", "The least severe messages that are logged.", Choice(LOG_LEVELS))
    log_format: str = option(
        "text",
        "How lines of log_file, and of standard error outside of systemd, are written: text, or json with one object a "
        "line. The journal gets fields in any case.",
        Choice(("text", "json")),
    )
    log_file: str = option(
        "/var/log/saltlite/api",
        "The file that log messages are appended to; '' logs to standard error only.",
        FilePath(may_be_empty=True),
    )
    saltgui: dict[str, Any] = field(default_factory=dict)
    """The settings of SaltGUI: every option whose name begins with SALTGUI."""
