"""Send HTTP requests and read the answers.

Certificates are verified unless ``verify_ssl=False``. Only ``http://`` and ``https://`` are used, also after a
redirect. A redirect to another server forwards no password, cookie or token, only headers such as ``User-Agent`` and
``Accept``. An answer is limited to 64 MiB and five minutes in total; the options ``http_max_body``,
``http_connect_timeout`` and ``http_request_timeout`` change that.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError, invalid_keywords

if TYPE_CHECKING:
    from saltlite.loader.hints import __opts__, __salt__
    from saltlite.plugins.modules import _web

log = logging.getLogger(__name__)

BODY_BYTES_MAX = 64 * 1024 * 1024
"""Maximum bytes of an unpacked answer."""
CONNECT_S = 20.0
"""Seconds to wait for a silent server."""
WHOLE_S = 300.0
"""Seconds for a whole request."""
DATA_BYTES_MAX = 256 * 1024 * 1024
"""Maximum bytes of a file to send."""

_DECODED = ("json", "xml", "yaml", "plain")
_CALLED = "saltlite http.query()"
_NOT_OF_PAGES = frozenset({"idna", "punycode"})


class Options(TypedDict, total=False):
    """Options of a request, with Salt's names."""

    params: Any
    data: Any
    data_file: str | None
    header_dict: Any
    header_list: Any
    header_file: str | None
    username: str | None
    password: str | None
    auth: Any
    decode: bool
    decode_type: str
    decode_body: bool
    status: bool
    headers: bool
    text: bool
    cookies: Any
    cookie_jar: str | None
    cookie_format: str
    test_url: str | None
    opts: Any
    backend: str | None
    ca_bundle: str | None
    verify_ssl: bool | None
    cert: Any
    text_out: str | None
    headers_out: str | None
    decode_out: str | None
    agent: str
    hide_fields: Any
    raise_error: bool
    formdata: bool
    formdata_fieldname: str | None
    formdata_filename: str | None
    port: int


def query(url: str, method: str = "GET", *, test: bool = False, **options: Unpack[Options]) -> dict[str, Any]:
    """Send a request and return its ``body``, with ``status``, ``headers`` and ``text`` if these are True, and with
    ``decode`` a ``dict`` of the parsed JSON, XML or YAML (``decode_type``, or ``auto``).

    A failure is in ``error``, with the ``status`` if the server answered, unless ``raise_error=False``. ``params`` are
    added to the URL. ``data`` (a text, or a map for a form) or the content of ``data_file`` is sent; ``formdata`` sends
    it as a file of a form. Headers are a map, a list of ``Name: value``, or such lines in ``header_file``. ``username``
    and ``password`` log in. ``cert`` is the file of a client certificate, or a list of it and its key. ``cookies=True``
    keeps cookies in ``cookie_jar``. ``text_out``, ``headers_out`` and ``decode_out`` name files for the answer.
    ``test`` requests nothing, or ``test_url``. ``backend``, ``port`` and ``hide_fields`` have no effect: request values
    are never logged.

    CLI Example::

        saltlite '*' http.query https://example.org/health status=True
        saltlite '*' http.query https://example.org/api method=POST data='{"port": 80}' decode=True
        saltlite '*' http.query https://example.org/api username=me password=sesame header_dict='{Accept: text/plain}'
    """
    unknown = sorted(name for name in options if name not in Options.__annotations__ and not name.startswith("__pub_"))
    if unknown:
        raise SaltInvocationError(invalid_keywords(unknown, Options.__annotations__))
    found: dict[str, Any] = {}
    if test:
        if not options.get("test_url"):
            return found
        url, found["test"] = str(options["test_url"]), True
    _check_decoding(options)
    answer = _send(url, str(method).upper(), options, found)
    return found if answer is None else _result(answer, options, found)


def wait_for_successful_query(url: str, wait_for: float = 300, **kwargs: Any) -> dict[str, Any]:
    """Repeat a request until it succeeds, for a limited number of seconds; return the last answer.

    The keyword arguments are those of ``http.query``, and ``request_interval``: seconds between requests (1).

    CLI Example::

        saltlite '*' http.wait_for_successful_query https://example.org/health wait_for=60 request_interval=2
    """
    more = {name: value for name, value in kwargs.items() if not name.startswith("__pub_")}
    interval = max(0.0, float(more.pop("request_interval", 1)))
    give_up_at = time.monotonic() + float(wait_for)
    while True:
        reply = query(url, **more)
        if "error" not in reply or time.monotonic() + interval > give_up_at:
            return reply
        time.sleep(interval)


