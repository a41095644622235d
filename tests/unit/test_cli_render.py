"""What the outputters promise to programs and to terminals; how they look is in tests/golden/cli."""

from __future__ import annotations

import ast
import json
import time
from typing import Any

import pytest
import yaml

from saltlite.cli.output import SHIPPED, OutputStyle, Outputters, render
from saltlite.plugins.output.table import CELL_MAX

RETURNS: dict[str, Any] = {
    "web2": {"b": [1, [2, {"x": None}]], "a": "two\nlines", 3: b"\x00\xff"},
    "web1": "caf\u00e9 \U0001f600",
}


@pytest.mark.parametrize("out", ["nested", "yaml", "txt", "quiet", "no_return", "highstate", "key"])
def test_minions_one_by_one_give_the_same_text_as_all_at_once(out: str) -> None:
    assert "".join(render(out, {minion: RETURNS[minion]}) for minion in sorted(RETURNS)) == render(out, RETURNS)


def test_json_is_one_object_with_sorted_keys_and_bytes_marked() -> None:
    text = render("json", RETURNS)
    assert json.loads(text)["web2"] == {
        "3": {"$bytes": "AP8="},
        "a": "two\nlines",
        "b": [1, [2, {"x": None}]],
    }
    assert text.index("web1") < text.index("web2")
    assert "caf\u00e9" in text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {None: 1, True: 2, b"k": 3, 1.5: 4}])
def test_json_stays_valid_for_values_that_json_does_not_have(value: object) -> None:
    def refuse(name: str) -> object:
        raise AssertionError(name)

    assert json.loads(render("json", {"web1": value}), parse_constant=refuse)


def test_yaml_reads_back() -> None:
    shared = ["same"]
    returns = {**RETURNS, "web3": {"x": shared, "y": shared}}
    assert yaml.safe_load(render("yaml", returns)) == returns


@pytest.mark.parametrize(
    "text", ["a\u202eb", "'\u2066", '\\"\u200e: x', "- \u061c\n  two", "\x85\u2028\u2029", "\u202e " * 300]
)
def test_yaml_with_escaped_signs_reads_back(text: str) -> None:
    returns = {"web1": {text: [text, {"x": text}]}, text: "caf\u00e9"}
    written = render("yaml", returns)
    assert yaml.safe_load(written) == returns
    assert not set(written) & {"\x85", "\u2028", "\u2029", "\u202e", "\u2066", "\u200e", "\u061c"}
    assert "caf\u00e9" in written


@pytest.mark.parametrize("out", ["raw", "pprint"])
def test_pythons_own_notation_reads_back(out: str) -> None:
    assert ast.literal_eval(render(out, RETURNS)) == RETURNS


@pytest.mark.parametrize("out", [name for name in SHIPPED if name != "quiet"])
def test_a_return_cannot_send_escape_sequences_to_a_terminal(out: str) -> None:
    evil = "\x1b]0;owned\x07\x9b31m\x08"
    text = render(out, {"web1": {evil: [evil], "plain": evil}, "web2": evil})
    assert not set(text) & {chr(code) for code in (*range(0x0A), *range(0x0B, 0x20), *range(0x7F, 0xA0))}


@pytest.mark.parametrize("out", [name for name in SHIPPED if name != "quiet"])
def test_a_return_cannot_turn_the_direction_of_writing(out: str) -> None:
    text = render(out, {"web1": {"a\u202eb": ["\u2066"]}})
    assert not set(text) & {"\u202e", "\u2066"}


RUN = "a_|-b_|-c_|-d"


@pytest.mark.parametrize("out", [name for name in SHIPPED if name != "quiet"])
@pytest.mark.parametrize(
    "odd",
    [
        {RUN: {"result": [], "__run_num__": "x", "duration": {}}, RUN + "2": {"result": 1, "__run_num__": 2}},
        {RUN: {"result": True, "changes": 5, "comment": {"a": None}, "__run_num__": None}},
        {"": {"": [[]]}},
        5,
        None,
    ],
)
@pytest.mark.parametrize("name", ["web1", "minions"])
def test_an_odd_return_does_not_keep_others_from_being_shown(out: str, odd: Any, name: str) -> None:
    assert "here" in render(out, {name: odd}) + render(out, {name: odd, "web2": {"up": "here"}})


