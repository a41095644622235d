"""Reads configuration files into a typed configuration, and collects every problem in them.

* Later files win, option by option: maps and lists are replaced, not merged.
* All problems are collected into one ConfigError, with one line each: `file:line:col: sentence`.
* A file with problems is not used: there are no warnings.
* Values of secret options are never repeated.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from saltlite.config.options import MisfitError, Option, assemble, options_of
from saltlite.config.paths import (
    FILE_BYTES_MAX,
    SOCKET_PATH_BYTES_MAX,
    config_files,
    master_socket,
    read_config_file,
    socket_path_fits,
)
from saltlite.config.written import Map, PlacedError, Scalar, Where, Written, describe, is_empty, value_of
from saltlite.errors import ConfigError, UsageError, nearest
from saltlite.model.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from saltlite.config.api import ApiConfig
    from saltlite.config.master import MasterConfig
    from saltlite.config.minion import MinionConfig

C = TypeVar("C")

PROBLEMS_MAX = 20
"""Problems in one message; a file with more of them is probably a wrong file."""


class _Unknown(NamedTuple):
    """An option that no descriptor has."""

    path: str
    key: Scalar
    value: Written


class OptionSource(NamedTuple):
    """Where a file sets an option."""

    path: str
    where: Where

    def line(self) -> str:
        """`file:line`."""
        return f"{self.path}:{self.where.line}"

    def position(self) -> str:
        """`file:line:col`."""
        return f"{self.line()}:{self.where.column}"


@dataclass(frozen=True, slots=True)
class Loaded(Generic[C]):
    """A configuration, its files, and the position of every option that a file sets."""

    config: C
    files: tuple[str, ...]
    places: dict[str, OptionSource]

    @property
    def origins(self) -> dict[str, str]:
        """`file:line` of every option that a file sets."""
        return {name: place.line() for name, place in self.places.items()}


def load_master(config_dir: str) -> Loaded[MasterConfig]:
    """The master's configuration from `config_dir`/master and `config_dir`/master.d/*.conf.

    Only in the default folder may the main file be missing, which means the defaults. Raises ConfigError with every
    problem.
    """
    from saltlite.config.master import MasterConfig  # noqa: PLC0415 - a daemon needs the options of its own file only

    reading = ConfigReader(options_of(MasterConfig))
    reading.read_all(config_dir, "master")
    config = assemble(MasterConfig, {**reading.values, "config_dir": os.path.abspath(config_dir)})
    socket = master_socket(config.sock_dir)
    if not socket_path_fits(socket):
        reading.complain_about(
            ("sock_dir", "root_dir"),
            f"the path of the socket, {socket}, is longer than the {SOCKET_PATH_BYTES_MAX} bytes that Linux "
            "allows; set a shorter sock_dir",
        )
    reading.raise_problems()
    return Loaded(config, tuple(reading.files), reading.places)


def load_minion(config_dir: str) -> Loaded[MinionConfig]:
    """The minion's configuration from `config_dir`/minion and `config_dir`/minion.d/*.conf.

    Keys with a dot configure execution modules and go to `module_config` unchanged, and so do those that `own_options`
    declares. Otherwise as `load_master`.
    """
    from saltlite.config.minion import MinionConfig  # noqa: PLC0415 - as above

    reading = ConfigReader(options_of(MinionConfig), module_config={})
    reading.read_all(config_dir, "minion")
    own = {"module_config": reading.module_config, "conf_file": os.path.join(os.path.abspath(config_dir), "minion")}
    config = assemble(MinionConfig, {**reading.values, **own})
    if config.join_token and config.join_token_file:
        reading.complain_about(
            ("join_token_file", "join_token"), "join_token and join_token_file are both set; keep one of them"
        )
    reading.raise_problems()
    return Loaded(config, tuple(reading.files), reading.places)


def load_api(config_dir: str) -> Loaded[ApiConfig]:
    """The API's configuration from `config_dir`/api and `config_dir`/api.d/*.conf; as `load_master`.

    Keys that begin with `saltgui_` are SaltGUI's, and are not checked.
    """
    from saltlite.config.api import CLIENTS, SALTGUI, ApiConfig  # noqa: PLC0415 - as above

    reading = ConfigReader(options_of(ApiConfig), module_config={}, module_key=lambda name: name.startswith(SALTGUI))
    reading.read_all(config_dir, "api")
    config = assemble(ApiConfig, {**reading.values, "saltgui": reading.module_config})
    unknown = [name for name in config.netapi_enable_clients if name not in CLIENTS]
    if unknown:
        reading.complain_about(
            ("netapi_enable_clients",),
            f"there is no client {', '.join(unknown)}: there are {', '.join(CLIENTS)}",
        )
    if config.app and config.static and config.app_path == config.static_path:
        reading.complain_about(("app_path", "static_path"), "app_path and static_path are the same; choose another one")
    if config.ssl_key and not config.ssl_crt:
        reading.complain_about(("ssl_key",), "ssl_key is set without ssl_crt, the certificate that it belongs to")
    reading.raise_problems()
    return Loaded(config, tuple(reading.files), reading.places)


OWN_OPTIONS = "own_options"
"""The option whose value declares further options by name or glob, also those of files before it."""


class ConfigReader:
    """Reads the files of one configuration, and collects values and problems."""

    def __init__(
        self,
        known: dict[str, Option],
        *,
        module_config: dict[str, Any] | None = None,
        module_key: Callable[[str], bool] = lambda name: "." in name,
    ) -> None:
        """Keys for which `module_key` holds go to `module_config` as they are, if there is one."""
        self.values: dict[str, Any] = {}
        self.module_config = module_config
        self._module_key = module_key
        self.files: list[str] = []
        self.places: dict[str, OptionSource] = {}
        self._known = known
        self._problems: list[str] = []
        self._unsettled: list[str | _Unknown] = []
        """Problems of the files that are being read, and unknown options among them."""
        self._of_salt: list[_Unknown] = []
        """Options of Salt that are unknown here."""

    def read_all(self, config_dir: str, name: str) -> None:
        """Read the main file and those of its folder."""
        if os.path.isfile(config_dir):
            folder = os.path.dirname(config_dir) or "."
            self._problems.append(f"{config_dir}: this is a file, but its folder is needed: -c {folder}")
            return
        try:
            self.files = config_files(config_dir, name)
        except OSError as error:
            self._problems.append(unreadable(error, str(error.filename)))
            return
        self.read_files(self.files)

    def read_files(self, paths: Iterable[str]) -> None:
        """Read these files in order."""
        for path in paths:
            self._read(path)
        self._settle()

    def complain_about(self, options: tuple[str, ...], sentence: str) -> None:
        """Add a problem at the first of `options` that a file sets (at least one of them is set)."""
        path, where = next(self.places[name] for name in options if name in self.places)
        self._complain(path, where, sentence)

    def raise_problems(self) -> None:
        """Raises ConfigError if there are any."""
        self._settle()
        if not self._problems and not self._of_salt:
            return
        lines = self._problems[:PROBLEMS_MAX]
        if len(self._problems) > PROBLEMS_MAX:
            lines.append("there are more problems; correct these first")
        lines += self._options_of_salt()
        raise ConfigError("\n".join(lines))

    def _options_of_salt(self) -> Iterator[str]:
        """All unknown options of Salt, for each file one line for each group of them, and one with what is read."""
        if not self._of_salt:
            return
        from saltlite.model.salt_features import GROUPS, RENAMED_GROUP, option_of_salt  # noqa: PLC0415 - needed for problems only

        for path in dict.fromkeys(one.path for one in self._of_salt):
            groups: dict[str, dict[str, list[_Unknown]]] = {}
            for one in self._of_salt:
                if one.path == path:
                    group, instead = option_of_salt(one.key.text)
                    groups.setdefault(group, {}).setdefault(instead, []).append(one)
            for group in sorted(groups, key=GROUPS.index):
                first = min((one.key.where for some in groups[group].values() for one in some), key=lambda at: at.line)
                to = " to " if group == RENAMED_GROUP else ": "
                parts = [_same_answer(some, to, instead) for instead, some in groups[group].items()]
                yield _placed(path, first, f"options of Salt, {group}: {'; '.join(parts)}")
            if read := [name for name, place in self.places.items() if place.path == path]:
                yield f"{path}: options of this file that are read: {', '.join(read)}"

    def _read(self, path: str) -> None:
        try:
            root, duplicates = parse_file(read_config_file(path))
        except OSError as error:
            self._unsettled.append(unreadable(error, path))
            return
        except PlacedError as error:
            self._complain(path, error.where, str(error))
            return
        for duplicate in duplicates:
            self._complain(path, duplicate.where, str(duplicate))
        if isinstance(root, Map):
            for key, value in root.pairs:
                self._set(path, key, value)
        elif root is not None and not is_empty(root):
            self._complain(path, root.where, f"lines of `option: value` are needed here, not {describe(root)}")

    def _set(self, path: str, key: Scalar, value: Written) -> None:
        name = key.text
        known = self._known.get(name)
        if known is not None:
            try:
                self.values[name] = known.takes.read(value)
            except MisfitError as misfit:
                self._complain_misfit(path, key, known, misfit)
        elif self.module_config is not None and self._module_key(name):
            self.module_config[name] = value_of(value)
        else:
            self._unsettled.append(_Unknown(path, key, value))
            return
        self.places[name] = OptionSource(path, key.where)

    def _settle(self) -> None:
        """Take the unknown options that are declared, and complain about the others."""
        for one in self._unsettled:
            # The search for similar names is slow, so it stops early in a wrong file.
            if len(self._problems) > PROBLEMS_MAX:
                break
            sentence = self._settled(one) if isinstance(one, _Unknown) else one
            if sentence:
                self._problems.append(sentence)
        self._unsettled = []

    def _settled(self, unknown: _Unknown) -> str:
        """Store the value of a declared option, or return why the option is wrong."""
        name, own = unknown.key.text, self.values.get(OWN_OPTIONS, ())
        close = nearest(name, self._known)
        # A glob must not hide a mistyped option of saltlite.
        declared = name in own or (not close and any(fnmatch.fnmatchcase(name, glob) for glob in own))
        if declared and self.module_config is not None:
            self.module_config[name] = value_of(unknown.value)
            self.places[name] = OptionSource(unknown.path, unknown.key.where)
            return ""
        from saltlite.model.salt_features import option_of_salt  # noqa: PLC0415 - needed for problems only

        if option_of_salt(name)[0]:
            self._of_salt.append(unknown)
            return ""
        hint = f" (did you mean '{close}'?)" if close else ""
        if OWN_OPTIONS in self._known:
            hint += f"; if modules of yours read it, add its name to {OWN_OPTIONS}"
        shown = describe(Scalar(unknown.key.where, name))
        return _placed(unknown.path, unknown.key.where, f"unknown option {shown}{hint}")

    def _complain_misfit(self, path: str, key: Scalar, known: Option, misfit: MisfitError) -> None:
        takes = f"'{known.name}' takes {known.takes.wants()}"
        if is_empty(misfit.written):
            self._complain(path, key.where, f"{takes}, but it is empty")
        elif misfit.detail:
            self._complain(path, misfit.written.where, f"'{known.name}': {misfit.detail}")
        elif known.secret:
            self._complain(path, misfit.written.where, f"{takes}; this value is something else")
        else:
            self._complain(path, misfit.written.where, f"{takes}, not {describe(misfit.written)}")

    def _complain(self, path: str, where: Where, sentence: str) -> None:
        self._unsettled.append(_placed(path, where, sentence))


def _same_answer(options: Sequence[_Unknown], to: str, instead: str) -> str:
    """Options of Salt about which there is the same to say, with their lines."""
    names = ", ".join(f"{one.key.text} (line {one.key.where.line})" for one in options)
    return f"{names}{to}{instead}" if instead else names


def _placed(path: str, where: Where, sentence: str) -> str:
    return f"{path}:{where.line}:{where.column}: {sentence}"


def parse_file(content: bytes) -> tuple[Written | None, list[PlacedError]]:
    """As `saltlite.config.yamlfile.parse`, which it imports for those files only that need it."""
    plain = parse_plain(content)
    if plain is not None:
        return plain
    from saltlite.config.yamlfile import parse  # noqa: PLC0415 - a fifth of the time of a short command

    return parse(content)


def unreadable(error: OSError, path: str) -> str:
    """Why a configuration file cannot be read, and what to do."""
    match error.errno:
        case errno.ENOENT:
            what = "there is no such file; create it (it may be empty), or name another folder with -c"
        case errno.EACCES:
            what = "this user may not read it; run the command as root, or change the mode of the file"
        case errno.ENOTDIR:
            what = "something on this path is a file where a folder is needed; move it away"
        case errno.EINVAL | errno.ENXIO:
            what = "it is not a regular file; put the options into a file of this name"
        case errno.EFBIG:
            what = f"it has more than {FILE_BYTES_MAX} bytes, so it is not a configuration file; move it away"
        case _:
            what = f"it cannot be read: {error.strerror}"
    return f"{path}: {what}"


SIDES = ("master", "minion")
ALL = "all"


def sides_of(words: Sequence[str], config_dir: str) -> tuple[str, ...]:
    """The sides that a command's words name; without a word, or with `all`, those that the folder configures.

    Raises UsageError for another word, ConfigError when the folder configures nothing.
    """
    if len(words) > 1 or (words and words[0] not in (*SIDES, ALL)):
        raise UsageError(f"{' '.join(words)!r} is not a side: say master, minion or all")
    if words and words[0] != ALL:
        return (words[0],)
    found = tuple(side for side in SIDES if is_configured(config_dir, side))
    if not found:
        raise ConfigError(
            f"{config_dir} has neither a file 'master' nor a file 'minion': create one (it may be empty), "
            "or name another folder with -c"
        )
    return found


def is_configured(config_dir: str, side: str) -> bool:
    """Whether the folder has a file or a `.d` folder of that side."""
    main = os.path.join(config_dir, side)
    return os.path.lexists(main) or os.path.lexists(f"{main}.d")


def load_side(config_dir: str, side: str) -> Loaded[MasterConfig] | Loaded[MinionConfig]:
    """The configuration of one side. Raises ConfigError with one line for every problem."""
    return load_master(config_dir) if side == "master" else load_minion(config_dir)


def missing_folders(loaded: Loaded[MasterConfig] | Loaded[MinionConfig]) -> list[str]:
    """`file:line:col: sentence` for every folder of modules that a file names and that does not exist.

    The loader treats such a folder as empty, because it may be created later; in a file it is usually a typo.
    """
    wanted = {
        name: getattr(loaded.config, name) for name in ("module_dirs", "extension_modules") if name in loaded.places
    }
    return [
        f"{loaded.places[name].position()}: '{name}' names {path}, which does not exist: create it, or correct the path"
        for name, value in wanted.items()
        for path in (value if isinstance(value, list) else [value])
        if path and not os.path.isdir(path)
    ]


# -- Plain files

_LINE = re.compile(
    r"([A-Za-z_][A-Za-z0-9_.-]{0,99}): +"
    r"([A-Za-z0-9_/](?:[A-Za-z0-9_./-]|:(?=[A-Za-z0-9_./-]))*|'[A-Za-z0-9_./: -]*'|\"[A-Za-z0-9_./: -]*\")"
)
"""No value in it spans lines or refers to another one, and no YAML parser reads a part of it as anything but text."""


def parse_plain(content: bytes) -> tuple[Written | None, list[PlacedError]] | None:
    """Read plain lines without the YAML parser: `option: word`, with or without quotes, and comments.

    Importing that parser takes longer than everything else that reads such a file. The answer is what
    `saltlite.config.yamlfile.parse` returns, with the same positions, or None where only that can tell.
    """
    if not content.isascii():
        return None
    pairs: dict[str, tuple[Scalar, Written]] = {}
    for number, line in enumerate(content.decode().split("\n"), 1):
        if not line:
            continue
        if not line.isprintable():
            return None
        if line[0] == "#":
            continue
        found = _LINE.fullmatch(line)
        if found is None or found[1] in pairs:
            return None
        name, value = found.groups()
        quoted = value[0] in "'\""
        scalar = Scalar(Where(number, found.start(2) + 1), value[1:-1] if quoted else value, quoted=quoted)
        pairs[name] = Scalar(Where(number, 1), name), scalar
    written = tuple(pairs.values())
    return (Map(written[0][0].where, written) if written else None), []
