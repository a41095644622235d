"""The settings of a deployment, checked before it starts, and the configuration of the new minion.

Settings, in addition to those of the provider; times are seconds, or text such as 5m. Login:

    ssh_host               name or address; drivers set it
    ssh_port               22
    ssh_username           root; of several, the first one whose login works
    key_filename           file of a private key; also `ssh_key_file`, `ssh_keyfile`, `private_key`
    key_passphrase         its passphrase
    password               password of that user; also `ssh_password`. A provider's own `password` is not offered
    ssh_host_key           the public host key, or a list of them, as in `ssh-ed25519 AAAA…`; without it the first key
                           that the machine shows is pinned
    ssh_known_hosts        file of known host keys; by default a new one in the cache folder. New keys are added; it is
                           used only without ssh_host_key
    ssh_agent              false; offer the keys of the agent behind SSH_AUTH_SOCK
    ssh_options            list of options of ssh_config(5), as in ProxyJump=bastion
    ssh_timeout            300; the time limit of the login, in seconds
    wait_for_passwd_maxtries  10; denied logins until then: new machines get keys and passwords late
    sudo, sudo_password    become root by sudo, with a password if it asks for one

Installation:

    install                wheel: saltlite is uploaded; index: pip on the machine downloads it; none: it is installed
    install_dir            /opt/saltlite; the virtualenv. One with this version of saltlite is used unchanged
    install_index          address of the package index for pip; may contain a name and a password
    wheel_dir              folder on this host with wheels to upload, for machines of another platform
    python                 the interpreter on the machine; by default the newest one
    minion, grains         options of the minion's configuration, and its grains
    minion_dir             /etc/saltlite; the folder of that configuration
    start_timeout          30; seconds in which the minion must reach its master
    replace_minion         false; replace a running minion of an earlier deployment, as on a machine from an image of
                           another one. A minion that does not run is always replaced

Custom steps, in this order:

    preflight_cmds         commands before anything else
    file_map               {file or folder on this host: absolute path on the machine}
    script                 a script instead of the built-in one: a path, or a name in cloud.deploy.d or in the folders
                           of the option deploy_scripts_search_path, or the text of a script, which begins with #! or
                           has several lines. It is called with `-c FOLDER` and script_args, and finds `minion`,
                           `grains` and `join_token` in that folder
    script_args            text that a shell reads as more arguments
    script_env             map of environment variables
    inline_script          commands after it; also with `deploy: false`
    keep_tmp               false; leave the upload on the machine
    tmp_dir                /tmp; the folder of the upload on the machine. It is made if it is missing, and then removed
                           with the upload. Each folder of the path must belong to root or to the user of the
                           deployment, and no other user may write to it unless it is sticky
    deploy_timeout         900; the time limit of each step, in seconds

Windows, with Salt's names. There is no minion for Windows, so such a deployment is refused:

    win_installer          file of an installer on this host; it or win_username marks a Windows machine
    win_username, win_password  the login; Administrator
    use_winrm              true; WinRM (`winrm_port`, 5986; `winrm_use_ssl`, `winrm_verify_ssl`, true), else SMB
                           (`smb_port`, 445)
    win_deploy_auth_retries, win_deploy_auth_retry_delay  10 logins, 1 second apart
"""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from saltlite.cloud.api.config import lines_of, read_back
from saltlite.cloud.api.exceptions import SaltCloudConfigError
from saltlite.cloud.api.port import capabilities_of
from saltlite.cloud.rules.catalogue import minion_settings
from saltlite.config.values import parse_duration
from saltlite.errors import ConfigError, UsageError
from saltlite.model.ids import parse_minion_id
from saltlite.resources.types.ssh._client import Host, problem_of

# -- one setting at a time


