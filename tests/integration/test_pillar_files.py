"""Pillar files on disk: YAML and templates, with the place of each mistake, and no value in any message."""

from __future__ import annotations

import builtins
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import RenderError
from saltlite.model.ids import MinionId
from saltlite.pillar import functions
from saltlite.pillar.compiler import pillar_of
from saltlite.pillar.files import FILE_BYTES_MAX, DiskPillarFiles, pillar_here

SEEN: Mapping[str, Any] = {"grains": {"os": "Debian", "n": 3}, "pillar": {"port": 80}, "opts": {"id": "web1"}}


class Files:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.served = DiskPillarFiles({"base": [str(folder)]})

    def __call__(self, text: str | bytes, path: str = "a.sls") -> Any:
        """What a file with this text says."""
        content = text.encode() if isinstance(text, str) else text
        (self.folder / path).write_bytes(content)
        return self.served.render("base", path, SEEN)

    def mistake(self, text: str | bytes) -> str:
        with pytest.raises(RenderError) as raised:
            self(text)
        return str(raised.value)


@pytest.fixture
def read(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_yaml_is_read_as_hands_that_know_salt_expect(read: Files) -> None:
    text = "a: yes\nb: off\nc: 'yes'\nd: 10\ne: [1.5, ~, x]\n80: web\n'90': text\nwhen: 2026-01-31\nmode: 0644\n"
    assert read(text) == {
        "a": True,
        "b": False,
        "c": "yes",
        "d": 10,
        "e": [1.5, None, "x"],
        80: "web",
        "90": "text",
        "when": "2026-01-31",
        "mode": "0644",
    }


def test_keys_stay_in_the_order_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "top.sls").write_text("base: {'*': [a]}\n")
    (tmp_path / "a.sls").write_text("sites:\n  www: {port: 80, address: x}\n  api: {port: 81}\n  9: {}\n  1: {}\n")
    sites = pillar_here({"base": [str(tmp_path)]}, "web1", {})["sites"]
    assert list(sites) == ["www", "api", 9, 1]
    assert list(sites["www"]) == ["port", "address"]


def test_an_empty_file_says_nothing(read: Files) -> None:
    assert read("# only a comment\n") is None


def test_templates_see_grains_pillar_and_id(read: Files) -> None:
    text = "{% for n in range(grains.n) %}\nk{{ n }}: {{ pillar.port + n }}\n{% endfor %}\nid: {{ opts.id }}\n"
    assert read(text) == {"k0": 80, "k1": 81, "k2": 82, "id": "web1"}


def test_templates_have_filters_for_yaml_and_statements(read: Files) -> None:
    text = (
        "{% set d = {'a': 'x: y'} %}{% do d.update({'b': \"it's\"}) %}\nd: {{ d | json }}\ns: {{ d.b | yaml_squote }}\n"
    )
    assert read(text) == {"d": {"a": "x: y", "b": "it's"}, "s": "it's"}


def test_templates_include_and_import_files_of_their_environment(read: Files) -> None:
    (read.folder / "map.jinja").write_text("{% set ports = {'Debian': 8080} %}")
    (read.folder / "part.jinja").write_text("os: {{ grains.os }}\n")
    assert read("{% from 'map.jinja' import ports %}\np: {{ ports[grains.os] }}\n{% include 'part.jinja' %}") == {
        "p": 8080,
        "os": "Debian",
    }


@pytest.mark.parametrize("outside", ["../secret", "/etc/hostname", "link"])
def test_templates_include_nothing_from_outside(read: Files, outside: str) -> None:
    (read.folder.parent / "secret").write_text("x: 1")
    (read.folder / "link").symlink_to(read.folder.parent / "secret")
    with pytest.raises(RenderError):
        read(f"{{% include '{outside}' %}}")