def test_a_failed_minion_has_a_red_name_and_a_good_one_does_not() -> None:
    colors = OutputStyle(color=True)
    assert "\x1b[31mbad\x1b[0m:" in Outputters(dict).render("nested", {"bad": 2}, colors, retcode=1)
    assert "\x1b[36mgood\x1b[0m:" in Outputters(dict).render("nested", {"good": 1}, colors)


@pytest.mark.parametrize("out", SHIPPED)
def test_without_colors_there_are_no_escape_sequences(out: str) -> None:
    assert "\x1b" not in Outputters(dict).render(out, RETURNS, OutputStyle(), retcode=1)


def test_the_indent_is_that_of_a_level() -> None:
    assert render("nested", {"web1": {"a": 1}}, OutputStyle(indent=2)) == "web1:\n  ----------\n  a:\n    1\n"
    assert render("json", {"web1": {"a": 1}}, OutputStyle(indent=1)) == '{\n "web1": {\n  "a": 1\n }\n}\n'
    assert render("yaml", {"web1": {"a": [1]}}, OutputStyle(indent=6)) == "web1:\n      a:\n      - 1\n"


def test_an_indent_below_zero_is_json_on_one_line() -> None:
    assert render("json", {"web1": {"a": [1]}}, OutputStyle(indent=-1)) == '{"web1": {"a": [1]}}\n'


TABLES = [
    ([{"a": 1, "b": "x"}, {"a": 22}], "a   b\n--  -\n1   x\n22\n"),
    ({"x": {"s": 1}, "y": {"s": 2}}, "   s\n-  -\nx  1\ny  2\n"),
    ({"k": "v"}, "key  value\n---  -----\nk    v\n"),
    (["one", "two"], "value\n-----\none\ntwo\n"),
    ([{"a": "two\nlines\x1b"}], "a\n----------\ntwo lines?\n"),
    ([{"a": "\u4e2d", "b": 1}, {"a": "xyz", "b": 2}], "a    b\n---  -\n\u4e2d   1\nxyz  2\n"),
]


@pytest.mark.parametrize(("value", "text"), TABLES)
def test_rows_are_a_table(value: object, text: str) -> None:
    assert render("table", value) == text
    assert render("table", {"web1": value}) == "web1:\n" + "".join(f"    {line}\n" for line in text.splitlines())


def test_what_is_no_table_is_printed_as_nested_does() -> None:
    assert render("table", {"web1": "text"}) == "key   value\n----  -----\nweb1  text\n"
    assert render("table", "text") == "text\n"


def test_rows_without_common_columns_are_no_table_and_take_no_time() -> None:
    rows = [{f"{row}-{column}": 1 for column in range(100)} for row in range(300)]
    began = time.process_time()
    text = render("table", {"web1": rows})
    assert time.process_time() - began < 20
    assert len(text) < 2_000_000
    assert "299-99:" in text
    assert render("table", {str(number): row for number, row in enumerate(rows)}).count("299-99:") == 1


def test_a_cell_that_is_too_long_is_cut_and_says_so() -> None:
    line = render("table", [{"a": "x" * 500}]).splitlines()[2]
    assert line == "x" * (CELL_MAX - 1) + "\u2026"


STATE: dict[str, Any] = {"result": True, "comment": "", "changes": {}, "duration": 2, "__run_num__": 0}


def test_states_stand_in_the_order_in_which_they_ran_with_a_summary() -> None:
    states = {
        "pkg_|-vim_|-vim_|-installed": {**STATE, "__run_num__": 1, "changes": {"vim": {"old": "", "new": "1"}}},
        "file_|-x_|-/x_|-managed": {**STATE, "result": False, "comment": "one\ntwo"},
    }
    lines = render("highstate", {"web1": states}).splitlines()
    assert [line.strip() for line in lines if line.strip().startswith("ID")] == ["ID: x", "ID: vim"]
    assert "     Comment: one" in lines
    assert lines[lines.index("     Comment: one") + 1] == "              two"
    assert lines[-5:] == [
        "Succeeded: 1 (changed=1)",
        "Failed:    1",
        "------------",
        "Total states run:     2",
        "Total run time:     4.000 ms",
    ]


