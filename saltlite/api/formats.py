"""Bodies of requests and answers: JSON, YAML, forms. Pure: bytes and header values in, values out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any
from urllib.parse import parse_qsl

import yaml

from saltlite.errors import SaltliteError
from saltlite.model.plain import INT_MAX, INT_MIN, KEY_MAX, is_plain_key, with_text_keys

JSON = "application/json"
YAML = "application/x-yaml"
HTML = "text/html"
FORM = "application/x-www-form-urlencoded"
TEXT = "text/plain"

YAML_NAMES = (YAML, "application/yaml", "text/yaml", "text/x-yaml")
OFFERED = (JSON, *YAML_NAMES)

FIELDS_MAX = 1000
"""Fields of one form."""
DEPTH_MAX = 32
"""Lists and maps inside each other in a body."""
ACCEPT_MAX = 1000
"""Characters of an Accept header that are read."""
YAML_MAX = 64 * 1024
"""Bytes of a body in YAML, which takes a second to read for a megabyte."""


class BodyError(SaltliteError):
    """A body cannot be read; `status` is what HTTP calls that."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


def answer_type(accept: str) -> str | None:
    """The type of the answer, of JSON, the names of YAML, and HTML for browsers; None when none of them is accepted.

    RFC 9110, section 12.5.1; the order of the header decides between types of the same quality.
    """
    if not accept.strip():
        return JSON
    ranked: list[tuple[float, int, str]] = []
    for place, part in enumerate(accept[:ACCEPT_MAX].split(",")):
        name, _, parameters = part.strip().lower().partition(";")
        ranked.append((-_quality(parameters), place, name.strip()))
    for quality, _place, name in sorted(ranked):
        if quality == 0:
            continue
        if name in OFFERED or name == HTML:
            return name
        if name in ("*/*", "application/*"):
            return JSON
        if name == "text/*":
            return "text/yaml"
    return None


def _quality(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0


def rendered(value: Any, kind: str) -> bytes:
    """An answer's body in a type of `answer_type`; for HTML it is JSON, which browsers show."""
    if kind in YAML_NAMES:
        return yaml.dump(as_json(value), Dumper=_Dumper, default_flow_style=False, allow_unicode=True).encode(
            "utf-8", "replace"
        )
    return json.dumps(as_json(value), ensure_ascii=False).encode("utf-8", "replace")


def content_type(kind: str) -> str:
    """The Content-Type of an answer in a type of `answer_type`."""
    return JSON if kind == HTML else kind


def rendered_error(sentence: str, status: int, kind: str, returned: Sequence[Any] = ()) -> tuple[bytes, str]:
    """The body of an error and its Content-Type: `{"error": sentence, "status": status}`, or a page.

    `return` has the results of earlier parts of the request, if any.
    """
    if kind == HTML:
        page = f"<!doctype html><title>{status}</title><h1>{status}</h1><p>{escape(sentence)}</p>"
        return page.encode("utf-8", "replace"), "text/html; charset=utf-8"
    found = {"error": sentence, "status": status}
    return rendered({**found, "return": returned} if returned else found, kind), kind


class _Dumper(yaml.SafeDumper):
    """Without anchors: values that stand twice are written twice, as in JSON."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _spelled(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def as_json(value: Any) -> Any:
    """Maps, lists, texts, numbers that every format can write."""
    if type(value) is str or type(value) is int:
        return value
    if isinstance(value, dict):
        return with_text_keys(value, as_json)
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124 - NaN
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return _spelled(value)


def parsed(body: bytes, kind: str) -> Any:
    """The value of a request's body, by its Content-Type; None of an empty one. Raises BodyError.

    A form's value is a map; of a name that stands several times it is a list.
    """
    if not body:
        return None
    name = kind.partition(";")[0].strip().lower()
    if name in YAML_NAMES:
        return _checked(_from_yaml(body))
    text = _text(body)
    if name == FORM:
        return _from_form(text)
    if name in ("", JSON, TEXT):
        return _checked(_from_json(text))
    raise BodyError(f"a body is {JSON}, {YAML} or {FORM}, not {name[:60]!r}", 415 if "/" in name else 400)


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BodyError(f"the body is not UTF-8 (byte {error.start})") from None


def _from_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise BodyError(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise BodyError(f"the body has more than {DEPTH_MAX} levels of lists and maps") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _from_yaml(body: bytes) -> Any:
    if len(body) > YAML_MAX:
        raise BodyError(f"a body in YAML has at most {YAML_MAX} bytes; send JSON", 413)
    try:
        text = body.decode("utf-8")
        # An alias makes a small text a huge value.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=_Loader)):
            raise BodyError("a body in YAML has no aliases (*name)")
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of SafeLoader
    except UnicodeDecodeError as error:
        raise BodyError(f"the body is not UTF-8 (byte {error.start})") from None
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        raise BodyError(f"the body is not YAML: {' '.join(str(error).split())[:200]}") from None
    except RecursionError:
        raise BodyError(f"the body has more than {DEPTH_MAX} levels of lists and maps") from None


class _Loader(yaml.SafeLoader):
    """Dates stay text: what is sent to minions has no form for them."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rows if tag != "tag:yaml.org,2002:timestamp"]
    for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _from_form(text: str) -> dict[str, Any]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError as error:  # UnicodeDecodeError is one
        raise BodyError(f"the body is not a form: {error}") from None
    return merged(pairs)


def merged(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A map; of a name that stands several times the value is a list."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found


def _checked(value: Any) -> Any:
    """`value`, when it is a plain value (`saltlite.model.plain`) that is not too deep. Raises BodyError."""
    level = [value]
    for _ in range(DEPTH_MAX):
        inside: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                for key in item:
                    _check_key(key)
                inside += item.values()
            elif isinstance(item, list):
                inside += item
            elif isinstance(item, str):
                _check_text(item)
            elif isinstance(item, int) and not INT_MIN <= item <= INT_MAX:
                raise BodyError("a number has more than 64 bits")
            elif item is not None and not isinstance(item, int | float | bytes):
                raise BodyError(f"a body has lists, maps, texts, bytes and numbers, not a {type(item).__name__}")
        if not inside:
            return value
        level = inside
    raise BodyError(f"the body has more than {DEPTH_MAX} levels of lists and maps")


def _check_key(key: Any) -> None:
    if not is_plain_key(key):
        raise BodyError(f"a key of a map is a text of at most {KEY_MAX} characters, or a number of 64 bits")
    if isinstance(key, str):
        _check_text(key)


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can write
        raise BodyError("a text in the body is not Unicode") from None
