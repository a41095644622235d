"""Calls that operators make every day, by Salt's `salt-call --local` and by ours, in one process each.

    SALTLITE_COMPAT_PYTHON -m tests.compat.everyday [FILE]     prints JSON: the calls whose results differ

for a Python that has both Salt and saltlite. The calls are those of `tests/data/everyday_calls.txt`, or of FILE.
A line begins with `~` where a figure moves between two calls, so that only the form of the result is compared.
Nothing that is called changes the machine; `{home}` in a line is a folder with a few files.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CALLS = Path(__file__).parents[1] / "data" / "everyday_calls.txt"
MOVES = "~"
CALL_S = 8

Call = Callable[[str, Sequence[str]], Any]


def lines(path: Path = CALLS) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def home(folder: Path) -> None:
    """The files that the calls look at."""
    (folder / "roots").mkdir()
    (folder / "roots" / "motd").write_text("Welcome to {{ grains.id }}\n")
    (folder / "roots" / "web").mkdir()
    (folder / "roots" / "web" / "site.conf").write_text("listen 80\n")
    (folder / "pillar").mkdir()
    (folder / "pillar" / "top.sls").write_text("base: {'*': [web]}\n")
    (folder / "pillar" / "web.sls").write_text("web: {port: 80, names: [a, b]}\nrole: front\n")
    for side, more in (("salt", {"file_client": "local"}), ("ours", {})):
        (folder / side).mkdir()
        options = {
            "id": "web1", "cachedir": f"{folder}/{side}/cache", "pki_dir": f"{folder}/{side}/pki",
            "file_roots": {"base": [f"{folder}/roots"]}, "pillar_roots": {"base": [f"{folder}/pillar"]},
            "grains": {"rack": "b7", "roles": ["web", "cache"]},
        }  # fmt: skip
        (folder / side / "minion").write_text(json.dumps(options | more))
    (folder / "text").write_text("one\ntwo\nthree = 3\n# four\n")
    (folder / "data.json").write_text('{"a": {"b": [1, 2]}}')
    (folder / "bin").mkdir()
    (folder / "bin" / "hello").write_text("#!/bin/sh\necho hello $1\n")
    (folder / "bin" / "hello").chmod(0o755)
    os.symlink(folder / "text", folder / "link")
    with tarfile.open(folder / "some.tar", "w") as archive:
        archive.add(folder / "bin", "bin")
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", "-C", str(folder / "repo")]
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder / "repo")], check=True)
    (folder / "repo" / "a").write_text("a\n")
    subprocess.run([*git, "add", "a"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)


def by_salt(folder: Path) -> Call:
    import salt.client
    import salt.config
    import salt.minion
    import salt.utils.args

    opts = salt.config.minion_config(str(folder / "salt" / "minion"))
    minion = salt.minion.SMinion(opts)

    def call(fun: str, words: Sequence[str]) -> Any:
        if fun not in minion.functions:
            raise LookupError(minion.functions.missing_fun_string(fun))
        function = minion.functions[fun]
        args, kwargs = salt.minion.load_args_and_kwargs(function, salt.utils.args.parse_input(words), data={})
        return function(*args, **kwargs)

    return call


def by_ours(folder: Path) -> Call:
    from saltlite.cli.in_process import find_grains, new_jid, read_calls, run_calls
    from saltlite.cli.verbs import call as verb
    from saltlite.loader.loader import Loader

    parsed = verb._table().parse(["-c", str(folder / "ours"), "test.ping"], words_before_arguments=1)
    config = verb._config(parsed)
    opts = verb._opts(config, parsed)
    index = verb._index(opts, with_more=False)
    grains = find_grains(opts)
    loader = Loader(index, opts, grains, verb._pillar(config, opts["id"], grains), more=verb._given(config))

    def call(fun: str, words: Sequence[str]) -> Any:
        ran = run_calls(loader, read_calls(fun, words, index, config.providers), new_jid(), None)
        if ran.outcome.retcode and isinstance(ran.outcome.value, str):
            raise LookupError(ran.outcome.value)
        return ran.outcome.value

    return call


def results(side: str, folder: Path, calls: Sequence[str]) -> list[Any]:
    """The result of each call; `!` and the reason for one that fails."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    call = {"salt": by_salt, "ours": by_ours}[side](folder)
    found: list[Any] = []
    for line in calls:
        fun, *words = shlex.split(line.removeprefix(MOVES).replace("{home}", str(folder)))
        signal.alarm(CALL_S)
        try:
            found.append(json.loads(json.dumps(call(fun, words), default=str)))
        except BaseException as error:  # noqa: BLE001 - a file of Salt may end the process
            found.append(f"! {type(error).__name__}: {error}"[:600])
        finally:
            signal.alarm(0)
    return found


def form(value: Any) -> Any:
    """The result without its figures."""
    if isinstance(value, dict):
        return {key: form(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        return [form(value[0])] if value else []
    return type(value).__name__ if not isinstance(value, str) or not value.startswith("!") else value


def compared(calls: Sequence[str]) -> list[tuple[str, Any, Any]]:
    """Call, Salt's result and ours."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        folder = Path(made)
        home(folder)
        both = [_of_process(side, folder, calls) for side in ("salt", "ours")]
    return list(zip(calls, *both, strict=True))


def _of_process(side: str, folder: Path, calls: Sequence[str]) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.compat.everyday", "--side", side, str(folder)],
        input="\n".join(calls), capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def is_equal(line: str, theirs: Any, ours: Any) -> bool:
    if line.startswith(MOVES):
        return bool(form(theirs) == form(ours))
    return bool(theirs == ours)


def main() -> None:
    """See the docstring of the file."""
    logging.disable(logging.CRITICAL)
    if sys.argv[1:2] == ["--side"]:
        aside = io.StringIO()
        with contextlib.redirect_stdout(aside), contextlib.redirect_stderr(aside):
            found = results(sys.argv[2], Path(sys.argv[3]), sys.stdin.read().splitlines())
        print(json.dumps(found))
        return
    calls = lines(Path(sys.argv[1])) if len(sys.argv) > 1 else lines()
    rows = compared(calls)
    differ = [row for row in rows if not is_equal(*row)]
    print(json.dumps({"calls": len(rows), "differ": differ}, indent=1))


if __name__ == "__main__":
    main()
