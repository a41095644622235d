"""The process of runners: `python -m saltlite.api.runner_process` runs one call, and with `--serve` those of one login.

Runners are plug-ins, and the API's own process loads none. Requests to the master carry the token of the API's caller,
so that a runner has no more rights there than its caller. A call is a msgpack map of `config_dir`, `token`, `fun`,
`args`, `kwargs`, `user` and `jid` on stdin; its result on stdout is a JSON map of `value` and `retcode`.

With `--serve` each of both is a frame (a u32 length, then the bytes), and a result has `more`: whether the process
takes another call. It does after a runner that ships with saltlite, has used no other plug-ins, and has changed nothing
that `ProcessState` compares. The configuration, the grains and the objects of modules are made anew for each call; what
remains are imported modules.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from saltlite.api.formats import JSON, rendered
from saltlite.client.local import LocalClient
from saltlite.client.runners import RunnerClient, without_outputter
from saltlite.cloud import LazyCloud
from saltlite.config.load import load_master
from saltlite.config.opts import opts_of, shown_opts
from saltlite.config.paths import master_socket
from saltlite.errors import SaltliteError
from saltlite.loader.call import call_each
from saltlite.loader.dunders import LazyFunctions
from saltlite.loader.encode import decode_return, encode_whole
from saltlite.loader.index import Index, build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import SHIPPED, Layer, search_layers
from saltlite.minion.jobs.process_state import ProcessState
from saltlite.pillar.files import pillar_here
from saltlite.platform import logs
from saltlite.platform.privileges import require_trusted
from saltlite.platform.process import set_parent_death_signal
from saltlite.plugins.grains.collect import collect
from saltlite.wire.framing import framed, read_frame, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping


log = logging.getLogger(__name__)

VALUE_MAX = 32 * 1024 * 1024
"""Bytes of the return of a runner; a larger one is truncated, with a note."""
INPUT_MAX = 8 * 1024 * 1024
CALLS_MAX = 100
"""Calls of one process. It bounds the growth of everything that is not compared."""
LOADING_DRIVERS = frozenset({"cloud"})
"""Modules of runners that load drivers, among them those of users."""


def main(words: list[str]) -> int:
    """Run the call on stdin, or with `--serve` the calls. The output of runners goes to stderr."""
    # Otherwise it would outlive its parent.
    set_parent_death_signal(signal.SIGKILL, os.getppid())
    stdout = os.dup(1)
    os.dup2(2, 1)
    logs.configure("warning")
    if words == ["--serve"]:
        calls = os.dup(0)
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        return _serve(calls, stdout)
    found = _reported(ServedCalls(), unpack(sys.stdin.buffer.read(INPUT_MAX)))
    with os.fdopen(stdout, "wb") as out:
        out.write(rendered(found, JSON))
    return 0


def _serve(calls: int, results: int) -> int:
    """Run calls until one of them leaves a trace, or until there are no more."""
    served, token = ServedCalls(), None
    while (data := read_frame(partial(os.read, calls))) is not None:
        wanted = unpack(data)
        if token not in (None, wanted["token"]):
            return 1  # what one login leaves is not for another
        token = wanted["token"]
        found = _reported(served, wanted)
        more = served.is_unchanged()
        answer = memoryview(framed(rendered({**found, "more": more}, JSON)))
        while answer:
            answer = answer[os.write(results, answer) :]
        if not more:
            break
    return 0


def _reported(served: ServedCalls, wanted: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return served.run(wanted)
    except SaltliteError as error:
        return {"value": str(error), "retcode": 1}


def run(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """`value` and `retcode` of one call. Raises ConfigError when the master's configuration cannot be read."""
    return ServedCalls().run(wanted)


class ServedCalls:
    """Runs calls one after another."""

    def __init__(self) -> None:
        self._state: ProcessState | None = None
        self._count = 0
        self._is_reusable = False
        """Whether the last call was of a runner that may leave no trace."""
        self._layers: tuple[Layer, ...] = ()
        self._index: Index | None = None

    def run(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """`value` and `retcode`. Raises ConfigError when the master's configuration cannot be read."""
        self._is_reusable = False
        config = load_master(wanted["config_dir"]).config
        opts = {**opts_of(config, f"{config.master_name or socket.gethostname()}_master"), "cachedir": ""}
        # A user who can write there could otherwise use the tokens of callers.
        require_trusted([*opts["module_dirs"], *opts["runner_dirs"], opts["extension_modules"]])
        index = self._indexed(search_layers(opts, "runners"))
        with LocalClient(master_socket(config.sock_dir)) as client:
            client.token, client.runner = wanted["token"], wanted["jid"]
            cloud = LazyCloud(wanted["config_dir"], client)
            own = {"__client__": RunnerClient(client), "__cloud__": cloud, "__config__": shown_opts(config, opts["id"])}
            loader = self._loader(index, opts, own)
            self._is_reusable = _is_shipped(index, wanted["fun"]) and self._recorded(loader, wanted["fun"])
            call = (wanted["fun"], wanted["args"], wanted["kwargs"])
            outcome = call_each(loader, [call], jid=wanted["jid"], user=wanted["user"])
        value = decode_return(encode_whole(outcome.value, VALUE_MAX).body, VALUE_MAX)
        return {"value": without_outputter(value)[0], "retcode": outcome.retcode}

    def is_unchanged(self) -> bool:
        """Whether the last call has left no trace, so that another one may follow."""
        self._count += 1
        if not self._is_reusable or self._state is None or self._count >= CALLS_MAX:
            return False
        difference = self._state.difference()
        if difference:
            log.debug("this process runs no other runner: %s changed", difference)
        return not difference

    def _indexed(self, layers: tuple[Layer, ...]) -> Index:
        # Files that do not belong to an installed package may change at any time.
        if self._index is None or layers != self._layers or any(map(_has_files, layers)):
            self._layers, self._index = layers, build_index(layers)
        return self._index

    def _loader(self, index: Index, opts: dict[str, Any], own: dict[str, Any]) -> Loader:
        grains = {**collect(opts), "id": opts["id"]}

        def execution(pillar: dict[str, Any]) -> Loader:
            # Modules of users may be among them.
            self._is_reusable = False
            return Loader(build_index(search_layers(opts)), opts, grains, pillar)

        def with_pillar() -> Loader:
            return execution(pillar_here(opts["pillar_roots"], opts["id"], grains))

        executions = {
            "__execution__": LazyFunctions(lambda: execution({})),
            "__pillar_execution__": LazyFunctions(with_pillar),
        }
        return Loader(index, opts, grains, {}, more={**own, **executions})

    def _recorded(self, loader: Loader, fun: str) -> bool:
        """Record the state before the call, with its module loaded; False if that is not possible."""
        try:
            _ = loader[fun]
            # Anew for each call, because loading a module changes what the loader holds.
            self._state = ProcessState({})
        except BaseException:  # noqa: BLE001 - supervision point: the call itself reports what is wrong with the module
            return False
        return True


def _has_files(layer: Layer) -> bool:
    if layer.installed:
        return False
    try:
        return bool(os.listdir(layer.path))
    except OSError:
        return False


def _is_shipped(index: Index, fun: str) -> bool:
    module = fun.partition(".")[0]
    files = list(index.all_claimants(module))
    return module not in LOADING_DRIVERS and bool(files) and all(file.layer == SHIPPED for file in files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
