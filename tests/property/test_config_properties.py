"""What holds for every configuration file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from saltlite.config.fast import socket_path
from saltlite.config.load import Loaded, load_master, load_minion, parse_plain
from saltlite.config.options import AnyMap, TextKind
from saltlite.config.paths import master_socket
from saltlite.config.values import parse_duration, spell_duration
from saltlite.config.written import Map, PlacedError, Where
from saltlite.config.yamlfile import parse
from saltlite.errors import ConfigError, UsageError
from saltlite.model.masters import parse_address

C = TypeVar("C")

# Mostly plain files, with here and there something that two readers could read differently: enough of
# both that the fast reader answers often, and that an answer it should not have given is found.
PLAIN_KEYS = ("root_dir", "sock_dir", "user", "master_name", "interface", "data_dir")
PLAIN_VALUES = ("/a", "/a/b", "a/b", "/a/", "/a/../b", "./a/b", "/a #c", "'/a'", '"/a"', "a:b", "a b")
ODD_LINES = (
    *(f"{key}: {value}" for key in ("sock_dir", "user") for value in ("'/a", '"/a', "[/a", "{a: b", "|", ">", "&x /a")),
    *(
        "root_dir: a/b'",
        "root_dir: *x",
        "root_dir: !t /a",
        "sock_dir: ~",
        "sock_dir: /a#c",
        "sock_dir: /a: b",
    ),
    *(
        '"root_dir": /a',
        "root_dir : /a",
        "? root_dir",
        ": /a",
        "<<: *x",
        "- /a",
        "user: /a\u2028sock_dir: /q",
    ),
    *(
        '# "',
        "# '",
        "  /a",
        " root_dir: /a",
        "\tb",
        "user:",
        "sock_dir:",
        "---",
        "...",
        "b'",
        'b"',
        "]",
        "}",
        "%YAML 1.1",
        "# c",
        "",
    ),
    *(
        "publisher_acl:",
        "  'web*':",
        "  '*':",
        "    - test.*",
        "    - '@wheel'",
        "    - 'it''s'",
        '    - "a\\""',
        "    - [a, 'b",
        "      c'] # d",
        "    - {a: b, 'c': \"d",
        '    e"}',
        "  abc",
        "    'x",
        '    "y',
        "  a: |",
        "  - >-",
        "user: |",
        "- abc",
        "- 'x",
        "-",
        "web: 'L@a,b'",
        'interface: "::"',
        "user: a'b",
        "user: 'a' # '",
        "user: [a, b] # [",
        "user: {a: [b, 'c'], d: \"e\"}",
        "master_name: caf\u00e9",
        "    - 'a: b'",
        "    - a: 'b",
        "    - - [",
        "    ]",
    ),
)
PLAIN_LINE = st.builds("{}: {}".format, st.sampled_from(PLAIN_KEYS), st.sampled_from(PLAIN_VALUES))
ODD_LINE = st.one_of(st.sampled_from(ODD_LINES), st.text(alphabet="/ab.:#'\"-@=, ", max_size=12))


@st.composite
def files(draw: st.DrawFn) -> str:
    """The text of one file: plain lines for different options, at most two odd ones between them."""
    lines = draw(st.lists(PLAIN_LINE, max_size=4, unique_by=lambda line: line.split(":")[0]))
    for odd in draw(st.lists(ODD_LINE, max_size=draw(st.sampled_from([2, 10])))):
        lines.insert(draw(st.integers(0, len(lines))), odd)
    return draw(st.sampled_from(["\n", "\n", "\n", "\n", "\r\n", "\n\n", "\x85"])).join(lines)


FILES = files()


def outcome(load: Callable[[str], Loaded[C]], folder: str) -> tuple[Loaded[C] | None, str]:
    """What was loaded, or the text of the error."""
    try:
        return load(folder), ""
    except ConfigError as error:
        return None, str(error)


def problem_place(content: bytes) -> Where:
    """Where the file cannot be parsed; its start when it can."""
    try:
        parse(content)
    except PlacedError as error:
        return error.where
    return Where(1, 1)


BLANKS = st.sampled_from([" ", "  ", "", "\t"])
QUOTED = st.builds(
    "{0}{1}{0}{2}".format, st.sampled_from("'\""), st.text("ab0:/.-_# ", max_size=6), st.sampled_from(["", " ", "a"])
)
PLAINEST = st.lists(
    st.one_of(
        st.builds(
            "{}:{}{}".format,
            st.text("ab_0A-.", max_size=3),
            BLANKS,
            st.one_of(st.text("ab0:/.-_# +'\"", max_size=8), QUOTED),
        ),
        st.text("a:#- \t\r", max_size=5),
        st.sampled_from(["# comment", "", "---", "...", "a: 'b'", "  b"]),
    ),
    max_size=5,
)


@settings(max_examples=1000, deadline=None)
@given(lines=PLAINEST)
@example(lines=["# a", "", "id: web1", "master: 10.0.0.1:4515", ""])
@example(lines=["a: b", "a: c"])
@example(lines=["a: b:"])
@example(lines=["a: b #c"])
@example(lines=[])
def test_the_reader_of_plain_lines_agrees_with_the_parser_whenever_it_answers(lines: list[str]) -> None:
    content = "\n".join(lines).encode()
    plain = parse_plain(content)
    event(f"answered: {plain is not None}")
    if plain is not None:
        assert plain == parse(content)


@settings(max_examples=500, deadline=None)
@given(main=FILES, included=st.one_of(st.just(""), FILES))
@example(main="root_dir: a/b\n", included="root_dir: /a\n")
@example(main='user: "x\nroot_dir: /a\n# "\n', included="")
@example(main="user: 'x\nroot_dir: /a'\n", included="")
@example(main="root_dir: /a\n b\n", included="")
@example(main=" root_dir: /a\n", included="")
@example(main="root_dir: /a\nsock_dir: b/c\n", included="root_dir: /z\n")
def test_the_fast_reader_agrees_with_the_full_loader_whenever_it_answers(main: str, included: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "master.d").mkdir()
        (Path(folder) / "master").write_bytes(main.encode())
        (Path(folder) / "master.d" / "a.conf").write_bytes(included.encode())
        fast = socket_path(folder)
        loaded, problems = outcome(load_master, folder)
    event(f"answered: {fast is not None}, loaded: {loaded is not None}")
    if fast is None:
        return
    if loaded is None:
        # The fast reader may overlook mistakes elsewhere, never one about what it answered.
        assert "root_dir" not in problems
        assert "sock_dir" not in problems
    else:
        assert fast == master_socket(loaded.config.sock_dir)


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=60), FILES.map(str.encode)))
def test_no_bytes_make_anything_but_a_config_error(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "minion").write_bytes(content)
        loaded, problems = outcome(load_minion, folder)
        assert loaded or all(line.startswith(f"{folder}/minion:") for line in problems.split("\n"))


@given(st.text(max_size=60))
def test_the_position_of_a_problem_is_in_the_file(text: str) -> None:
    where = problem_place(text.encode("utf-8", "surrogatepass"))
    assert 1 <= where.line <= len(text) + 1
    assert 1 <= where.column <= len(text) + 1


PLAIN_DATA = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=10),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(alphabet="abc<~1. ", max_size=4).filter(lambda k: k != "<<"), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "yes", "1"]), PLAIN_DATA, max_size=3))
def test_a_spelled_map_is_read_back(data: dict[str, object]) -> None:
    root, duplicates = parse(AnyMap().spell(data).encode())
    assert duplicates == []
    assert root is not None
    assert AnyMap().read(root) == data


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=20))
def test_spelled_text_is_read_back(text: str) -> None:
    root, _ = parse(f"k: {TextKind().spell(text)}".encode())
    assert isinstance(root, Map)
    assert TextKind().read(root.pairs[0][1]) == text


@given(st.integers(0, 10**9).map(lambda ms: ms / 1000))
def test_a_spelled_duration_is_read_back(seconds: float) -> None:
    assert abs(parse_duration(spell_duration(seconds)) - seconds) < 1e-6


@given(st.text(max_size=20))
def test_an_address_is_a_host_and_a_port_in_range_or_a_usage_error(text: str) -> None:
    try:
        host, port = parse_address(text, 4515)
    except UsageError:
        return
    assert host
    assert 1 <= port <= 65535