class Readings:
    """Typed access to the settings of a machine; every method raises SaltCloudConfigError, without secret values."""

    def __init__(self, vm_: Mapping[str, Any]) -> None:
        """`vm_` has the effective settings."""
        self._vm = vm_
        self.name = str(vm_.get("name") or "")
        if not self.name:
            raise SaltCloudConfigError("the machine has no name: the driver passed no `name`")

    def first(self, *names: str) -> tuple[str, Any]:
        """The first of these settings that is set, with its name; the last name and None if none is."""
        return next(
            ((name, self._vm[name]) for name in names if self._vm.get(name) not in (None, "")), (names[-1], None)
        )

    def text(self, *names: str, default: str = "") -> str:
        """Text, which may be written as a number."""
        name, value = self.first(*names)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.wrong(name, "must be text")
        return str(value)

    def path(self, name: str, default: str) -> str:
        """An absolute path on the machine, without a line break."""
        value = self.text(name, default=default)
        if not value.startswith("/") or not value.isprintable():
            raise self.wrong(name, f"is {value!r}; it must be an absolute path on the machine")
        return value.rstrip("/") or "/"

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false."""
        value = default if self._vm.get(name) is None else self._vm[name]
        if not isinstance(value, bool):
            raise self.wrong(name, f"is {value!r}; it must be true or false")
        return value

    def seconds(self, name: str, default: float, most: float = 86_400.0) -> float:
        """A time: a number of seconds, or text such as `5m`."""
        value = default if self._vm.get(name) is None else self._vm[name]
        try:
            found = parse_duration(str(value))
        except UsageError:
            found = 0.0
        if isinstance(value, bool) or not 0 < found <= most:
            raise self.wrong(name, f"is {value!r}; it must be a time up to {most:g} s, as in 30, 30s or 5m")
        return found

    def whole(self, name: str, default: int, most: int) -> int:
        """A whole number from 1 to `most`."""
        value = default if self._vm.get(name) is None else self._vm[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self.wrong(name, f"is {value!r}; it must be a whole number from 1 to {most}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Texts: a list of them, or one."""
        value = self._vm.get(name)
        if value in (None, "", []):
            return ()
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each for each in value):
            raise self.wrong(name, "must be text, or a list of texts")
        return tuple(value)

    def mapping(self, name: str) -> dict[str, Any]:
        """A map; without the setting, an empty one."""
        value = {} if self._vm.get(name) in (None, "") else self._vm[name]
        if not isinstance(value, Mapping):
            raise self.wrong(name, "must be a map")
        return {str(key): each for key, each in value.items()}

    def checked(self, field: str, name: str, value: Any) -> Any:
        """A value for this field of an ssh host, checked under the name of its setting."""
        problem = problem_of(field, value)
        if problem:
            raise self.wrong(name, problem)
        return value

    def wrong(self, name: str, problem: str) -> SaltCloudConfigError:
        """The error for one setting."""
        where = self._vm.get("profile")
        return SaltCloudConfigError(
            f"{self.name}: the setting {name} {problem}" + (f" (profile {where})" if where else "")
        )


FLAGS = (
    "deploy", "destroy_on_failure", "keep_tmp", "remove_config_on_destroy", "replace_minion", "ssh_agent", "sudo",
    "use_winrm", "winrm_use_ssl", "winrm_verify_ssl",
)  # fmt: skip
"""Settings that are true or false."""
NUMBERS = ("smb_port", "ssh_port", "wait_for_passwd_maxtries", "win_deploy_auth_retries", "winrm_port")
"""Settings that are whole numbers."""
_DIGITS_MAX = 9


def typed(name: str, text: str) -> str | int | bool:
    """The text of a setting with the type that its reader expects; other settings, such as names, stay text.

    Raises UsageError.
    """
    if name in FLAGS:
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{name}={text[:80]}: it must be true or false")
        return text.lower() == "true"
    if name in NUMBERS:
        if not re.fullmatch(rf"[0-9]{{1,{_DIGITS_MAX}}}", text):
            raise UsageError(f"{name}={text[:80]}: it must be a whole number of at most {_DIGITS_MAX} digits")
        return int(text)
    return text


# -- the configuration of the minion
# It is written to `minion.d/90-cloud.conf`, so that it overrides the image's configuration and replaces no file.


@dataclass(frozen=True, slots=True)
class MinionPaths:
    """Paths of the minion."""

    config_dir: str
    user: str
    data_dir: str
    owned: tuple[str, ...]
    """Folders and files that the minion creates itself, which a rollback removes."""

    @property
    def folder(self) -> str:
        """The folder with the list of created files, and the join token."""
        return os.path.join(self.config_dir, "cloud")

    @property
    def token_file(self) -> str:
        """The file of the join token."""
        return os.path.join(self.folder, "join_token")


