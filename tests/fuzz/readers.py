"""Whoever shows what the store holds: the outputs of the command line, the API, the returners."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from saltlite.api.feeds import feed_event
from saltlite.api.formats import JSON, YAML, rendered
from saltlite.plugins.output import highstate, nested, pprint, raw, table, txt
from saltlite.plugins.output import json as json_output
from saltlite.plugins.output import yaml as yaml_output
from saltlite.plugins.returners._plain import plain

OUTPUTS = (nested, json_output, yaml_output, raw, pprint, txt, table, highstate)


def read_everywhere(events: Sequence[Mapping[str, Any]]) -> None:
    """Show these events to every reader; each has to make something of them, and none may raise."""
    for event in events:
        assert json.loads(feed_event(event).data)["tag"] == event["tag"]
        show_everywhere(event["data"])


def show_everywhere(value: Any) -> None:
    """Show a value, as an operator's command would."""
    for output in OUTPUTS:
        assert isinstance(output.output({"web1": value}), str)
    json.loads(json_output.document(value))
    json.loads(json_output.line(value))
    json.loads(json.dumps(plain(value), ensure_ascii=False).encode())
    json.loads(rendered(value, JSON))
    assert rendered(value, YAML)
