"""hashutil, environ, temp and random, as Salt's users know them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import string
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from saltlite.client.arguments import parse_arguments
from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.minion.processes.identity import minion_key
from saltlite.model.keys import fingerprint
from saltlite.platform.privileges import secret_made_once
from saltlite.plugins.modules import saltutil as minion_saltutil
from saltlite.plugins.runners import saltutil as runner_saltutil
from saltlite.wire.noise import public_of

INDEX = build_index(search_layers({}))


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {"id": "web1"}, {}, {}), fun, args, kwargs)


def done(fun: str, *args: Any, **kwargs: Any) -> Any:
    outcome = run(fun, *args, **kwargs)
    assert outcome.retcode == 0, outcome.value
    return outcome.value


def refusal(fun: str, *args: Any, **kwargs: Any) -> str:
    outcome = run(fun, *args, **kwargs)
    assert outcome.retcode == 1, outcome.value
    return str(outcome.value)


# --- key


def test_fingerprints_are_those_that_the_master_shows(tmp_path: Path) -> None:
    def value(fun: str, **kwargs: Any) -> Any:
        return call(Loader(INDEX, {"id": "web1", "pki_dir": str(tmp_path)}, {}, {}), fun, (), kwargs).value

    private = bytes(range(32))
    fleet = "ABCDE-FGHIJ-KLMNO-PQRST-UVWXY-Z2345-67ABC-DEFGH"
    assert "makes its key at its first start" in value("key.finger")
    (tmp_path / "minion.key").write_bytes(private)
    (tmp_path / "fleet.pin").write_text(f"{fleet}\n{fleet[::-1]}\n")
    assert value("key.finger") == value("key.finger", hash_type="sha256") == fingerprint(public_of(private))
    assert value("key.finger_master") == fleet
    assert "sha256 only" in value("key.finger", hash_type="md5")
    assert "sha256 only" in value("key.finger_master", hash_type="md5")
    (tmp_path / "minion.key").write_bytes(b"short")
    (tmp_path / "fleet.pin").write_text("")
    assert "is not a key of 32 bytes" in value("key.finger")
    assert "fleet.pin is damaged" in value("key.finger_master")
    (tmp_path / "minion.key").unlink()
    (tmp_path / "minion.key").mkdir()
    assert "cannot be read: Is a directory" in value("key.finger")
    assert "without a minion" in refusal("key.finger")


def test_saltlite_call_makes_the_key_that_the_minion_takes_at_its_first_start(tmp_path: Path) -> None:
    (tmp_path / "minion").write_text(f"root_dir: {tmp_path}\nid: web1\n")
    argv = [sys.executable, "-m", "saltlite", "call", "-c", str(tmp_path), "--local", "key.finger", "--out", "json"]
    shown = [json.loads(subprocess.run(argv, capture_output=True, check=True).stdout) for _ in range(2)]
    pki = tmp_path / "etc" / "saltlite" / "pki" / "minion"
    assert shown == [{"local": fingerprint(public_of(minion_key(str(pki), bytes)))}] * 2
    assert (pki.stat().st_mode & 0o777, (pki / "minion.key").stat().st_mode & 0o777) == (0o700, 0o600)
    assert [path.name for path in pki.iterdir()] == ["minion.key"]


def test_of_two_that_make_a_key_both_have_that_of_the_first(tmp_path: Path) -> None:
    path = str(tmp_path / "minion.key")

    def late() -> bytes:
        secret_made_once(path, lambda: b"first")
        return b"second"

    assert secret_made_once(path, late) == b"first"


# --- test


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_warnings_of_deprecation_reach_the_caller() -> None:
    outcome = run("test.deprecation_warning")
    assert (outcome.value, outcome.retcode) == (True, 0)
    assert outcome.warnings == (
        "DeprecationWarning: This is a test deprecation warning by version.",
        "DeprecationWarning: This is a test deprecation warning by date very far into the future (3000-01-01).",
    )


# --- hashutil; the values are those of Salt's documentation, RFC 4648 and RFC 4231

KEY, DATA = "Jefe", "what do ya want for nothing?"
RFC4231 = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"


@pytest.mark.parametrize(
    ("fun", "args", "expected"),
    [
        ("digest", ("abc",), "900150983cd24fb0d6963f7d28e17f72"),
        ("digest", ("abc", "sha256"), hashlib.sha256(b"abc").hexdigest()),
        ("md5_digest", ("abc",), "900150983cd24fb0d6963f7d28e17f72"),
        ("sha256_digest", (b"\xff",), hashlib.sha256(b"\xff").hexdigest()),
        ("sha512_digest", ("größe",), hashlib.sha512("größe".encode()).hexdigest()),
        ("base64_b64encode", ("get salted",), "Z2V0IHNhbHRlZA=="),
        ("base64_b64decode", ("Z2V0IHNhbHRlZA==",), "get salted"),
        ("base64_b64decode", ("/w==",), b"\xff"),
        ("base64_encodestring", ("get salted",), "Z2V0IHNhbHRlZA==\n"),
        ("base64_encodestring", ("a" * 58,), "YWFh" * 19 + "\nYQ==\n"),
        ("base64_decodestring", ("Z2V0IHNh\nbHRlZA==\n",), "get salted"),
        ("hmac_compute", (DATA, KEY), RFC4231),
        ("hmac_signature", ("get salted", "shared secret", "eBWf9bstXg+NiP5AOwppB5HMvZiYMPzEM9W5YMm/AmQ="), True),
        ("hmac_signature", ("get salted", "shared secret", "eBWf"), False),
        ("github_signature", (DATA, KEY, f"sha256={RFC4231}"), True),
        ("github_signature", (DATA, KEY, f"sha256={RFC4231[:-1]}4"), False),
        ("github_signature", (DATA, KEY, "sha1=größe"), False),
    ],
)
def test_texts_are_hashed_encoded_and_signed(fun: str, args: tuple[Any, ...], expected: Any) -> None:
    assert done(f"hashutil.{fun}", *args) == expected


@pytest.mark.parametrize(
    ("fun", "args", "said"),
    [
        ("digest", ("abc", "crc32"), "Hash func 'crc32' is not supported"),
        ("digest_file", ("/no/such",), "File path '/no/such' not found."),
        ("base64_encodefile", ("/no/such",), "File path '/no/such' not found."),
        ("base64_b64decode", ("a",), "This is not base64"),
        ("github_signature", ("a", "b", "md5=c"), "A signature begins with"),
        ("github_signature", ("a", "b", "c"), "A signature begins with"),
        ("base64_decodefile", ("YQ==", "/no/such/folder"), "Parent directory not present"),
    ],
)
def test_what_cannot_be_hashed_or_decoded_is_said(fun: str, args: tuple[str, ...], said: str) -> None:
    assert said in refusal(f"hashutil.{fun}", *args)


@pytest.mark.parametrize("function", ["hashutil.sha256_digest", "hashutil.base64_b64encode", "random.hash"])
def test_what_a_person_types_is_hashed_as_it_stands(function: str) -> None:
    texts = [text for text in INDEX.function_texts({}) if text.startswith(f"{function}(")]
    assert parse_arguments(["1.50"], texts) == (["1.50"], {})


def test_files_become_base64_and_back(tmp_path: Path) -> None:
    content = bytes(range(256))
    (tmp_path / "a b").write_bytes(content)
    encoded = done("hashutil.base64_encodefile", f"{tmp_path}/a b")
    assert "would be written" in done("hashutil.base64_decodefile", encoded, f"{tmp_path}/c", test=True)
    assert not (tmp_path / "c").exists()
    assert done("hashutil.base64_decodefile", encoded, f"{tmp_path}/c") is True
    assert (tmp_path / "c").read_bytes() == content
    assert done("hashutil.digest_file", f"{tmp_path}/c", "sha256") == hashlib.sha256(content).hexdigest()


def test_a_file_that_would_not_fit_into_a_return_is_not_encoded(tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as stream:
        stream.truncate(12 * 1024 * 1024 + 1)
    assert "would not fit into a return" in refusal("hashutil.base64_encodefile", f"{tmp_path}/big")


# --- environ


@pytest.fixture(autouse=True)
def _same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())


def test_variables_are_set_and_read() -> None:
    assert done("environ.setval", "SLT_A", "x") == "x"
    assert (done("environ.get", "SLT_A"), done("environ.get", "SLT_NO", "-")) == ("x", "-")
    assert [done("environ.has_value", *args) for args in (("SLT_A",), ("SLT_A", "x"), ("SLT_A", "y"), ("SLT_NO",))] == [
        True, True, False, False,
    ]  # fmt: skip
    assert done("environ.item", ["SLT_A", "SLT_NO"], default="-") == {"SLT_A": "x", "SLT_NO": "-"}
    assert done("environ.item", "SLT_A") == {"SLT_A": "x"}
    assert done("environ.item", None) == {}
    assert done("environ.items")["SLT_A"] == "x"


def test_false_empties_or_unsets_a_variable() -> None:
    done("environ.setenv", {"SLT_A": "x", "SLT_B": "y"})
    assert done("environ.setenv", {"SLT_A": False}) == {"SLT_A": ""}
    assert done("environ.setenv", {"SLT_B": False}, false_unsets=True) == {"SLT_B": None}
    assert (done("environ.get", "SLT_A", "-"), done("environ.get", "SLT_B", "-")) == ("", "-")


def test_all_other_variables_can_be_cleared() -> None:
    done("environ.setenv", {"SLT_A": "x"})
    found = done("environ.setenv", {"SLT_B": "y"}, false_unsets=True, clear_all=True)
    assert (found["SLT_A"], done("environ.items")) == (None, {"SLT_B": "y"})


def test_values_that_are_no_texts_are_not_set() -> None:
    assert (done("environ.setval", "SLT_A", 5), done("environ.setenv", {"SLT_B": 5}), done("environ.setenv", "x")) == (
        False, False, False,
    )  # fmt: skip
    assert [name for name in os.environ if name.startswith("SLT_")] == []


def test_a_dry_run_sets_nothing() -> None:
    assert done("environ.setenv", {"SLT_A": "x"}, test=True) == {"SLT_A": "x"}
    assert "SLT_A" not in os.environ


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "said"),
    [
        ("setval", ("a=b", "x"), {}, "is not the name of a variable"),
        ("setval", ("", "x"), {}, "is not the name of a variable"),
        ("setenv", ({"SLT_A": "x", "a\0": "x"},), {}, "is not the name of a variable"),
        ("setval", ("SLT_A", "a\0b"), {}, "NUL character"),
        ("setval", ("SLT_A", "x"), {"permanent": True}, "permanent needs a registry"),
        ("setenv", ({},), {"permanent": "HKLM"}, "permanent needs a registry"),
        ("setenv", ({},), {"update_minion": True}, "update_minion does not apply"),
    ],
)
def test_what_cannot_be_set_is_refused_whole(
    fun: str, args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    assert said in refusal(f"environ.{fun}", *args, **kwargs)
    assert "SLT_A" not in os.environ


# --- temp


def test_temporary_files_and_folders_are_private(tmp_path: Path) -> None:
    file = done("temp.file", suffix=".x", prefix="slt ö", parent=str(tmp_path))
    folder = done("temp.dir", prefix="slt-", parent=str(tmp_path))
    assert (os.path.dirname(file), os.path.basename(file)[:5], file[-2:]) == (str(tmp_path), "slt ö", ".x")
    assert [stat.S_IMODE(os.stat(each).st_mode) for each in (file, folder)] == [0o600, 0o700]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of other users")
@pytest.mark.parametrize("fun", ["temp.file", "temp.dir"])
def test_nothing_temporary_is_made_where_a_link_of_a_user_leads(fun: str, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    (theirs / "link").symlink_to(ours)
    for each in (theirs, theirs / "link"):
        os.chown(each, 65534, 65534, follow_symlinks=False)
    assert "to what is not theirs" in refusal(fun, parent=f"{theirs}/link")
    assert list(ours.iterdir()) == []


@pytest.mark.parametrize("fun", ["temp.file", "temp.dir"])
@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"prefix": "../x"}, "cannot be a part of a name"),
        ({"suffix": "a\0"}, "cannot be a part of a name"),
        ({"parent": "tmp"}, "is not an absolute path"),
        ({"parent": "/no/such"}, "Nothing can be made in /no/such: No such file or directory."),
    ],
)
def test_temporary_files_are_not_made_elsewhere(fun: str, kwargs: dict[str, str], said: str) -> None:
    assert said in refusal(fun, **kwargs)


# --- random; seeded values are those that Python's generator gives to Salt


@pytest.mark.parametrize(
    ("fun", "args", "expected"),
    [
        ("hash", ("abc", "md5"), "900150983cd24fb0d6963f7d28e17f72"),
        ("hash", ("abc",), hashlib.sha512(b"abc").hexdigest()),
        ("str_encode", ("get salted",), "Z2V0IHNhbHRlZA=="),
        ("str_encode", ("ö", "utf-16-le"), b"\xf6\x00"),
        ("seed", (10, "x"), 5),
        ("seed", (1000, None), 840),
        ("sample", ([1, 2, 3], 2, "s"), [2, 3]),
        ("shuffle", ([1, 2, 3], "s"), [2, 3, 1]),
        ("rand_int", (1, 10, "s"), 8),
    ],
)
def test_the_same_seed_gives_the_same(fun: str, args: tuple[Any, ...], expected: Any) -> None:
    assert done(f"random.{fun}", *args) == expected


def test_without_a_seed_the_choice_is_random() -> None:
    items = list(range(50))
    assert sorted(done("random.shuffle", items)) == items
    assert done("random.shuffle", items) != done("random.shuffle", items)
    assert {done("random.rand_int", 1, 2) for _ in range(64)} == {1, 2}


@pytest.mark.parametrize(
    ("kwargs", "alphabet"),
    [
        ({}, string.ascii_letters + string.digits + string.punctuation),
        ({"punctuation": False, "digits": False, "uppercase": False}, string.ascii_lowercase),
        ({"chars": "ab"}, "ab"),
        ({"printable": True, "chars": "a"}, string.printable),
    ],
)
def test_random_texts_are_of_the_characters_asked_for(kwargs: dict[str, Any], alphabet: str) -> None:
    text = done("random.get_str", 2000, **kwargs)
    assert (len(text), set(text)) == (2000, set(alphabet))
    assert len(done("random.get_str")) == 20


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (
            "sha512",
            ("$6$saltsalt$/ANahr2Rbj3.vbf97OjmJYfiAO0YeLr3NoxMqtyzk583vGzsVG4.DcaGr8rlkh5t15w6JH2TRHXtJtwScRcxh1"),
        ),
        ("sha256", ("$5$saltsalt$FUo6Mqjhi2sim7hybqWvXp2TGAF4xUzDt75Gwzwjts9")),
        ("md5", ("$1$saltsalt$kc4/EZOQ4NHLL/nVtcqQ10")),
    ],
)
def test_hashes_of_passwords_are_those_of_openssl(method: str, expected: str) -> None:
    assert done("random.shadow_hash", "saltsalt", "geheim ö", method) == expected


@pytest.mark.parametrize(("method", "begin"), [("crypt", ""), ("sha512", "$6$"), ("md5", "$1$")])
def test_a_salt_is_made_where_none_is_given(method: str, begin: str) -> None:
    first, second = (done("random.shadow_hash", None, "x", method) for _ in range(2))
    assert (first.startswith(begin), first != second) == (True, True)
    assert done("random.shadow_hash") != done("random.shadow_hash")


def test_blowfish_takes_its_rounds_from_the_salt() -> None:
    salt = "04$abcdefghijklmnopqrstuu"
    found = done("random.shadow_hash", salt, "geheim", "blowfish")
    assert (found[:29], len(found)) == (f"$2b${salt}", 60)
    assert done("random.shadow_hash", salt, "Geheim", "blowfish") != found


@pytest.mark.parametrize(
    ("fun", "args", "said"),
    [
        ("hash", ("a", "crc32"), "You must specify a valid algorithm"),
        ("hash", ("a", "shake_128"), "You must specify a valid algorithm"),
        ("str_encode", ("a", "nosuch"), "You must specify a valid encoder"),
        ("str_encode", (None,), "There is no text to encode"),
        ("str_encode", ("ö", "ascii"), "cannot be written as ascii"),
        ("get_str", ("x",), "length is a number"),
        ("get_str", (1_000_001,), "length is between 0 and 1000000"),
        ("get_str", (5, "", False, False, False, False), "no character left"),
        ("rand_int", (5, 1), "no whole number from 5 to 1"),
        ("seed", (0, "x"), "range is a whole number above zero"),
        ("sample", ([1], 2), "cannot be taken of 1"),
        ("shuffle", ("abc",), "value is a list"),
        ("shadow_hash", ("a", "secret", "rot13"), "'rot13' is not an algorithm"),
        ("shadow_hash", ("a:b", "secret"), "is not a salt"),
        ("shadow_hash", ("!", "secret", "crypt"), "is not a salt"),
    ],
)
def test_what_makes_no_sense_is_refused_without_the_password(fun: str, args: tuple[Any, ...], said: str) -> None:
    text = refusal(f"random.{fun}", *args)
    assert (said in text, "secret" in text) == (True, False)


# -- what has nothing to do here, and what other modules return


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("serializers", "Nothing was synced. Custom serializers do not exist here."),
        ("thorium", "Nothing was synced. Thorium does not exist here."),
        ("returners", "Nothing was synced. Returners run on the master: use `saltlite-run saltutil.sync_returners`."),
        ("pillar", "Nothing was synced. External pillars run on the master: use `saltlite-run saltutil.sync_pillar`."),
        (
            "states",
            "Nothing was synced. Each run of states takes salt://_states itself, where Salt is installed beside.",
        ),
        (
            "renderers",
            "Nothing was synced. Each run of states takes salt://_renderers itself, where Salt is installed beside.",
        ),
    ],
)
def test_a_sync_of_what_minions_do_not_have_says_so_and_is_no_failure(kind: str, why: str) -> None:
    outcome = call(Loader(INDEX, {}, {}, {}), f"saltutil.sync_{kind}", [], {"saltenv": "base", "refresh": False})
    assert (outcome.value, outcome.retcode, list(outcome.warnings)) == ([], 0, [why])


@pytest.mark.parametrize(("module", "count"), [(minion_saltutil, 14), (runner_saltutil, 16)])
def test_each_function_that_syncs_nothing_has_a_sentence(module: ModuleType, count: int) -> None:
    functions = {
        name: one
        for name, one in vars(module).items()
        if (getattr(one, "__doc__", "") or "").startswith("Sync nothing")
    }
    public = {name: one for name, one in functions.items() if not name.startswith("_")}
    assert (set(public), len(public)) == (set(module._NOT_SYNCED), count)
    assert module._sync_nothing not in public.values()
    assert set(re.findall(r"saltutil\.(\w+)", module._sync_nothing.__doc__)) == set(public)


def test_a_module_calls_another_and_shows_what_modules_see() -> None:
    loader = Loader(INDEX, {"mysql.pass": "tea", "id": "web1"}, {"os": "Debian"}, {})
    assert call(loader, "test.attr_call", [], {}).value == {"os": "Debian"}
    shown = call(loader, "test.opts_pkg", [], {}).value
    assert (shown["id"], shown["mysql.pass"], shown["grains"]) == ("web1", "***", {"os": "Debian"})