def minion_options(read: Readings, vm_: Mapping[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the minion, with its grains. Raises SaltCloudConfigError for options that no minion can read."""
    for name in ("minion", "grains"):
        read.mapping(name)
    options = minion_settings(vm_, opts)
    if "master" not in options and vm_.get("master"):
        options["master"] = vm_["master"]
    # The token is uploaded in a separate file, so that the configuration has no secret.
    options.pop("join_token", None)
    try:
        parse_minion_id(options["id"])
        read_back(options)
    except UsageError as error:
        raise read.wrong("minion", f"has an invalid id: {error}") from error
    except ConfigError as error:
        raise read.wrong("minion", f"cannot be used: {error}") from error
    return options


def paths_of(options: Mapping[str, Any], config_dir: str) -> MinionPaths:
    """The paths of a minion with these options."""
    config = read_back(options)
    owned = [config.pki_dir, config.data_dir, config.cachedir, config.log_file]
    return MinionPaths(config_dir, config.user, config.data_dir, tuple(path for path in owned if path))


def rendered(options: Mapping[str, Any], paths: MinionPaths, *, token: bool) -> str:
    """The text of the configuration file; with `token`, it names the file of the join token."""
    lines = dict(options)
    if token:
        lines["join_token_file"] = paths.token_file
    return _HEAD + lines_of(lines)


_HEAD = "# Written by `saltlite cloud` when this machine was deployed.\n"


LOGIN_S = 300.0
LOGIN_TRIES = 10
STEP_S = 900.0
START_S = 30.0
SSH_S = 15.0
"""Seconds for one attempt to connect."""

INSTALLS = ("wheel", "index", "none")
BUILT_IN = "deploy.sh"

_HOST_KEY = re.compile(r"[a-z0-9@.\-]+ [A-Za-z0-9+/]+=*( [^\n\r]*)?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,252}")
_NO_NAME = re.compile(r"[^A-Za-z0-9_.\-]+")
_NAME_OF_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Login:
    """The login settings. The repr has no secrets."""

    host: Host
    users: tuple[str, ...]
    host_keys: tuple[str, ...]
    remembers: bool
    """Whether host keys of earlier logins stay valid, as for machines that existed before."""
    within_s: float
    denials: int
    sudo: bool
    sudo_password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Install:
    """How saltlite is installed."""

    how: str
    folder: str
    index: str = field(repr=False)  # may have credentials in it
    wheel_dir: str
    python: str


@dataclass(frozen=True, slots=True)
class Steps:
    """Custom steps. `script` is the path of a file here, the text of a script, or "" for the built-in one."""

    preflight: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    script: str
    script_args: str = field(repr=False)
    script_env: Mapping[str, str] = field(repr=False)
    inline: tuple[str, ...]

    @property
    def script_name(self) -> str:
        """The script in messages and events."""
        return "the text of script" if is_text(self.script) else self.script


@dataclass(frozen=True, slots=True)
class Deployment:
    """The deployment of one machine."""

    name: str
    login: Login
    deploy: bool
    install: Install
    steps: Steps
    minion: Mapping[str, Any] = field(repr=False)
    token: str = field(repr=False)
    paths: MinionPaths
    cachedir: str
    """The folder for ssh on this host; it must belong to the current user, because ssh runs a program in it."""
    tmp_dir: str
    keep_tmp: bool
    step_s: float
    start_s: float
    replaces: bool

    def details(self) -> dict[str, Any]:
        """The public fields for events: names and numbers without secrets."""
        host = self.login.host
        return {
            "host": host.host,
            "port": host.port,
            "username": host.user,
            "sudo": self.login.sudo,
            "minion_id": self.minion["id"],
            "deploy_method": self.install.how if self.deploy and not self.steps.script else "script",
            "script": os.path.basename(self.steps.script_name) or BUILT_IN,
            "timeout": self.step_s,
        }


def deployment_of(vm_: Mapping[str, Any], opts: Mapping[str, Any]) -> Deployment:
    """The deployment of this machine. Raises SaltCloudConfigError that names the setting."""
    read = Readings(vm_)
    config_dir = read.path("minion_dir", "/etc/saltlite")
    if not _NAME.fullmatch(read.name):
        raise read.wrong("name", f"is {read.name!r}, which is not a name of a machine")
    minion = minion_options(read, vm_, opts)
    return Deployment(
        name=read.name,
        login=_login(read, opts),
        deploy=read.flag("deploy", default=True),
        install=_install(read),
        steps=_steps(read, opts),
        minion=minion,
        token=read.text("join_token") or str(read.mapping("minion").get("join_token") or ""),
        paths=paths_of(minion, config_dir),
        cachedir=str(opts["cachedir"]),
        tmp_dir=read.path("tmp_dir", "/tmp"),  # noqa: S108 - on the machine, where mktemp makes a private one in it
        keep_tmp=read.flag("keep_tmp"),
        step_s=read.seconds("deploy_timeout", STEP_S),
        start_s=read.seconds("start_timeout", START_S),
        replaces=read.flag("replace_minion"),
    )


def known_hosts_of(name: str, provider: str, opts: Mapping[str, Any]) -> str:
    """The known_hosts file of this machine; equal names at other providers have other files."""
    return os.path.join(str(opts["cachedir"]), "known_hosts", _NO_NAME.sub(".", provider) or "none", name)


def _known_hosts(read: Readings, opts: Mapping[str, Any], *, pinned: bool) -> str:
    """The path of its host keys; pinned keys are always in our own file, which is rewritten."""
    given = os.path.expanduser(read.text("ssh_known_hosts"))
    if given:
        if not os.path.isabs(given):
            raise read.wrong("ssh_known_hosts", f"is {given!r}; it must be an absolute path here")
        # The file begins with the first login, and so do our own folders.
        folder = os.path.dirname(given)
        ours = given.startswith(os.path.join(str(opts["cachedir"]), ""))
        if os.path.isdir(given) or not (ours or os.path.isdir(folder)):
            raise read.wrong("ssh_known_hosts", f"names {given!r}, and no such file can be here")
    if given and not pinned:
        return given
    return known_hosts_of(read.name, read.text("provider"), opts)


def _login(read: Readings, opts: Mapping[str, Any]) -> Login:
    where, address = read.first("ssh_host", "salt_host")
    if address is None:
        raise SaltCloudConfigError(f"{read.name}: ssh_host is missing: the name or address to log in to")
    key_name, key = read.first("key_filename", "ssh_key_file", "ssh_keyfile", "private_key")
    password_name, password = read.first("ssh_password", "password")
    if password_name == "password" and _is_of_the_provider(password, read, opts):  # noqa: S105 - a setting's name
        password = None
    users = read.texts("ssh_username") or ("root",)
    for each in users:
        read.checked("user", "ssh_username", each)
    port_name, port = read.first("ssh_port")
    _, passphrase = read.first("key_passphrase")
    options = read.texts("ssh_options")
    keys = read.texts("ssh_host_key")
    for each in keys:
        if not _HOST_KEY.fullmatch(each):
            raise read.wrong("ssh_host_key", "is not a public key, as in `ssh-ed25519 AAAA…`")
    if key is not None and not os.path.isfile(os.path.expanduser(str(key))):
        raise read.wrong(key_name, f"names {str(key)!r}, and there is no such file here")
    sudo_password = read.text("sudo_password") or None
    if sudo_password is not None:
        read.checked("passwd", "sudo_password", sudo_password)
    offers_keys = read.flag("ssh_agent")
    within_s = read.seconds("ssh_timeout", LOGIN_S)
    host = Host(
        read.name,
        read.checked("host", where, str(address)),
        user=users[0],
        port=read.checked("port", port_name, 22 if port is None else port),
        priv=None if key is None else read.checked("priv", key_name, os.path.expanduser(str(key))),
        priv_passwd=None if passphrase is None else read.checked("priv_passwd", "key_passphrase", str(passphrase)),
        passwd=None if password is None else read.checked("passwd", password_name, str(password)),
        timeout=min(SSH_S, within_s),
        identities_only=key is not None,
        use_auth_sock=offers_keys and key is None,
        accept_new_host_keys=not keys,
        known_hosts_file=_known_hosts(read, opts, pinned=bool(keys)),
        ssh_options=read.checked("ssh_options", "ssh_options", options),
    )
    return Login(
        host,
        users,
        keys,
        remembers=bool(read.text("ssh_known_hosts")),
        within_s=within_s,
        denials=read.whole("wait_for_passwd_maxtries", LOGIN_TRIES, 1000),
        sudo=read.flag("sudo", default=sudo_password is not None),
        sudo_password=sudo_password,
    )


def _is_of_the_provider(password: Any, read: Readings, opts: Mapping[str, Any]) -> bool:
    """Whether this password is that of the provider's API, which no machine may see."""
    alias, _, driver = read.text("provider").partition(":")
    provider = ((opts.get("providers") or {}).get(alias) or {}).get(driver) or {}
    return password is not None and provider.get("password") == password and capabilities_of(driver).has_login


def _install(read: Readings) -> Install:
    how = read.text("install", default="wheel")
    if how not in INSTALLS:
        raise read.wrong("install", f"is {how!r}; it must be one of {', '.join(INSTALLS)}")
    wheel_dir = os.path.expanduser(read.text("wheel_dir"))
    if wheel_dir and not os.path.isdir(wheel_dir):
        raise read.wrong("wheel_dir", f"is {wheel_dir!r}, and there is no such folder here")
    return Install(
        how, read.path("install_dir", "/opt/saltlite"), read.text("install_index"), wheel_dir, read.text("python")
    )


def _steps(read: Readings, opts: Mapping[str, Any]) -> Steps:
    files = read.mapping("file_map")
    for local, remote in files.items():
        if not isinstance(remote, str) or not remote.startswith("/"):
            raise read.wrong("file_map", f"has {remote!r} for {local}; it must be an absolute path on the machine")
        if not os.path.exists(os.path.expanduser(local)):
            raise read.wrong("file_map", f"has {local!r}, which is not there")
    variables = read.mapping("script_env")
    for name in variables:
        if not _NAME_OF_VARIABLE.fullmatch(name):
            raise read.wrong("script_env", f"has {name!r}, which is not a name of a variable")
    script, script_args = script_of(read, opts), read.text("script_args")
    if script_args and not script:
        raise read.wrong("script_args", "is for a script of yours: the built-in one takes no arguments")
    return Steps(
        preflight=read.texts("preflight_cmds"),
        files=tuple((os.path.expanduser(local), remote) for local, remote in files.items()),
        script=script,
        script_args=script_args,
        script_env={name: str(value) for name, value in variables.items()},
        inline=read.texts("inline_script"),
    )


def is_built_in(script: object) -> bool:
    """Whether this setting means the built-in script, which keeps a list of what it makes."""
    return script in (None, "", BUILT_IN, "deploy")


def is_text(script: str) -> bool:
    """Whether this setting is the text of a script, and not a name or a path."""
    return script.startswith("#!") or "\n" in script


def credentials_of(address: str) -> tuple[str, ...]:
    """The credentials in an address: its password, or a token as its user name; all of it if it cannot be read."""
    try:
        found = urllib.parse.urlsplit(address)
    except ValueError:
        return (address,)
    secret = found.password or found.username
    return () if not secret else (secret, urllib.parse.unquote(secret))


def script_of(read: Readings, opts: Mapping[str, Any]) -> str:
    """The file of the script that the settings name, or its text; "" for the built-in one. Raises
    SaltCloudConfigError.
    """
    named = read.text("script")
    if is_built_in(named):
        return ""
    if is_text(named):
        return named
    folders = [str(path) for path in opts.get("deploy_scripts_search_path") or ()]
    if opts.get("config_dir"):
        folders.insert(0, os.path.join(str(opts["config_dir"]), "cloud.deploy.d"))
    tried = [os.path.join(folder, named + end) for folder in folders for end in ("", ".sh")]
    tried = [named] if os.path.isabs(named) else tried
    found = next((path for path in tried if os.path.isfile(path)), None)
    if found is None:
        looked = ", ".join(tried) or "there is no folder cloud.deploy.d"
        raise read.wrong("script", f"names {named!r}, which is not there ({looked}); without it the built-in one runs")
    return found


# -- Windows

MARKS = ("win_installer", "win_username")
"""Settings that make a machine a Windows machine."""

_PORT_MAX = 65_535


def is_windows(vm_: Mapping[str, Any]) -> bool:
    """Whether the settings are those of a Windows machine."""
    return any(vm_.get(name) for name in MARKS)


def parameters(vm_: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a deployment to Windows. Raises SaltCloudConfigError that names a setting."""
    read = Readings(vm_)
    winrm = read.flag("use_winrm", default=True)
    way = {
        "use_winrm": winrm,
        "winrm_port": read.whole("winrm_port", 5986, _PORT_MAX),
        "winrm_use_ssl": read.flag("winrm_use_ssl", default=True),
        "winrm_verify_ssl": read.flag("winrm_verify_ssl", default=True),
        "smb_port": read.whole("smb_port", 445, _PORT_MAX),
    }
    return {
        "name": read.name,
        "host": read.text("ssh_host", "salt_host"),
        "win_installer": read.text("win_installer"),
        "username": read.text("win_username", default="Administrator"),
        "password": read.text("win_password"),
        "auth_retries": read.whole("win_deploy_auth_retries", 10, 1000),
        "auth_retry_delay": read.seconds("win_deploy_auth_retry_delay", 1.0, 3600.0),
        "port": way["winrm_port"] if winrm else way["smb_port"],
        **way,
    }


def refuse(vm_: Mapping[str, Any]) -> SaltCloudConfigError:
    """The error for a deployment to Windows, after its settings were checked."""
    given = parameters(vm_)
    how = f"{'WinRM' if given['use_winrm'] else 'SMB'} port {given['port']}"
    return SaltCloudConfigError(
        f"{given['name']}: this is a Windows machine ({how} as {given['username']}), and there is no minion for "
        "Windows: create it with `deploy: false` or --no-deploy"
    )