def test_the_first_line_says_how_a_file_is_read(read: Files) -> None:
    assert read("#!yaml\na: '{{ x }}'\n") == {"a": "{{ x }}"}
    assert read("#!jinja|yaml\na: {{ grains.os }}\n") == {"a": "Debian"}
    assert "a.sls:1: '#!py' is not known here" in read.mistake("#!py\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: c: d\n", "a.sls:2:5: "),
        ("a: 1\n\tb: 2\n", "a.sls:2:1: YAML is not indented with tabs"),
        ("a: 1\nb: 1\na: 2\n", "a.sls:3:1: 'a' occurs twice"),
        ("a: !!python/object:os.system x\n", "a.sls:1:4: the tag"),
        (b"a: 1\nb: \xff\n", "a.sls:2: this is not UTF-8"),
        ("\n{{ grains.nope }}\n", "a.sls:2: Jinja: 'dict object' has no attribute 'nope'"),
        ("a: 1\n{% if %}\n", "a.sls:2: Jinja: "),
        ("x: {{ salt['cmd.run']('id') }}", "a.sls:1: Jinja: salt['cmd.run'] cannot be called in pillar files"),
        ("x: {{ salt.cmd.run('id') }}", "a.sls:1: Jinja: salt['cmd.run'] cannot be called in pillar files"),
        ("x: {{ salt['grains.setval']('a', 1) }}", "a.sls:1: Jinja: salt['grains.setval'] cannot be called"),
        ("x: {{ salt.get('file.read')('/etc/shadow') }}", "a.sls:1: Jinja: salt['file.read'] cannot be called"),
        ("x: {{ salt['match.glob'].__globals__ }}", "a.sls:1: Jinja: access to attribute '__globals__'"),
        ("x: {{ salt['match.glob'].func_globals }}", "a.sls:1: Jinja: "),
        ("x: {{ salt._function('cmd.run') }}", "a.sls:1: Jinja: access to attribute '_function'"),
        ("x: {{ salt['match.glob']([1]) }}", "a.sls:1: Jinja: SaltInvocationError; its text is omitted"),
        ("x: {{ ''.__class__.__mro__ }}", "a.sls:1: Jinja: access to attribute '__class__'"),
        ("x: {{ range(10000000) | list }}", "a.sls:1: Jinja: OverflowError"),
        ("\n{% include 'gone' %}", "a.sls:2: Jinja: there is no file 'gone'"),
        ("#!jinja|yaml\n\nx: {{ 1 // 0 }}\n", "a.sls:3: Jinja: ZeroDivisionError"),
    ],
)
def test_a_mistake_is_told_with_its_place(read: Files, text: str | bytes, said: str) -> None:
    assert read.mistake(text).startswith(said)


@pytest.mark.parametrize(
    "text",
    [
        "key: 'hunter2\n",
        "key: hunter2: x\n",
        "{% set password = 'hunter2' %}\nx: {{ {password: 1} | dictsort(by=password) }}",
        "{% set password = 'hunter2' %}\nx: {{ [1].index(password) }}",
        "x: {{ 'hunter2'.encode('nonsense') }}",
        "password: &hunter2 [1]\nx: *hunter\n",
    ],
)
def test_no_message_repeats_a_value(read: Files, text: str) -> None:
    assert "hunter2" not in read.mistake(text)


def test_a_file_that_is_too_large_is_refused_and_so_is_what_a_template_makes(read: Files) -> None:
    assert "split it" in read.mistake("a: 1\n" + "#" * FILE_BYTES_MAX)
    assert "make it smaller" in read.mistake(f"a: {{{{ 'x' * {FILE_BYTES_MAX} }}}}")


def test_a_file_that_changes_is_read_again(read: Files) -> None:
    assert read("a: 1\n") == {"a": 1}
    assert read("a: {{ 1 + 1 }}\n") == {"a": 2}
    assert read("a: {{ 1 + 2 }}\n") == {"a": 3}