def _send(url: str, method: str, options: Options, found: dict[str, Any]) -> _web.Answer | None:
    """Return the answer, or None with `error` in `found`."""
    from urllib.parse import urlsplit

    from saltlite.plugins.modules import _web

    whole, options = _without_login(_with_params(url, options.get("params")), options)
    if not (method.isascii() and method.isalpha()):
        raise SaltInvocationError(f"{method!r:.40} is not a method of HTTP.")
    log.debug(
        "Requesting %s with %s", urlsplit(whole)._replace(query="", fragment="").geturl().rpartition("@")[2], method
    )
    headers, data = _headers(options), _data(options)
    if isinstance(data, tuple):
        data, headers["Content-Type"] = data
    own = options.get("opts") or __opts__
    limits = _web.Limits(
        _seconds(own.get("http_connect_timeout", CONNECT_S)), _seconds(own.get("http_request_timeout", WHOLE_S)),
        int(own.get("http_max_body", BODY_BYTES_MAX)),
    )  # fmt: skip
    jar = _cookie_jar(options)
    transport = _web.Transport(partial(_tls, options, own), _web.proxy_for(whole, own), _cookie_handlers(jar))
    try:
        answer = _web.send(whole, method, data, headers, transport=transport, limits=limits)
    except _web.NoAnswerError as error:
        if options.get("status"):
            found["status"] = 0
        found["error"] = str(error)
        return None
    if jar is not None:
        jar.save(ignore_discard=True)
    return answer


def _result(answer: _web.Answer, options: Options, found: dict[str, Any]) -> dict[str, Any]:
    text = answer.body.decode(_codec(answer.charset), "replace")
    found["body"] = text if options.get("decode_body", True) else answer.body
    if not 200 <= answer.status < 300 and options.get("raise_error", True):
        return {**found, "status": answer.status, "error": f"HTTP {answer.status}: {answer.reason}"}
    headers = "".join(f"{name}: {value}\n" for name, value in answer.headers.items())
    for file, content in (("text_out", text), ("headers_out", headers)):
        if options.get(file):
            _write(str(options[file]), content)  # type: ignore[literal-required]  # one of the two above
    if options.get("status"):
        found["status"] = answer.status
    if options.get("headers"):
        found["headers"] = answer.headers
    wants_text = bool(options.get("text"))
    if options.get("decode"):
        kind = options.get("decode_type", "auto")
        if kind == "auto":
            content_type = answer.headers.get("content-type", "application/json")
            kind = next((each for each in ("xml", "json", "yaml") if each in content_type), "plain")
        if kind == "plain":
            wants_text = True
        else:
            found["dict"] = _decoded(kind, text)
        if options.get("decode_out"):
            _write(str(options["decode_out"]), text)
    if wants_text:
        found["text"] = text
    return found


def _check_decoding(options: Options) -> None:
    kind = options.get("decode_type", "auto")
    if options.get("decode") and kind not in (*_DECODED, "auto"):
        raise SaltInvocationError(f"decode_type is auto or one of {', '.join(_DECODED)}, not {kind!r:.40}.")
    if options.get("formdata") and not options.get("formdata_fieldname"):
        raise SaltInvocationError("formdata_fieldname is required when formdata=True")


def _decoded(kind: str, text: str) -> Any:
    try:
        if kind == "json":
            import json

            return json.loads(text)
        return _from_xml(text) if kind == "xml" else _from_yaml(text)
    except (ValueError, RecursionError) as error:
        raise CommandExecutionError(f"The answer cannot be read as {kind}: {error}") from error


