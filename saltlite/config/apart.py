"""Reads a configuration in a child process, so that the daemon neither waits for it nor keeps the memory.

The parser of YAML, the descriptors of all options and their checks take 4 MiB, which every process of the daemon would
share or copy, and nothing uses them after the start.
"""

from __future__ import annotations

import importlib
import marshal
import os
import sys
import traceback
from types import SimpleNamespace

from saltlite import errors
from saltlite.errors import SaltliteError, StartupError

TYPE_CHECKING = False  # typing costs start-up time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from saltlite.config.master import MasterConfig
    from saltlite.config.minion import MinionConfig

MINION = "minion"
MASTER = "master"
MASTER_NEEDS = (
    "dataclasses",
    "encodings.utf_8_sig",  # pillar files are read in it, after the rights were dropped
    "saltlite.auth.acl",
    "saltlite.config.external_pillars",
    "saltlite.config.opts",
    "saltlite.config.values",
    "saltlite.config.written",
    "saltlite.hooks",
    "saltlite.model.files",
    "saltlite.wire.limits",
)
"""What the child that reads for a master needs, and the master in any case: imported once, before the fork."""
MINION_NEEDS = (
    "dataclasses",
    "json",
    "saltlite.config.values",
    "saltlite.model.execution",
    "saltlite.model.files",
    "saltlite.model.ids",
    "saltlite.model.keys",
    "saltlite.model.resourcelook",
    "saltlite.wire.limits",
)
"""The same for a minion."""


def begin_reading_minion(config_dir: str) -> Callable[[], tuple[MinionConfig, dict[str, Any]]]:
    """Start to read the minion's configuration. The returned function waits for it.

    It returns an object with the attributes of a MinionConfig, and `opts_of` that configuration with an empty id. It
    raises what `load_minion` raises.
    """
    wait = _begin_reading(config_dir, MINION, MINION_NEEDS)

    def read() -> tuple[MinionConfig, dict[str, Any]]:
        values, opts = wait()
        config: Any = SimpleNamespace(**values)
        return config, opts

    return read


def begin_reading_master(config_dir: str) -> Callable[[], MasterConfig]:
    """Start to read the master's configuration. The returned function waits for it.

    It returns an object with the attributes of a MasterConfig, of which `opts.opts_of` makes what it makes of that. It
    raises what `load_master` raises.
    """
    wait = _begin_reading(config_dir, MASTER, MASTER_NEEDS)

    def read() -> MasterConfig:
        values, opts = wait()
        config: Any = SimpleNamespace(**values, own_opts=opts)
        return config  # type: ignore[no-any-return]  # it has the attributes of one

    return read


def _begin_reading(
    config_dir: str, kind: str, needs: tuple[str, ...]
) -> Callable[[], tuple[dict[str, Any], dict[str, Any]]]:
    """The returned function returns the values of all fields, and `opts_of` them."""
    for name in needs:
        importlib.import_module(name)
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        raise StartupError(f"no process can be made to read the configuration: {error.strerror}") from error
    if pid == 0:
        os.close(reading)
        _answer(config_dir, kind, writing)
    os.close(writing)

    def wait() -> tuple[dict[str, Any], dict[str, Any]]:
        with open(reading, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(pid, 0)
        if not answer:
            raise StartupError(f"the configuration in {config_dir} could not be read: its process ended")
        failed, sentence, values, opts = marshal.loads(answer)  # noqa: S302 - of this process's own child
        if failed:
            raise getattr(errors, failed)(sentence)
        return values, opts

    return wait


def _answer(config_dir: str, kind: str, pipe: int) -> None:
    """The life of the child; it never returns."""
    try:
        with open(pipe, "wb") as file:
            file.write(marshal.dumps(_read(config_dir, kind)))
    except BaseException:  # noqa: BLE001 - named supervision point: the last frame of a forked process
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


def _read(config_dir: str, kind: str) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """(class of the error, its sentence, values, options)."""
    from dataclasses import fields  # noqa: PLC0415 - only the child imports these

    from saltlite.config.load import load_master, load_minion  # noqa: PLC0415 - as above
    from saltlite.config.opts import opts_of  # noqa: PLC0415 - as above

    config: MasterConfig | MinionConfig
    try:
        config = (load_master if kind == MASTER else load_minion)(config_dir).config
    except SaltliteError as error:
        return type(error).__name__, str(error), {}, {}
    return "", "", {field.name: getattr(config, field.name) for field in fields(config)}, opts_of(config, "")
