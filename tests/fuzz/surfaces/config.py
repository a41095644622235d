"""Configuration files: each is read, or refused with sentences that say where."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from saltlite.cloud.program.files import load_cloud, load_map
from saltlite.config.load import load_api, load_master, load_minion
from saltlite.errors import SaltliteError
from tests.fuzz.surface import mutate_bytes, mutate_text

CONF = Path(__file__).parents[3] / "conf"
READERS: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("master", load_master),
    ("minion", load_minion),
    ("api", load_api),
    ("cloud", load_cloud),
    ("cloud.providers", load_cloud),
    ("cloud.profiles", load_cloud),
    ("map", load_map),
)
WORDS = (
    ": ", "- ", "\n", "\n  ", "  ", "&a ", "*a", "<<: ", "!!python/object ", "!!binary ", "!!set ", "? ", "| ", "> ",
    "---\n", "...\n", "{", "}", "[", "]", "'", '"', "#", "%YAML 1.1\n", "\t", "null", "true", "yes", "1_000", "0o777",
    "1e400", ".inf", ".nan", "2027-01-01", "12:30:45", "0x" + "f" * 40, "-", "~", "=", "\ufeff", "\u2028", "\x00",
    "publisher_acl", "external_auth", "nodegroups", "hooks", "file_roots", "pillar_roots", "returner_config", "timeout",
    "root_dir", "/", "..", "keep_jobs", "1h", "-1", "99999999999999999999", "driver", "provider", "extends", "minion",
    "size", "local", "saltify", "(" * 30, "[" * 200, "{a: " * 50,
)  # fmt: skip
EXAMPLES = (
    (
        "timeout: 5\nkeep_jobs: 24h\nnodegroups:\n  web: 'web* and G@os:Debian'\npublisher_acl:\n  bob:\n    - test.*\n"
        "    - 'web*': [pkg.*, '@runner']\nfile_roots:\n  base: [/srv/salt]\nworker_threads: 4\n"
    ),
    (
        "external_auth:\n  pam:\n    bob%: ['.*', '@jobs']\nhooks:\n  deploy:\n    tag: 'app/*'\n    data: {a: b}\n"
        "    as: root\n    fun: test.ping\n    tgt: 'web*'\n    args: ['{data.name}']\n    rate: 5/min\n"
    ),
    "id: web1\nmaster: [a, 'b:4515']\ngrains: {roles: [web, db], n: 1}\nmodule_executors: [splay]\nsplaytime: 3\n",
    "port: 8000\ndisable_ssl: true\nnetapi_enable_clients: [local]\ncors_origins: ['https://a.b']\n",
    "deploy_timeout: 300\nlog_level: info\n",
    "mine:\n  driver: saltify\n  k: v\nother:\n  extends: mine\n",
    "small:\n  provider: mine\n  size: 1\n  minion: {grains: {a: b}}\nbig: {extends: small}\n",
    "small:\n  - a\n  - b: {minion: {x: 1}}\n",
)


class Config:
    """The first byte says which file it is, the rest is the file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def seeds(self) -> Sequence[bytes]:
        found = [bytes((number,)) + text.encode() for number in range(len(READERS)) for text in EXAMPLES]
        for number, (name, _reader) in enumerate(READERS):
            sample = CONF / name
            if sample.is_file():
                # The samples are comments; without their signs they set everything.
                text = "\n".join(line.removeprefix("#") for line in sample.read_text().splitlines() if line[:2] != "# ")
                found.append(bytes((number,)) + text.encode())
        return found

    def run(self, data: bytes) -> None:
        if not data:
            return
        name, read = READERS[data[0] % len(READERS)]
        path = self._folder / name
        path.write_bytes(data[1:])
        try:
            read(str(path if name == "map" else self._folder))
        except SaltliteError as error:
            text = str(error)
            assert text.strip(), "an error without a sentence"
        finally:
            path.unlink()

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        if rng.random() < 0.2:
            return mutate_bytes(data, rng)
        text = data[1:].decode("utf-8", "replace")
        for _ in range(rng.choice((1, 1, 3))):
            text = mutate_text(text, rng, WORDS)
        first = bytes((rng.randrange(len(READERS)),)) if rng.random() < 0.1 else data[:1]
        return first + text.encode("utf-8", "replace")

    def close(self) -> None:
        pass