def _from_yaml(text: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # A few aliases can expand to gigabytes.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, loader)):
            raise ValueError("it has aliases, which are not expanded in foreign YAML")
        return yaml.load(text, loader)  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _from_xml(text: str) -> list[Any]:
    from xml.etree import ElementTree

    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("it defines entities, which are not expanded in foreign XML")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - without a document type there are no entities
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from error
    return [_element(item) for item in root]


def _element(item: Any) -> Any:
    """Convert an element to a map from names to texts or maps; repeated names have a list."""
    if len(item) == 0:
        return {_name(item.tag): item.text}
    found: dict[str, Any] = {}
    for inner in item:
        name = _name(inner.tag)
        if name not in found:
            found[name] = _element(inner) if len(inner) else inner.text
        else:
            before = found[name] if isinstance(found[name], list) else [found[name]]
            found[name] = [*before, _element(inner)]
    return found


def _name(tag: str) -> str:
    return tag.rpartition("}")[2]


def _with_params(url: str, params: Any) -> str:
    from urllib.parse import urlencode

    if not isinstance(url, str) or "://" not in url or url.endswith("://"):
        raise SaltInvocationError(f"{url!r:.80} is not a URL: it begins with http:// or https://.")
    if not params:
        return url
    pairs = list(params.items()) if isinstance(params, Mapping) else params
    try:
        added = urlencode(pairs, doseq=True)
    except (TypeError, ValueError) as error:
        raise SaltInvocationError("params are a map, or a list of pairs.") from error
    address, hash_, fragment = url.partition("#")
    return f"{address}{'&' if '?' in address else '?'}{added}{hash_}{fragment}"


def _headers(options: Options) -> dict[str, str]:
    from saltlite.plugins.modules import _web

    given = options.get("header_dict") or {}
    if not isinstance(given, Mapping):
        raise SaltInvocationError("header_dict is a map of headers.")
    lines = list(options.get("header_list") or ())
    if options.get("header_file"):
        lines = _content(str(options["header_file"])).decode(errors="replace").splitlines()
    headers = {"User-Agent": str(options.get("agent") or _CALLED)}
    headers |= {str(name): str(value) for name, value in given.items()}
    for line in lines:
        name, colon, value = str(line).partition(":")
        if colon:
            headers[name.strip()] = value.strip()
    login = options.get("auth") or (options.get("username"), options.get("password"))
    if login[0] and login[1]:
        headers["Authorization"] = _web.basic_login(login[0], login[1])
    return headers


def _without_login(url: str, options: Options) -> tuple[str, Options]:
    """Return the URL without credentials, which become the login unless there is one."""
    from saltlite.plugins.modules import _web

    plain, name, secret = _web.without_login(url)
    if plain != url and not (options.get("username") or options.get("auth")):
        options = {**options, "username": name, "password": secret}
    return plain, options


def _data(options: Options) -> Any:
    """Return the body as bytes, and its type for a form with a file."""
    from urllib.parse import urlencode

    data = options.get("data")
    if options.get("data_file"):
        data = _content(str(options["data_file"]))
    if isinstance(data, Mapping):
        data = urlencode(list(data.items()), doseq=True)
    raw = data if isinstance(data, bytes | None) else str(data).encode()
    if not options.get("formdata"):
        return raw
    mark = f"saltlite-{os.urandom(16).hex()}"
    name, file = (str(options.get(key) or "") for key in ("formdata_fieldname", "formdata_filename"))
    if any(character in name + file for character in '"\r\n'):
        raise SaltInvocationError("Names in a form have no quotation marks and no line ends.")
    disposition = f'form-data; name="{name}"' + (f'; filename="{file}"' if file else "")
    head = f"--{mark}\r\nContent-Disposition: {disposition}\r\n\r\n".encode()
    return head + (raw or b"") + f"\r\n--{mark}--\r\n".encode(), f"multipart/form-data; boundary={mark}"


def _content(path: str) -> bytes:
    """Return the bytes of a file of this minion or of the master."""
    place = __salt__["cp.cache_file"](path) if "://" in path else path
    try:
        with open(place or path, "rb") as stream:
            data = b"" if os.fstat(stream.fileno()).st_size > DATA_BYTES_MAX else stream.read(DATA_BYTES_MAX)
            more = bool(stream.read(1))
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be read: {error.strerror}.") from error
    if more:
        raise CommandExecutionError(f"{path} has more than {DATA_BYTES_MAX} bytes: it is not sent.")
    return data


def _tls(options: Options, own: Mapping[str, Any]) -> Any:
    from saltlite.plugins.modules import _web

    return _web.tls_context(
        *(
            options.get(name) if options.get(name) is not None else own.get(name)
            for name in ("ca_bundle", "verify_ssl", "cert")
        )
    )


def _cookie_jar(options: Options) -> Any:
    if not options.get("cookies"):
        return None
    from http.cookiejar import LoadError, LWPCookieJar, MozillaCookieJar

    from saltlite.plugins.modules._safe_files import refuse_strange_links

    path = options.get("cookie_jar") or os.path.join(__opts__.get("cachedir") or ".", "cookies.txt")
    # The cookie jar is accessed by path, so a user's link could redirect it.
    refuse_strange_links(str(path))
    jar = (MozillaCookieJar if options.get("cookie_format") == "mozilla" else LWPCookieJar)(str(path))
    try:
        if not os.path.exists(str(path)):
            os.close(os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            jar.save(ignore_discard=True)
        jar.load(ignore_discard=True)
    except (OSError, LoadError, ValueError) as error:
        raise CommandExecutionError(f"The cookies in {path} cannot be used: {error}") from error
    return jar


def _cookie_handlers(jar: Any) -> Iterator[Any]:
    if jar is not None:
        from urllib.request import HTTPCookieProcessor

        yield HTTPCookieProcessor(jar)


def _write(path: str, text: str) -> None:
    from saltlite.plugins.modules._safe_files import write_whole

    write_whole(path, text.encode(errors="replace"), new_mode=0o644)


def _codec(charset: str) -> str:
    """Return the codec of the answer's text; UTF-8 for names that are not text encodings.

    Python's other codecs unpack bytes, or handle host names, one of them in quadratic time.
    """
    import codecs

    try:
        name = codecs.lookup(charset).name
        b"-".decode(name, "replace")
    except (LookupError, ValueError):  # ValueError: a NUL in the name
        return "utf-8"
    return "utf-8" if name in _NOT_OF_PAGES else name


def _seconds(value: Any) -> float:
    try:
        return max(0.001, min(float(value), 86_400.0))
    except (TypeError, ValueError):
        raise SaltInvocationError(f"A time is a number of seconds, not {value!r:.40}.") from None
