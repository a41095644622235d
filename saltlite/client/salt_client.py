"""`salt.client`: Salt's client of the master, for runners and programs that were written for Salt.

`LocalClient` has the methods and keywords that such files use. In a runner it acts as the runner does, with its login;
in any other program as the user of the process, on the master of a configuration folder of saltlite. Two things differ
from Salt on purpose: targets that did not return are omitted, and unknown keywords are refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from saltlite.client import local
from saltlite.client.follower import Reply
from saltlite.client.runners import RunnerClient
from saltlite.config import fast
from saltlite.config.load import load_master
from saltlite.config.paths import master_socket
from saltlite.errors import NoTargetError, RefusedError, SaltliteError, invalid_keywords
from saltlite.salt.config import SALTS_FOLDER, folder_of
from saltlite.salt.exceptions import AuthorizationError, SaltClientError, SaltInvocationError

SALTS_PATH = f"{SALTS_FOLDER}/master"
_WITHOUT_EFFECT = frozenset({"cli", "gather_job_timeout", "listen", "progress", "show_jid", "show_timeout", "verbose"})
"""Keywords that concern how Salt waits and prints."""
_KEYWORDS = frozenset({"executor_opts", "expr_form", "module_executors", "token", *_WITHOUT_EFFECT})


class SaltClient:
    """Salt's `LocalClient`. Methods raise SaltClientError, AuthorizationError for what the caller may not do, and
    SaltInvocationError for unknown keywords. Each result has the form of Salt's method of this name."""

    def __init__(self, c_path: str = SALTS_PATH, mopts: Mapping[str, Any] | None = None, **_unused: Any) -> None:
        """`c_path` is the file `master` or its folder, or `mopts` the configuration of a master or a runner. The other
        keywords of Salt concern its event bus."""
        self.opts = dict(mopts or {})
        self._client = _client_of(c_path, self.opts)

    def cmd(
        self,
        tgt: str | Sequence[str],
        fun: str | Sequence[str],
        arg: Sequence[Any] = (),
        timeout: float | None = None,
        tgt_type: str = "glob",
        ret: str = "",
        jid: str = "",
        full_return: bool = False,
        kwarg: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """`{id: return}`; with `full_return` `{id: {"ret": return, "retcode": 0, "success": True, "jid": jid}}`.

        `fun` may be a list, or names with commas, with a list of arguments for each in `arg`.
        """
        found: dict[str, Any] = {}
        for row in self.cmd_iter(tgt, fun, arg, timeout, tgt_type, ret, kwarg, jid=jid, **kwargs):
            found.update(row if full_return else {name: one["ret"] for name, one in row.items()})
        return found

    def cmd_iter(
        self,
        tgt: str | Sequence[str],
        fun: str | Sequence[str],
        arg: Sequence[Any] = (),
        timeout: float | None = None,
        tgt_type: str = "glob",
        ret: str = "",
        kwarg: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Iterator[dict[str, Any]]:
        """`{id: {"ret": return, "retcode": 0, "success": True, "jid": jid}}` of each target as it returns."""
        # Each job has a connection: the generators of several jobs may be read in turn.
        with _salts_errors(), self._client.another() as client:
            try:
                job = _job(client, tgt, fun, arg, tgt_type, ret, kwarg, kwargs)
                published = client.publish(job, follow=True)
                for reply in client.wait_for(published, timeout):
                    if reply.has_value:
                        yield {reply.name: _row(reply, published.jid)}
            except NoTargetError:
                return

    cmd_cli = cmd_iter_no_block = cmd_iter

    def cmd_full_return(
        self,
        tgt: str | Sequence[str],
        fun: str | Sequence[str],
        arg: Sequence[Any] = (),
        timeout: float | None = None,
        tgt_type: str = "glob",
        ret: str = "",
        verbose: bool = False,
        kwarg: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """As `cmd` with `full_return`."""
        return self.cmd(tgt, fun, arg, timeout, tgt_type, ret, full_return=True, kwarg=kwarg, **kwargs)

    def cmd_subset(
        self,
        tgt: str | Sequence[str],
        fun: str | Sequence[str],
        arg: Sequence[Any] = (),
        tgt_type: str = "glob",
        ret: str = "",
        kwarg: Mapping[str, Any] | None = None,
        subset: int = 3,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """As `cmd`, on that many random targets."""
        return self.cmd(tgt, fun, arg, None, tgt_type, ret, kwarg=kwarg, _options={"subset": subset}, **kwargs)

    def cmd_batch(
        self,
        tgt: str | Sequence[str],
        fun: str | Sequence[str],
        arg: Sequence[Any] = (),
        tgt_type: str = "glob",
        ret: str = "",
        kwarg: Mapping[str, Any] | None = None,
        batch: str | int = "10%",
        **kwargs: Any,
    ) -> Iterator[dict[str, Any]]:
        """`{id: return}` of each target; the master lets `batch` of them, a number or a share, run at a time.

        With `raw` the event of each return: `{"tag": tag, "data": {"id": id, "fun": fun, "return": return, ...}}`.
        """
        raw = kwargs.pop("raw", False)
        size = str(batch).strip()
        if not size.removesuffix("%").isdecimal():
            raise SaltInvocationError(f"batch is a number of targets or a percentage, not {batch!r}")
        options = {"batch": {
            "size": int(size.removesuffix("%")), "percent": size.endswith("%"), "wait_ms": 0,
            "failhard": bool(kwargs.pop("failhard", False)),
        }}  # fmt: skip
        for row in self.cmd_iter(tgt, fun, arg, None, tgt_type, ret, kwarg, _options=options, **kwargs):
            for name, one in row.items():
                yield _event(name, fun, arg, one) if raw else {name: one["ret"]}

    def run_job(
        self,
        tgt: str | Sequence[str],
        fun: str | Sequence[str],
        arg: Sequence[Any] = (),
        tgt_type: str = "glob",
        ret: str = "",
        timeout: float | None = None,
        jid: str = "",
        kwarg: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Publish a job: `{"jid": jid, "minions": [id]}`, with the ids of resources; empty if there is no target."""
        with _salts_errors(), self._client.another() as client:
            try:
                published = client.publish(_job(client, tgt, fun, arg, tgt_type, ret, kwarg, {**kwargs, "jid": jid}))
            except NoTargetError:
                return {}
            names = [published.name(one) for one in (*published.minions, *published.managing)]
            return {"jid": published.jid, "minions": sorted(names)}

    def cmd_async(
        self,
        tgt: str | Sequence[str],
        fun: str | Sequence[str],
        arg: Sequence[Any] = (),
        tgt_type: str = "glob",
        ret: str = "",
        jid: str = "",
        kwarg: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> str | int:
        """Publish a job: its jid, or 0 if there is no target."""
        jid_of_job: str | int = self.run_job(tgt, fun, arg, tgt_type, ret, None, jid, kwarg, **kwargs).get("jid", 0)
        return jid_of_job

    def get_cache_returns(self, jid: str) -> dict[str, Any]:
        """`{id: {"ret": return, "retcode": 0, "success": True, "jid": jid}}` of what a job has returned so far."""
        with _salts_errors(), self._client.another() as client:
            replies = client.stored(str(jid))
            return {reply.name: _row(reply, str(jid)) for reply in replies if reply.has_value}


LocalClient = SaltClient
"""Salt's name."""


def get_local_client(c_path: str = SALTS_PATH, mopts: Mapping[str, Any] | None = None, **unused: Any) -> SaltClient:
    """A client, as Salt's function of this name makes it."""
    return SaltClient(c_path, mopts, **unused)


def _client_of(c_path: str, opts: Mapping[str, Any]) -> local.LocalClient:
    """The client of the runner of this process if that has the same master; otherwise one for that configuration."""
    runner = RunnerClient.latest
    if runner is not None and not opts and c_path == SALTS_PATH:
        return runner.another()
    folder = folder_of(str(opts.get("config_dir") or c_path))
    with _salts_errors():
        path = fast.socket_path(folder) or master_socket(load_master(folder).config.sock_dir)
    if runner is not None and runner.another().path == path:
        return runner.another()
    return local.LocalClient(path)


def _job(
    client: local.LocalClient, tgt: Any, fun: Any, arg: Any, tgt_type: str, ret: str, kwarg: Mapping[str, Any] | None,
    kwargs: Mapping[str, Any],
) -> local.JobCall:  # fmt: skip
    """The job of these arguments of Salt; a token in `kwargs` becomes that of the client."""
    given = dict(kwargs)
    options = given.pop("_options", {})
    if given.pop("jid", ""):
        raise SaltInvocationError("jid is not taken: the master gives each job its id")
    if unknown := sorted(given.keys() - _KEYWORDS):
        raise SaltInvocationError(invalid_keywords(unknown, _KEYWORDS))
    client.token = given.get("token") or client.token
    options = {**options, **{name: given.get(name) for name in ("module_executors", "executor_opts")}}
    if ret:
        options["ret"] = [name.strip() for name in str(ret).split(",")]
    kind = given.get("expr_form") or tgt_type
    names = [name.strip() for name in fun.split(",")] if isinstance(fun, str) else list(fun)
    if len(names) == 1 and isinstance(fun, str):
        return client.job(tgt, fun, arg, kwarg, kind, **options)
    lists = [*arg, *([()] * len(names))][: len(names)]
    first, *more = [
        (name, [one] if isinstance(one, str) or not isinstance(one, Sequence) else one, kwarg or {})
        for name, one in zip(names, lists, strict=True)
    ]
    return local.JobCall(tgt, first[0], arg=first[1], kwarg=first[2], more=more, tgt_type=kind, **options)


@contextlib.contextmanager
def _salts_errors() -> Iterator[None]:
    try:
        yield
    except RefusedError as error:
        raise AuthorizationError(str(error)) from error
    except (SaltClientError, AuthorizationError, SaltInvocationError):
        raise
    except SaltliteError as error:
        raise SaltClientError(str(error)) from error


def _event(name: str, fun: str | Sequence[str], arg: Sequence[Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The event of one return, with what Salt's has."""
    data = {
        "cmd": "_return", "id": name, "jid": row["jid"], "fun": fun, "fun_args": list(arg), "return": row["ret"],
        "retcode": row["retcode"], "success": row["success"],
    }  # fmt: skip
    return {"tag": f"salt/job/{row['jid']}/ret/{name}", "data": data}


def _row(reply: Reply, jid: str) -> dict[str, Any]:
    return {"ret": reply.value, "retcode": reply.retcode, "success": not reply.failed(), "jid": jid}
