"""The configuration of the API: the paths of a web page, and the settings of SaltGUI."""

from __future__ import annotations

from pathlib import Path

import pytest

from saltlite.api import endpoints
from saltlite.config.api import OWN_PATHS, ApiConfig
from saltlite.config.load import load_api
from saltlite.errors import ConfigError


def loaded(folder: Path, text: str) -> ApiConfig:
    (folder / "api").write_text(text)
    return load_api(str(folder)).config


def test_the_first_words_of_all_paths_are_known_to_the_configuration() -> None:
    words = {pattern.strip("/").replace("\\", "").partition("/")[0].partition("(")[0] for pattern in endpoints.PATHS}
    assert words - {""} == set(OWN_PATHS)


@pytest.mark.parametrize(("written", "meant"), [("/gui", "/gui"), ("gui", "/gui"), ("/a/b-c.d/", "/a/b-c.d")])
def test_the_path_of_a_page_has_one_form(tmp_path: Path, written: str, meant: str) -> None:
    assert loaded(tmp_path, f"app_path: {written}\n").app_path == meant


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("app_path: /jobs\n", "/jobs is a path of the API itself"),
        ("static_path: /fleet/x\n", "/fleet/x is a path of the API itself"),
        ("static_path: /a/../b\n", "is not a path of letters"),
        ("static_path: /a%2fb\n", "is not a path of letters"),
        ("app_path: /\n", "is not a path of letters"),
        ("app: /a/b\nstatic: /a\napp_path: /x\nstatic_path: x/\n", "are the same"),
        ("saltgu_templates: {}\n", "unknown option"),
    ],
)
def test_what_cannot_be_served_is_refused_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        loaded(tmp_path, text)
    assert f"{tmp_path}/api:" in str(refused.value)


def test_settings_of_saltgui_are_passed_on(tmp_path: Path) -> None:
    text = "saltgui_full_return: true\nsaltgui_templates: {t1: {target: '*', command: test.ping}}\n"
    assert loaded(tmp_path, text).saltgui == {
        "saltgui_full_return": True,
        "saltgui_templates": {"t1": {"target": "*", "command": "test.ping"}},
    }
