"""The process of one runner, `python -m saltlite.api.runner_process`: the call on stdin, the result on stdout.

Runners are plug-ins, and the API's own process loads none. Requests to the master carry the token of the API's caller,
so that a runner has no more rights there than its caller. stdin is one msgpack map of `config_dir`, `token`, `fun`,
`args`, `kwargs`, `user` and `jid`; stdout is a JSON map of `value` and `retcode`.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

from saltlite.api.formats import rendered
from saltlite.client.local import LocalClient
from saltlite.client.runners import RunnerClient, without_outputter
from saltlite.cloud import LazyCloud
from saltlite.config.load import load_master
from saltlite.config.options import opts_of, shown_opts
from saltlite.config.paths import master_socket
from saltlite.errors import SaltliteError
from saltlite.loader.call import call_each
from saltlite.loader.dunders import LazyFunctions
from saltlite.loader.encode import decode_return, encode_whole
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.pillar.files import pillar_here
from saltlite.platform import logs
from saltlite.platform.privileges import require_trusted
from saltlite.platform.process import set_parent_death_signal
from saltlite.plugins.grains.collect import collect
from saltlite.wire.framing import unpack

if TYPE_CHECKING:
    from collections.abc import Mapping


VALUE_MAX = 32 * 1024 * 1024
"""Bytes of the return of a runner; a larger one is truncated, with a note."""
INPUT_MAX = 8 * 1024 * 1024


def main() -> int:
    """Run the call on stdin. The output of the runner goes to stderr."""
    # Otherwise it would outlive its parent.
    set_parent_death_signal(signal.SIGKILL, os.getppid())
    wanted = unpack(sys.stdin.buffer.read(INPUT_MAX))
    stdout = os.dup(1)
    os.dup2(2, 1)
    logs.configure("warning")
    try:
        found = run(wanted)
    except SaltliteError as error:
        found = {"value": str(error), "retcode": 1}
    with os.fdopen(stdout, "wb") as out:
        out.write(rendered(found, "application/json"))
    return 0


def run(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """`value` and `retcode` of the runner. Raises ConfigError when the master's configuration cannot be read."""
    config = load_master(wanted["config_dir"]).config
    opts = {**opts_of(config, f"{config.master_name or socket.gethostname()}_master"), "cachedir": ""}
    # A user who can write there could otherwise use the tokens of callers.
    require_trusted([*opts["module_dirs"], *opts["runner_dirs"], opts["extension_modules"]])
    index = build_index(search_layers(opts, "runners"))
    with LocalClient(master_socket(config.sock_dir)) as client:
        client.token, client.runner = wanted["token"], wanted["jid"]
        cloud = LazyCloud(wanted["config_dir"], client)
        own = {"__client__": RunnerClient(client), "__cloud__": cloud, "__config__": shown_opts(config, opts["id"])}
        loader = _loader(index, opts, own)
        call = (wanted["fun"], wanted["args"], wanted["kwargs"])
        outcome = call_each(loader, [call], jid=wanted["jid"], user=wanted["user"])
    value = decode_return(encode_whole(outcome.value, VALUE_MAX).body, VALUE_MAX)
    return {"value": without_outputter(value)[0], "retcode": outcome.retcode}


def _loader(index: Any, opts: dict[str, Any], own: dict[str, Any]) -> Loader:
    grains = {**collect(opts), "id": opts["id"]}

    def execution(pillar: dict[str, Any]) -> Loader:
        return Loader(build_index(search_layers(opts)), opts, grains, pillar)

    def with_pillar() -> Loader:
        return execution(pillar_here(opts["pillar_roots"], opts["id"], grains))

    executions = {
        "__execution__": LazyFunctions(lambda: execution({})),
        "__pillar_execution__": LazyFunctions(with_pillar),
    }
    return Loader(index, opts, grains, {}, more={**own, **executions})


if __name__ == "__main__":
    sys.exit(main())