def test_an_imported_file_that_changes_is_read_again(read: Files) -> None:
    (read.folder / "m.jinja").write_text("{% set v = 1 %}")
    text = "{% from 'm.jinja' import v %}\nv: {{ v }}\n"
    assert read(text) == {"v": 1}
    (read.folder / "m.jinja").write_text("{% set v = 22 %}")
    assert read(text) == {"v": 22}


def test_without_jinja_templates_are_refused_by_name_and_plain_files_work(
    read: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., Any] = builtins.__import__

    def none(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "jinja2":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", none)
    assert read("a: 1\n") == {"a": 1}
    assert "pip install 'saltlite[jinja]'" in read.mistake("a: {{ grains.os }}\n")


def test_a_file_that_may_not_be_read_is_as_good_as_missing(read: Files) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (read.folder / "a.sls").write_text("a: 1")
    (read.folder / "a.sls").chmod(0)
    assert not read.served.has("base", "a.sls")


# -- functions in templates


WEB = {"os": "Debian", "os_family": "Debian", "id": "web1"}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("salt['match.filter_by']({'web*': 'app', 'db*': 'db'}, minion_id=opts.id)", "app"),
        ("salt['match.filter_by']({'E@.*1 and web*': 'app'})", "app"),
        ("salt['match.compound']('G@os:Deb* and I@port:80')", True),
        ("salt['match.pillar']('port:81')", False),
        ("salt['grains.get']('os')", "Debian"),
        ("salt.grains.get('os')", "Debian"),
        ("salt['grains']['get']('nope', 'none')", "none"),
        ("salt['grains.filter_by']({'Debian': {'a': 1}}, merge={'b': 2})", {"a": 1, "b": 2}),
        ("salt['pillar.get']('users:ann:uid')", 7),
        ("salt['pillar.get']('gone', 'none')", "none"),
        ("salt['config.get']('id')", "web1"),
        ("salt['hashutil.sha256_digest']('x')[:8]", "2d711642"),
        ("salt['network.convert_cidr']('10.0.0.0/8').netmask", "255.0.0.0"),
        ("'cmd.run' in salt", False),
        ("'grains.get' in salt", True),
    ],
)
def test_templates_call_functions_that_only_compute(tmp_path: Path, expression: str, value: object) -> None:
    (tmp_path / "top.sls").write_text("base:\n  '*': [first, second]\n")
    (tmp_path / "first.sls").write_text("port: 80\nusers: {ann: {uid: 7}}\n")
    (tmp_path / "second.sls").write_text(f"found: {{{{ ({expression}) | json }}}}\n")
    pillar = pillar_of(DiskPillarFiles({"base": [str(tmp_path)]}), MinionId("web1"), WEB, {})
    assert pillar == {"port": 80, "users": {"ann": {"uid": 7}}, "found": value}


def test_functions_see_the_minion_whose_pillar_is_made(tmp_path: Path) -> None:
    (tmp_path / "top.sls").write_text("base:\n  '*': [a]\n")
    (tmp_path / "a.sls").write_text("me: {{ salt['grains.get']('id') }} {{ salt['match.glob']('web*') }}\n")
    files = DiskPillarFiles({"base": [str(tmp_path)]})
    made = [pillar_of(files, MinionId(minion), {}, {})["me"] for minion in ("web1", "db1", "web2")]
    assert made == ["web1 True", "db1 False", "web2 True"]


def test_every_function_of_templates_is_in_a_shipped_module() -> None:
    loader = functions._make_loader()
    assert [name for name in functions.SaltNames(loader.__getitem__) if name not in loader] == []


def test_the_documentation_lists_the_functions_of_templates() -> None:
    text = Path(functions.__file__).parents[1].joinpath("docs/from-salt.md").read_text()
    listed = {
        module: tuple(re.findall(r"`(\w+)`", names))
        for module, names in re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.M)
    }
    assert listed == functions.FUNCTIONS