OF_RUN = {
    "pkg_|-a_|-vim_|-installed": {**STATE, "start_time": "10:00", "duration": 2.0, "__run_num__": 0},
    "pkg_|-b_|-gcc_|-installed": {
        **STATE,
        "start_time": "10:01",
        "duration": 3.0,
        "__run_num__": 1,
        "changes": {"x": 1},
    },
    "cmd_|-c_|-false_|-run": {**STATE, "start_time": "10:02", "__run_num__": 2, "result": False, "warnings": ["old"]},
    "cmd_|-d_|-true_|-run": {**STATE, "start_time": "10:03", "__run_num__": 3, "result": None},
}


@pytest.mark.parametrize(
    ("states", "lines", "blocks"),
    [
        ({}, 0, 4),
        ({"state_output": "terse"}, 4, 0),
        ({"state_output": "mixed"}, 3, 1),
        ({"state_output": "changes"}, 1, 3),
        ({"state_output": "terse", "state_verbose": False}, 3, 0),
        ({"state_output": "full", "state_output_diff": True}, 0, 3),
    ],
)
def test_states_have_a_line_or_a_block_or_nothing(states: dict[str, object], lines: int, blocks: int) -> None:
    text = Outputters(dict).render("highstate", {"web1": OF_RUN}, OutputStyle(states=states)).splitlines()
    assert sum(line.startswith(" Name: ") for line in text) == lines
    assert sum(line.strip().startswith("ID: ") for line in text) == blocks
    assert "Warnings:  1" in text
    assert "Total states run:     4" in text


def test_a_line_of_a_state_is_salts_and_the_configuration_chooses_it() -> None:
    opts = {"state_output": "terse_id", "state_output_profile": True}
    found = Outputters(lambda: opts).render("highstate", {"web1": OF_RUN}).splitlines()
    assert found[1:5] == [
        " Name: a - Function: pkg.installed - Result: Clean - Started: 10:00 - Duration: 2.0 ms",
        " Name: b - Function: pkg.installed - Result: Changed - Started: 10:01 - Duration: 3.0 ms",
        "Warnings: old",
        " Name: c - Function: cmd.run - Result: Failed - Started: 10:02 - Duration: 2 ms",
    ]
    opts["state_output_profile"] = False
    text = Outputters(lambda: opts).render("highstate", {"web1": OF_RUN}, OutputStyle(states={"state_output": "full"}))
    assert "Started" not in text
    assert "Total run time" not in text
    assert "        Name: gcc" in text


def test_states_that_were_not_run_say_why() -> None:
    text = render("highstate", {"web1": ["no top file"]})
    assert text == "web1:\n    Data failed to compile:\n----------\n    no top file\n"


@pytest.mark.parametrize("value", [True, {"a": {"result": True}}, {"x_|-y": {"result": 1}}, [1], {}])
def test_what_is_no_run_of_states_is_printed_as_nested_does(value: object) -> None:
    assert render("highstate", {"web1": value}) == render("nested", {"web1": value})


def test_keys_stand_under_the_words_of_their_state() -> None:
    text = render("key", {"minions_pre": ["b"], "minions": {"a": "fin:ger"}})
    assert text == "Accepted Keys:\na:  fin:ger\nUnaccepted Keys:\nb\n"


def test_the_lines_of_a_public_key_stay_lines_and_controls_do_nothing() -> None:
    text = render("key", {"minions": {"a": "-----\nM\x1b[2J\n-----\n"}})
    assert text == "Accepted Keys:\na:  -----\nM?[2J\n-----\n"


def test_who_did_not_return_stands_with_the_reason() -> None:
    assert render("no_return", {"web1": "Minion did not return."}) == "web1:\n    Minion did not return.\n"
