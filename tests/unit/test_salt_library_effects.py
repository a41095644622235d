"""Salt's library for users' files: functions that read, write, run, wait or log."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from saltlite.decorators import collecting
from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.salt import cache, config, loader, output, payload, template
from saltlite.salt.exceptions import FileLockError, MinionError, SaltCacheError, SaltRenderError, TimedProcTimeoutError
from saltlite.salt.loader import context, dunder
from saltlite.salt.utils import (
    atomicfile,
    dns,
    filebuffer,
    files,
    find,
    gzip_util,
    hashutils,
    http,
    itertools,
    jid,
    lazy,
    mount,
    network,
    pagerduty,
    path,
    pkg,
    powershell,
    pycrypto,
    slack,
    systemd,
    tarfileutil,
    templates,
    timed_subprocess,
    user,
    verify,
    versions,
)


def mode_of(place: Path) -> int:
    return stat.S_IMODE(place.stat().st_mode)


def test_fopen_is_utf_8_keeps_line_ends_and_is_closed_in_programs(tmp_path: Path) -> None:
    place = str(tmp_path / "a")
    with files.fopen(place, "w") as file:
        file.write("ä\r\n")
        assert not os.get_inheritable(file.fileno())
    assert Path(place).read_bytes() == "ä\r\n".encode()
    with files.fopen(place, binary=True) as file:
        assert file.read() == "ä\r\n".encode()
    with files.fopen(place, mode="rb", buffering=1) as file:
        assert file.read(1) == b"\xc3"
    with files.fopen(place, "r", encoding="latin-1") as file:
        assert file.read(2) == "Ã¤"


def test_fpopen_sets_the_mode_and_flopen_locks(tmp_path: Path) -> None:
    place = tmp_path / "a"
    with files.fpopen(str(place), "w", uid=os.getuid(), mode=0o640) as file:
        file.write("x")
    assert mode_of(place) == 0o640
    locks = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_SH | fcntl.LOCK_NB)"
    with files.flopen(str(place), "a"):
        assert (
            subprocess.run([sys.executable, "-c", locks, place], check=False, stderr=subprocess.DEVNULL).returncode == 1
        )
    with files.flopen(str(place)):
        assert subprocess.run([sys.executable, "-c", locks, place], check=False).returncode == 0


def test_mkstemp_closes_its_file_unless_told_not_to(tmp_path: Path) -> None:
    place = files.mkstemp(dir=str(tmp_path))
    assert os.path.basename(place).startswith("__salt.tmp.")
    fd, other = files.mkstemp(dir=str(tmp_path), prefix="x", close_fd=False)
    os.write(fd, b"y")
    os.close(fd)
    assert Path(other).read_bytes() == b"y"


def test_copyfile_replaces_at_once_and_keeps_mode_and_a_backup(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    old = tmp_path / "old"
    old.write_text("old")
    old.chmod(0o604)
    files.copyfile(str(tmp_path / "new"), str(old), "minion", str(tmp_path / "cache"))
    assert (old.read_text(), mode_of(old)) == ("new", 0o604)
    [kept] = (tmp_path / "cache" / "file_backup").rglob("old_*")
    assert kept.read_text() == "old"
    for source, dest in ((tmp_path / "none", old), (old, tmp_path / "no" / "folder")):
        with pytest.raises(OSError, match="No such file"):
            files.copyfile(str(source), str(dest))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["cache", "new", "old"]


def test_folders_are_copied_walked_and_removed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "f").write_text("x")
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
    assert sorted(files.list_files(str(tmp_path / "a" / "b"))) == [str(tmp_path / "a/b"), str(tmp_path / "a/b/f")]
    assert [root for root, _, _ in files.safe_walk(str(tmp_path / "a"))] == [str(tmp_path / "a"), str(tmp_path / "a/b")]
    files.recursive_copy(str(tmp_path / "a" / "b"), str(tmp_path / "c"))
    assert (tmp_path / "c" / "f").read_text() == "x"
    files.rm_rf(str(tmp_path / "a" / "loop"))
    files.rm_rf(str(tmp_path / "a"))
    files.safe_rm(str(tmp_path / "a"))
    files.remove(str(tmp_path / "a"))
    assert [one.name for one in tmp_path.iterdir()] == ["c"]


def test_rename_says_what_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("x")
    files.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "b").read_text() == "x"

    def refuse(_source: str, _dest: str) -> None:
        raise FileExistsError(17, "File exists")

    monkeypatch.setattr(os, "rename", refuse)
    (tmp_path / "folder").mkdir()
    with pytest.raises(MinionError, match="Unable to remove"):
        files.rename(str(tmp_path / "b"), str(tmp_path / "folder"))


def test_a_lock_file_is_waited_for_and_removed(tmp_path: Path) -> None:
    place = str(tmp_path / "a")
    with files.wait_lock(place):
        assert os.path.exists(f"{place}.w")
        with (
            pytest.raises(FileLockError, match=r"Timeout of 0.05 seconds"),
            files.wait_lock(place, timeout=0.05, sleep=0.01),
        ):
            raise AssertionError
        release = threading.Timer(0.05, os.remove, [f"{place}.w"])
        release.start()
        with files.wait_lock(place, sleep=0.01):
            release.join()
        Path(f"{place}.w").touch()
    assert not os.path.exists(f"{place}.w")
    with pytest.raises(FileLockError, match="obtaining file lock"), files.wait_lock(place):
        raise ValueError("inside")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileLockError, match="is not a file"), files.wait_lock(place, str(tmp_path / "folder")):
        raise AssertionError

    async def hold() -> bool:
        async with files.await_lock(place):
            return os.path.exists(f"{place}.w")  # noqa: ASYNC240 - a test has one coroutine

    assert asyncio.run(hold())


def test_the_umask_is_set_for_a_block() -> None:
    before = files.get_umask()
    with files.set_umask(0o027):
        assert files.get_umask() == 0o027
    with files.set_umask(None):
        assert files.get_umask() == before
    assert files.get_umask() == before


def test_encodings_are_found(tmp_path: Path) -> None:
    for data, name in ((b"\xff\xfea\0", "UTF-16-LE"), (b"\xef\xbb\xbfa", "UTF-8"), ("ä".encode(), "UTF-8")):
        (tmp_path / "a").write_bytes(data)
        assert files.get_encoding(str(tmp_path / "a")) == name
    (tmp_path / "a").write_bytes(b"\xe4\xf6")
    with pytest.raises(CommandExecutionError, match="Could not detect"):
        files.get_encoding(str(tmp_path / "a"))
    assert files.case_insensitive_filesystem(str(tmp_path)) is False


def test_atomic_files_appear_when_they_are_closed(tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.write_text("old")
    place.chmod(0o640)
    with atomicfile.atomic_open(str(place)) as file:
        file.write("new")
        assert place.read_text() == "old"
    assert (place.read_text(), mode_of(place)) == ("new", 0o640)
    with pytest.raises(ZeroDivisionError), atomicfile.atomic_open(str(place)) as file:
        file.write(str(1 / 0))
    with files.set_umask(0o022), atomicfile.atomic_open(str(tmp_path / "b"), "wb") as file:
        file.write(b"x")
    assert mode_of(tmp_path / "b") == 0o644
    atomicfile.safe_atomic_write(str(place), "newer")
    assert place.read_text() == "newer"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "b"]
    with pytest.raises(TypeError):
        atomicfile.atomic_open(str(place), "a")


def test_files_are_read_in_blocks(tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.write_text("abcdefgh")
    assert list(itertools.read_file(str(place), 3)) == [b"abc", b"def", b"gh"]
    assert b"".join(map(gzip_util.uncompress, gzip_util.compress_file(str(place), chunk_size=4))) == b"abcdefgh"
    with filebuffer.BufferedReader(str(place), max_in_mem=4, chunk_size=2) as blocks:
        assert list(blocks) == ["abcd", "cdef", "efgh"]
    with pytest.raises(filebuffer.InvalidFileMode):
        filebuffer.BufferedReader(str(place), mode="w")
    with pytest.raises(ValueError, match="integer"):
        list(itertools.read_file(str(place), 1.5))  # type: ignore[arg-type] # what is refused
    assert hashutils.get_hash(str(place), "md5") == hashutils.md5_digest("abcdefgh")
    digests = hashutils.DigestCollector("sha1")
    digests.add(str(place))
    digests.add_data("x")
    assert digests.digest() == f"{hashutils.sha1_digest('abcdefghx')}\n"
    assert list(find.Finder({"name": "a"}).find(str(tmp_path))) == [str(place)]


def test_an_archive_cannot_write_outside_of_its_folder(tmp_path: Path) -> None:
    import tarfile

    (tmp_path / "f").write_text("x")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "f", "inside")
        tar.add(tmp_path / "f", "../outside")
    with tarfile.open(tmp_path / "a.tar") as tar:
        tarfileutil.extract(tar, "inside", str(tmp_path / "x"))
        with pytest.raises(tarfile.FilterError):
            tarfileutil.extractall(tar, str(tmp_path / "x"))  # noqa: S202 - it refuses what is unsafe
    assert (tmp_path / "x" / "inside").read_text() == "x"


def test_programs_are_found_in_path_and_in_the_usual_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "zz-program"
    program.write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert path.which("zz-program") is None
    program.chmod(0o755)
    assert path.which("zz-program") == str(program)
    assert path.which("sh") in ("/bin/sh", "/usr/bin/sh")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert path.expand("~/zz-program") == str(program.resolve())


def test_a_program_may_run_for_a_limited_time() -> None:
    done = timed_subprocess.TimedProc(["cat"], stdin="a\\nb", stdout=subprocess.PIPE)
    assert (done.run(), done.stdout) == (0, b"a\nb")
    assert timed_subprocess.TimedProc("exit 3", shell=True).run() == 3  # noqa: S604 - what is tested
    slow = timed_subprocess.TimedProc("sleep 60", timeout=0.05)
    with pytest.raises(TimedProcTimeoutError, match=r"Timed out after 0.05 seconds"):
        slow.run()
    assert slow.process.returncode == -9
    with pytest.raises(TimedProcTimeoutError, match="must be a number"):
        timed_subprocess.TimedProc(["true"], timeout="5")


def test_passwords_are_random_and_hashed() -> None:
    password = pycrypto.secure_password(30, chars="ab")
    assert (len(password), set(password) <= set("ab")) == (30, True)
    assert pycrypto.gen_hash("salt", "secret", "sha256").startswith("$5$salt$")
    with pytest.raises(SaltInvocationError):
        pycrypto.gen_hash("salt", "secret", "zz")
    with pytest.raises(CommandExecutionError):
        pycrypto.secure_password("many")


def test_warnings_name_the_version_that_ends_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(DeprecationWarning, match=r"until 3009.0 \(Potassium\)"):
        versions.warn_until(3009, "until {version}")
    assert capsys.readouterr().err == ""
    with pytest.warns(DeprecationWarning, match="now"):
        versions.warn_until("Argon", "now")
    assert "Please remove the warning" in capsys.readouterr().err
    with pytest.warns(DeprecationWarning, match="2200-01-01"):
        versions.warn_until_date("22000101", "until {date}")
    with pytest.warns(DeprecationWarning, match="'a'"):
        versions.kwargs_warn_until({"a": 1}, "Potassium")
    versions.kwargs_warn_until({}, "Potassium")
    with pytest.raises(RuntimeError, match="is no version"):
        versions.warn_until("zz", "x")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_callers_of_a_function_see_what_it_warns_of(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as notes:
        versions.warn_until(3108, "by version")
        versions.warn_until_date("30000101", "by {date}", category=FutureWarning)
    assert list(notes) == ["DeprecationWarning: by version", "FutureWarning: by 3000-01-01"]
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    with collecting() as notes:
        versions.warn_until(3108, "by version")
    assert not notes


def test_the_refresh_tag_of_packages(tmp_path: Path) -> None:
    opts = {"cachedir": str(tmp_path)}
    assert not pkg.check_refresh(opts)
    pkg.write_rtag(opts)
    assert pkg.check_refresh(opts)
    assert not pkg.check_refresh(opts, refresh=False)
    pkg.clear_rtag(opts)
    pkg.clear_rtag(opts)
    assert not pkg.check_refresh(opts)
    assert mount.read_cache(opts) == {}
    assert mount.write_cache({"/a": {"b": 1}}, opts)
    assert mount.read_cache(opts) == {"/a": {"b": 1}}


def test_systemd_is_asked_once_for_each_context(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def answer(*arguments: str) -> subprocess.CompletedProcess[str]:
        asked.append(arguments)
        return subprocess.CompletedProcess(arguments, 0, "systemd 252 (252.1)\n", "")

    monkeypatch.setattr(systemd, "_systemctl", answer)
    known: dict[str, Any] = {"salt.utils.systemd.booted": True}
    assert [systemd.has_scope(known), systemd.version(known), systemd.has_scope(known)] == [True, 252, True]
    assert asked == [("--version",), ("status",)]
    assert systemd.offline({"salt.utils.systemd.booted": True}) is False


def test_without_systemctl_there_is_no_version_of_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/no/such")
    assert systemd.version() is None


def test_names_of_a_call_are_those_of_its_loader() -> None:
    class Calling:
        pack: Mapping[str, Any] = {"__grains__": {"os": "Debian"}, "__context__": {}}
        pack_self = "__salt__"
        parent_loader = None

        def missing_fun_string(self, name: str) -> str:
            return f"no {name}"

    assert dunder.__grains__.value() is None
    with context.loader_context(Calling()):
        assert dunder.__grains__["os"] == "Debian"
        assert (dict(dunder.__grains__), len(dunder.__grains__), "os" in dunder.__grains__) == (
            {"os": "Debian"},
            1,
            True,
        )
        dunder.__context__["a"] = 1
        assert Calling.pack["__context__"] == {"a": 1}
        assert isinstance(dunder.__salt__.value(), Calling)
        assert dunder.__salt__.missing_fun_string("x") == "no x"
        with pytest.raises(Exception, match="does not have a packed value for: __pillar__"):
            dunder.__pillar__.value()
    assert dunder.__grains__.with_default({"a": 2})["a"] == 2


def test_renderers_make_a_pipe(tmp_path: Path) -> None:
    renderers = loader.render({"grains": {"os": "Debian"}, "pillar": {"a": 1}}, {})
    text = "#!jinja|yaml\nos: {{ grains.os }}\na: {{ pillar.a + 1 }}\nx: {{ x }}\n"
    (tmp_path / "a.sls").write_text(text)
    found = template.compile_template(str(tmp_path / "a.sls"), renderers, "yaml", None, None, context={"x": 5})
    assert found == {"os": "Debian", "a": 2, "x": 5}
    assert template.compile_template_str('{"a": [1]}', renderers, "json", None, None) == {"a": [1]}
    with pytest.raises(SaltRenderError):
        template.compile_template_str("a: [", renderers, "yaml", None, None)


@pytest.mark.parametrize(
    ("text", "default", "missing"),
    [
        ("#!py\ndef run(): return {}\n", "yaml", "py"),
        ("a: 1\n", "jinja|yaml|gpg", "gpg"),
        ("#!jinja|mako\n", "yaml", "mako"),
    ],
)
def test_a_renderer_that_does_not_exist_is_named_and_none_takes_its_place(
    text: str, default: str, missing: str
) -> None:
    renderers = loader.render({}, {})
    with pytest.raises(SaltRenderError, match=f"there is no '{missing}': there are jinja, json, yaml"):
        template.compile_template_str(text, renderers, default, None, None)
    assert template.compile_template_str("#!jinja|py|yaml\na: 1\n", renderers, "yaml", ["py"], None) == {"a": 1}


def test_a_template_includes_files_of_the_master(tmp_path: Path) -> None:
    names = {"salt": {"cp.get_file_str": lambda address, env: f"{address} {env}"}, "saltenv": "dev"}
    found = templates.JINJA("{% include 'a/b' %}", from_str=True, context=names)
    assert Path(found["data"]).read_text() == "salt://a/b dev"
    (tmp_path / "in").write_text("beside")
    (tmp_path / "t").write_text("{% include 'in' %}")
    assert templates.JINJA(str(tmp_path / "t"), to_str=True, tmplpath=str(tmp_path / "t"))["data"] == "beside"


def test_data_is_printed_by_the_outputters() -> None:
    assert output.string_format({"a": 1}, "nested", color=True) == output.out_format({"a": 1}, "nested")
    assert output.html_format({"a": 1}, "raw") == "{'a':&nbsp;1}<br />"
    with pytest.raises(CommandExecutionError, match="no outputter"):
        output.out_format({}, "zz")


def test_resolv_conf_is_read(tmp_path: Path) -> None:
    place = tmp_path / "resolv.conf"
    place.write_text(
        "# a comment\nnameserver 9.9.9.9\nnameserver ::1\nnameserver 9.9.9.9 # again\nnameserver x\nsearch a b ; c\n"
        "domain d\nsortlist 10.0.0.0 192.168.0.0/255.255.0.0\noptions ndots:2\n\n"
    )
    assert dns.parse_resolv(str(place)) == {
        "nameservers": ["9.9.9.9", "::1"],
        "ip4_nameservers": ["9.9.9.9"],
        "ip6_nameservers": ["::1"],
        "sortlist": ["10.0.0.0/255.0.0.0", "192.168.0.0/255.255.0.0"],
        "domain": "d",
        "search": ["a", "b"],
        "options": ["ndots:2"],
    }


def test_modules_of_powershell_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Mine" / "1.0" / "1.0").mkdir(parents=True)
    (tmp_path / "Mine" / "mine.PSD1").write_text("")
    (tmp_path / "Other").mkdir()
    monkeypatch.setenv("PSModulePath", str(tmp_path))
    assert powershell.get_modules() == ["Mine"]


def test_this_host_and_user() -> None:
    assert "127.0.0.1" in network.ip_addrs(include_loopback=True)
    assert "lo" in network.interfaces()
    assert network.host_to_ips("127.0.0.1") == ["127.0.0.1"]
    assert network.is_reachable_host("127.0.0.1")
    assert network.gen_mac().startswith("AC:DE:48:")
    assert user.get_uid() == os.geteuid()
    assert verify.check_user(user.get_user())


def test_a_lazy_dict_loads_what_it_is_asked_for() -> None:
    class Numbers(lazy.LazyDict):
        def _load(self, key: Any) -> bool:
            if key.isdigit():
                self._dict[key] = int(key)
            return bool(key.isdigit())

        def _load_all(self) -> None:
            self._dict = {"1": 1, "2": 2}
            self.loaded = True

    numbers = Numbers()
    assert (numbers["5"], "x" in numbers, bool(numbers)) == (5, False, True)
    assert (len(numbers), list(numbers)) == (2, ["1", "2"])
    with pytest.raises(CommandExecutionError, match="'x' is not available"):
        lazy.verify_fun(numbers, "x")


def test_job_ids_grow_within_a_process() -> None:
    ids = [jid.gen_jid({"unique_jid": True}) for _ in range(3)]
    assert sorted(set(ids)) == ids
    assert all(one.endswith(f"_{os.getpid()}") for one in ids)
    assert jid.is_jid(jid.gen_jid({}))


def test_a_missing_dependency_of_a_driver_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not config.check_driver_dependencies("mine", {"json": True, "zz": False})
    assert [record.getMessage() for record in caplog.records] == [
        "Missing dependency: 'zz'. The mine driver requires 'zz' to be installed."
    ]


def test_messages_are_written_to_and_read_from_files(tmp_path: Path) -> None:
    payload.dump({"a": ["ä", b"\xff"]}, (tmp_path / "a").open("wb"))
    assert payload.load((tmp_path / "a").open("rb")) == {"a": ["ä", b"\xff"]}
    (tmp_path / "a").write_bytes(b"")
    assert payload.load((tmp_path / "a").open("rb")) is None


def test_a_cache_keeps_values_in_banks(tmp_path: Path) -> None:
    kept = cache.factory({"cachedir": str(tmp_path)})
    kept.store("a/b", "key", {"x": [1]})
    kept.store("a/b", "short", 5, expires=-1)
    assert (kept.fetch("a/b", "key"), kept.fetch("a/b", "short"), kept.fetch("a/b", "none")) == ({"x": [1]}, {}, {})
    assert payload.load((tmp_path / "a" / "b" / "key.p").open("rb")) == {"x": [1]}
    kept.clean_expired("a/b")
    assert (kept.list("a"), kept.list("a/b"), kept.list("zz")) == (["b"], ["key"], [])
    assert (kept.contains("a/b"), kept.contains("a/b", "key"), kept.contains("a/b", "short")) == (True, True, False)
    assert kept.updated("a/b", "none") is None
    assert kept.cache("a/b", "made", lambda **_: [1, 2], lambda one: one * 2) == [2, 4]
    assert kept.cache("a/b", "made", lambda **_: [5]) == [2, 4]
    assert kept.cache("a/b", "made", lambda **_: [5], expire=-1) == [5]
    assert [kept.flush("a/b", "key"), kept.flush("a/b", "key"), kept.flush("a"), kept.flush("a")] == [
        True,
        False,
        True,
        False,
    ]
    for bank, key in (("../a", "key"), ("a", "../../key")):
        with pytest.raises(SaltCacheError, match="leads out of"):
            kept.store(bank, key, 1)
    with pytest.raises(SaltCacheError, match="no cache driver 'redis'"):
        cache.Cache({"cache": "redis"})


def test_pagerduty_and_slack_send_what_their_apis_take(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[Any, ...]] = []

    def query(url: str, method: str = "GET", **options: Any) -> dict[str, Any]:
        sent.append((url, method, options))
        return {"text": '{"services": [{"id": "1"}]}', "status": 200, "dict": {"channels": ["c"]}}

    monkeypatch.setattr(http, "query", query)
    keys = {"pagerduty.api_key": "k", "pagerduty.subdomain": "s"}
    assert pagerduty.list_items("services", "id", keys) == {"1": {"id": "1"}}
    pagerduty.query("POST", keys, action="incidents", data={"description": "d"}, service="v")
    assert [one[:2] for one in sent] == [
        ("https://s.pagerduty.com/api/v1/services", "GET"),
        ("https://s.pagerduty.com/api/v1/incidents", "POST"),
    ]
    assert sent[1][2]["header_dict"]["Authorization"] == "Token token=k"
    assert '"service_key": "v"' in sent[1][2]["data"]
    assert slack.query("rooms", "t0k") == {"res": True, "message": ["c"]}
    assert sent[2][:2] == ("https://slack.com/api/conversations.list", "GET")
    assert slack.query("rooms") == {"res": False, "message": "No Slack api key found."}
