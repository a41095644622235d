"""The master as a test plays it for runners."""

from __future__ import annotations

from typing import Any

from saltlite import __version__
from saltlite.loader.call import Outcome, call
from saltlite.loader.dunders import CrossCalls
from saltlite.loader.index import Index, build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers

INDEX: Index = build_index(search_layers({}, "runners"))
JID = "20260131235959123456"
CONFIG = {"timeout": 5.0, "file_roots": {"base": ["/srv/one", "/srv/two"]}, "hooks": {"h": {"fun": "a.b"}}}


def row(minion: str, state: str, version: str = __version__) -> dict[str, Any]:
    return {"id": minion, "state": state, "last_seen": 1.0, "address": "", "version": version}


class Client:
    """Plays the master: verb -> answer, or a function that makes it."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        self.asked.append((verb, fields))
        answer = self.answers[verb]
        made: dict[str, Any] = answer(**fields) if callable(answer) else answer
        return made

    def cmd(self, *args: Any) -> dict[str, Any]:
        self.asked.append(("cmd", {"args": args}))
        made: dict[str, Any] = self.answers["cmd"]
        return made

    def returns(self, jid: str) -> dict[str, Any]:
        made: dict[str, Any] = self.answers["returns"][jid]
        return made

    def results(self, jid: str) -> dict[str, dict[str, Any]]:
        return {name: {"return": one, "retcode": 0, "success": True} for name, one in self.returns(jid).items()}


def run(client: Client, fun: str, *args: Any, cachedir: str = "", **kwargs: Any) -> Outcome:
    """Call a runner, with the shipped modules as those of this machine."""

    def execution() -> Loader:
        return Loader(build_index(search_layers({})), {"id": "here_master"}, {}, {})

    opts = {"cachedir": cachedir}
    own = {"__client__": client, "__execution__": CrossCalls(execution), "__config__": CONFIG}
    loader = Loader(INDEX, opts, {}, {}, more=own)
    return call(loader, fun, args, kwargs, pub={"jid": JID, "fun": fun})
