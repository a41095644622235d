"""The OpenAPI document: what /openapi.json answers, and what the checked-in file is compared with.

`python -m saltlite.api.openapi` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from saltlite import __version__
from saltlite.api.documentation import WORDS_MAX
from saltlite.api.fleet import PAGE_MAX
from saltlite.api.formats import FORM
from saltlite.config.api import CLIENTS
from saltlite.model.job import TargetKind, TargetOutcome
from saltlite.model.minion import KEY_ORDERS, KEY_STATES, ORDERS, STATES

_ANSWERS = {
    "400": "the request cannot be understood",
    "401": "no valid token or login was given",
    "403": "the caller may not do this",
    "406": "no format that Accept allows",
    "413": "the body is too large",
    "415": "no format that a body may have",
    "429": "too many requests",
    "502": "the master could not do it",
    "503": "the master cannot be reached",
}
_ANY: dict[str, Any] = {}
_NOW = {"type": "number", "description": "What the clock shows that all times in answers are from."}
_PLACES = {
    "jid": {"type": "string", "pattern": "^[0-9]{20}$"},
    "path": {"type": "string", "pattern": "^[A-Za-z0-9_:@-][A-Za-z0-9_.:@-]{0,199}$"},
}
"""Parts of paths that are not any text."""


def document() -> dict[str, Any]:
    """The document, as plain values."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "saltlite-api",
            "version": __version__,
            "description": "Run functions on a fleet. The answers are those of Salt's API.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "components": {
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
            "schemas": _schemas(),
            "responses": {code: _error(text) for code, text in _ANSWERS.items()},
        },
        "security": [{"token": []}],
        "paths": _paths(),
    }


def _paths() -> dict[str, Any]:
    lowstates, credentials = _one_or_several("Lowstate"), _one_or_several("Login")
    returned = _object(["return"], **{"return": {"type": "array"}})
    return {
        "/": {
            "get": _get("welcome", "The clients that there are.", _ref("Welcome"), open_to_all=True),
            "post": _lenient(_post("lowstates", "Carry out lowstates.", lowstates, returned)),
        },
        "/run": {
            "post": _lenient(
                _post("run", "Lowstates with their own credentials.", lowstates, returned, open_to_all=True)
            )
        },
        "/login": {
            "get": {**_operation("loginHelp", "How to log in: always 401."), "security": [], "responses": _errors()},
            "post": _post("login", "A name and a password for a token.", credentials, returned, open_to_all=True),
        },
        "/logout": {"post": _post("logout", "Revoke the token.", None, _object(["return"]))},
        "/token": {
            "post": _post("tokens", "Tokens for /run.", credentials, {"type": "array"}, open_to_all=True),
        },
        "/minions": {
            "get": _get("minions", "The grains of all minions.", returned),
            "post": _lenient(
                _post("publish", "Publish jobs and wait for nothing.", lowstates, _object(["return"]), status="202")
            ),
        },
        "/minions/{id}": {"get": _get("minion", "The grains of one minion.", returned, names=("id",))},
        "/jobs": {"get": _get("jobs", "The newest jobs.", returned)},
        "/jobs/{jid}": {"get": _get("job", "One job with its returns.", _object(["info", "return"]), names=("jid",))},
        "/keys": {
            "get": _get("keys", "The ids of keys, by list.", _object(["return"])),
            "post": _post(
                "letIn",
                "A join token for a minion that is to come. With a token, or with eauth, username and password.",
                _body(_ref("NewMinion")),
                _object(["return"], **{"return": _object(["mid", "join_token", "match", "uses", "expires_s"])}),
                open_to_all=True,
            ),
        },
        "/keys/{id}": {"get": _get("key", "The fingerprints of one id.", _object(["return"]), names=("id",))},
        "/events": {"get": _stream("events", "Server-sent events, for as long as the token is good.")},
        "/hook/{path}": {
            "post": _post(
                "hook",
                "Make an event of a body.",
                _body(_ANY, may_be_empty=True),
                _object(["success"]),
                names=("path",),
            )
        },
        **_fleet_paths(),
        **_docs_paths(),
        "/stats": {"get": _get("stats", "Figures about the API.", {"type": "object"})},
        "/metrics": {"get": _plain("metrics", "Figures for Prometheus.")},
        "/openapi.json": {"get": _get("openapi", "This document.", {"type": "object"}, open_to_all=True)},
    }


def _fleet_paths() -> dict[str, Any]:
    word = {"type": "string"}
    whole = {"type": "integer", "minimum": 0, "maximum": 10**10}
    target = _fleet_target()
    page = {"limit": {"type": "integer", "minimum": 1, "maximum": PAGE_MAX}}
    history = {
        "minion": word,
        "fun": word,
        "user": word,
        "state": {"enum": [str(outcome) for outcome in TargetOutcome]},
        "since": whole,
        "until": whole,
        "before": _PLACES["jid"],
    }
    publish = _post(
        "fleetPublish",
        "Publish a job without waiting for it. 409 asks for consent to a risk.",
        _body(_ref("FleetJob")),
        _object(["jid", "count"]),
        status="202",
    )
    flags = {"failed": {"type": "boolean"}, "consent": {"type": "array", "items": {"type": "string"}}}
    again = _post(
        "fleetRerun",
        "Publish the calls of a job again.",
        _body({"type": "object", "properties": flags, "additionalProperties": False}),
        _object(["jid", "count"]),
        names=("jid",),
        status="202",
    )
    for operation in (publish, again):
        question = {"description": "a risk needs consent", "content": _content(_object(["question"]))}
        operation["responses"]["409"] = question
    ended = _object(["ids", "away", "cancelled"])
    return {
        **_fleet_access_paths(),
        "/fleet": {
            "get": _get("fleet", "The state of the fleet, and the jobs of a day.", _object(["counts", "hours"])),
        },
        **_minion_paths(target, page),
        "/fleet/jobs": {
            "get": _page("fleetJobs", "A page of jobs, the newest first.", ["jobs", "more"], {**history, **page}),
            "post": publish,
        },
        "/fleet/jobs/{jid}": {
            "get": _get(
                "fleetJob",
                "One job, its equal outputs together.",
                _object(["job", "without", "groups"]),
                names=("jid",),
            ),
        },
        "/fleet/jobs/{jid}/kill": {"post": _post("fleetKill", "End a job.", None, ended, names=("jid",))},
        "/fleet/jobs/{jid}/rerun": {"post": again},
        "/fleet/target": {
            "get": _page(
                "fleetTarget",
                "What a target selects, and the signatures and risks of a function there.",
                ["count", "functions", "explanation"],
                {**target, "fun": word, "explain": word},
                "tgt",
            ),
        },
        "/fleet/resources": {
            "get": _page(
                "fleetResources",
                "A page of the resources.",
                ["resources", "more"],
                {"type": word, "minion": word, "after": word, **page},
            ),
        },
    }


def _minion_paths(target: dict[str, Any], page: dict[str, Any]) -> dict[str, Any]:
    whole = {"type": "integer", "minimum": 0, "maximum": 10**10}
    minions = {**target, "state": {"enum": list(STATES)}, "sort": {"enum": _either_way(ORDERS)}}
    return {
        "/fleet/minions": {
            "get": _page(
                "fleetMinions",
                "A page of the minions.",
                ["minions", "total"],
                {**minions, "offset": whole, **page},
                minions={"type": "array", "items": _ref("Minion")},
            ),
        },
        "/fleet/minions/{id}": {
            "get": _get(
                "fleetMinion",
                "One minion, null without an accepted key.",
                _object(["minion", "keys", "grains"], minion={"anyOf": [_ref("Minion"), {"type": "null"}]}),
                names=("id",),
            ),
        },
    }


def _fleet_target() -> dict[str, Any]:
    return {"tgt": {"type": "string", "minLength": 1}, "tgt_type": {"enum": [str(kind) for kind in TargetKind]}}


def _catalogue_paths() -> dict[str, Any]:
    return {
        "/fleet/functions": {
            "get": _page(
                "fleetFunctions",
                "The functions that the caller may run on a target, with signatures, risks and documentation.",
                ["functions", "modules", "more"],
                {**_fleet_target(), "prefix": {"type": "string"}, "limit": _fleet_page()["limit"]},
            ),
        },
    }


def _fleet_access_paths() -> dict[str, Any]:
    texts = {"type": "array", "items": {"type": "string"}}
    changes = _object(["action", "fingerprints"], action={"type": "string"}, fingerprints=texts)
    return {
        **_catalogue_paths(),
        "/fleet/words": {
            "get": _page(
                "fleetWords",
                "Words that begin with a prefix.",
                ["words"],
                {"kind": {"enum": ["target", "minion", "key", "jid", "function"]}, "prefix": {"type": "string"}},
            ),
        },
        "/fleet/keys": {
            "get": _page(
                "fleetKeys",
                "A page of the keys of minions.",
                ["keys", "total", "counts", "fleet"],
                {
                    "state": {"enum": list(KEY_STATES)},
                    "search": {"type": "string"},
                    "sort": {"enum": _either_way(KEY_ORDERS)},
                    **_fleet_page(),
                },
            ),
            "post": _post(
                "fleetKeysChange",
                "Accept, reject, revoke or delete keys.",
                _body({**changes, "additionalProperties": False}),
                _object(["changed", "refused"]),
            ),
        },
        "/fleet/jobs/{jid}/returns/{id}": {
            "get": _get(
                "fleetReturn",
                "The whole return of one target.",
                _object(["ret", "retcode", "success"]),
                names=("jid", "id"),
            ),
        },
        "/fleet/events": {
            "get": _page(
                "fleetEvents",
                "Events that were, the newest first.",
                ["events", "before"],
                {
                    "before": {"type": "integer", "minimum": 1, "maximum": 10**10},
                    "tag": {"type": "string"},
                    "limit": _fleet_page()["limit"],
                },
            ),
        },
        "/fleet/access": {
            "get": _get(
                "fleetAccess", "Who the caller is, and the logins that there are.", _object(["user", "perms"], now=_NOW)
            ),
            "post": _post(
                "fleetRevoke",
                "Revoke logins.",
                _body({**_object(["revoke"], revoke=texts), "additionalProperties": False}),
                _object(["revoked"]),
            ),
        },
        "/fleet/access/explain": {
            "post": _post(
                "fleetExplain",
                "Whether a user may run a function on a target, and by which rule.",
                _body(_ref("AccessQuestion")),
                _object(["user", "allowed", "reason", "rules", "targets", "refused"]),
            ),
        },
        "/fleet/tokens": {
            "get": _get("fleetTokens", "The valid join tokens, without their texts.", _object(["tokens"])),
            "post": _post("fleetTokensMake", "Make a join token.", _body(_ref("NewToken")), _object(["token"])),
        },
        "/fleet/tokens/{id}/revoke": {
            "post": _post("fleetTokensRevoke", "End a join token.", None, _object(["revoked"]), names=("id",)),
        },
        **_fleet_runner_paths(),
    }


def _fleet_runner_paths() -> dict[str, Any]:
    return {
        "/fleet/runners": {
            "get": _get("fleetRunners", "The caller's runners that were not waited for.", _object(["calls"])),
            "post": _runner(),
        },
        "/fleet/runners/functions": {
            "get": _get("fleetRunnerFunctions", "The runners that the caller may run.", _object(["functions"])),
        },
        "/fleet/runners/{jid}": {
            "get": _get(
                "fleetRunnerCall",
                "One runner that was not waited for.",
                _object(["jid", "fun", "began", "ended", "retcode", "value", "cut"]),
                names=("jid",),
            ),
        },
        "/fleet/runners/{jid}/return": {
            "get": _get(
                "fleetRunnerReturn", "The whole return of a runner.", _object(["value", "retcode"]), names=("jid",)
            ),
        },
    }


def _runner() -> dict[str, Any]:
    waited = _object(["jid", "value", "retcode"])
    operation = _post(
        "fleetRunner", "Run a runner, and wait for it unless `wait` is false.", _body(_ref("FleetRunner")), waited
    )
    operation["responses"]["202"] = {"description": "it was started", "content": _content(_object(["jid"]))}
    return operation


def _fleet_page() -> dict[str, Any]:
    """Which part of a list."""
    return {
        "offset": {"type": "integer", "minimum": 0, "maximum": 10**10},
        "limit": {"type": "integer", "minimum": 1, "maximum": PAGE_MAX},
    }


def _docs_paths() -> dict[str, Any]:
    contents, page = ["version", "pages", "reference"], ["name", "title", "text"]
    entry, words = (
        ["section", "title", "name", "doc", "items"],
        {"type": "string", "minLength": 1, "maxLength": WORDS_MAX},
    )
    found = _page("docsSearch", "Where all of some words occur.", ["found"], {"words": words}, "words")
    return {
        "/docs": {"get": _get("docs", "The documents and the reference.", _object(contents), open_to_all=True)},
        "/docs/search": {"get": {**found, "security": []}},
        "/docs/{page}": {
            "get": _get("docsPage", "A document, in Markdown.", _object(page), names=("page",), open_to_all=True),
        },
        "/docs/reference/{section}/{entry}": {
            "get": _get(
                "docsEntry",
                "An entry of the reference.",
                _object(entry),
                names=("section", "entry"),
                open_to_all=True,
            ),
        },
    }


def _either_way(names: Sequence[str]) -> list[str]:
    return [*names, *(f"-{name}" for name in names)]


def _schemas() -> dict[str, Any]:
    word = {"type": "string", "minLength": 1}
    text, flag, seconds = {"type": "string"}, {"type": "boolean"}, {"type": "number", "exclusiveMinimum": 0}
    return {
        "Minion": {
            "type": "object",
            "required": ["id", "state", "reason", "last_seen", "address", "version", "resources"],
            "properties": {
                "id": text,
                "state": {"enum": list(STATES)},
                "reason": {**text, "description": "Why it is not connected; empty for one that is."},
                "last_seen": {"type": ["number", "null"], "description": "Of one that is up: since when."},
                "address": text,
                "version": text,
                "resources": {"type": "integer", "description": "How many it manages."},
                "master": {
                    **text,
                    "description": "Only where several masters share the store: which one it is at, or was last.",
                },
            },
        },
        "Lowstate": {
            "type": "object",
            "required": ["client", "fun"],
            "properties": {
                "client": {"enum": list(CLIENTS), "examples": ["local"]},
                "tgt": {"anyOf": [word, {"type": "array", "items": word, "minItems": 1}], "examples": ["*"]},
                "tgt_type": {"enum": [str(kind) for kind in TargetKind]},
                "expr_form": {"enum": [str(kind) for kind in TargetKind], "description": "The old name of tgt_type."},
                "fun": {"anyOf": [word, {"type": "array", "items": word, "minItems": 1}], "examples": ["test.ping"]},
                "arg": _ANY,
                "kwarg": {"type": "object"},
                "timeout": seconds,
                "full_return": flag,
                "batch": {"anyOf": [text, {"type": "integer", "minimum": 1}]},
                "batch_wait": seconds,
                "failhard": flag,
                "gather_job_timeout": seconds,
                "metadata": {"type": "object"},
                "ret": {"anyOf": [text, {"type": "array", "items": text}]},
                "subset": {"type": "integer", "minimum": 1},
                "module_executors": {"anyOf": [text, {"type": "array", "items": text}]},
                "executor_opts": {"type": "object"},
                "run_timeout": seconds,
                "deliver_by": seconds,
                "token": text,
                "eauth": text,
                "username": text,
                "password": text,
            },
        },
        "Login": {
            "type": "object",
            "required": ["eauth", "username", "password"],
            "properties": {"eauth": word, "username": word, "password": word},
        },
        **_body_schemas(),
        "Welcome": _object(["return", "clients"], clients={"type": "array", "items": {"enum": list(CLIENTS)}}),
        "Error": _object(
            ["error", "status"],
            error=text,
            status={"type": "integer"},
            **{"return": {"type": "array", "description": "What earlier lowstates of the request returned."}},
        ),
    }


def _body_schemas() -> dict[str, Any]:
    word, text, flag = {"type": "string", "minLength": 1}, {"type": "string"}, {"type": "boolean"}
    return {
        "NewMinion": {
            "type": "object",
            "required": ["mid"],
            "additionalProperties": False,
            "properties": {
                "mid": {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"},
                "eauth": text,
                "username": text,
                "password": text,
                "sharedsecret": text,
            },
        },
        "FleetJob": {
            "type": "object",
            "required": ["tgt", "fun"],
            "additionalProperties": False,
            "properties": {
                "tgt": {**word, "examples": ["*"]},
                "tgt_type": {"enum": [str(kind) for kind in TargetKind]},
                "fun": {**word, "examples": ["test.ping"]},
                "arg": {"type": "array"},
                "kwarg": {"type": "object"},
                "consent": {"type": "array", "items": text},
                "batch": {"type": "string", "pattern": "^[1-9][0-9]{0,5}%?$"},
                "dry": flag,
            },
        },
        "FleetRunner": {
            "type": "object",
            "required": ["fun"],
            "additionalProperties": False,
            "properties": {
                "fun": {**word, "examples": ["manage.up"]},
                "arg": {"type": "array"},
                "kwarg": {"type": "object"},
                "wait": flag,
            },
        },
        "AccessQuestion": {
            "type": "object",
            "required": ["user", "tgt", "fun"],
            "additionalProperties": False,
            "properties": {
                "user": {**word, "examples": ["pam:fred"]},
                "groups": {"type": "array", "items": text},
                "tgt": {**word, "examples": ["*"]},
                "tgt_type": {"enum": [str(kind) for kind in TargetKind]},
                "fun": {**word, "examples": ["test.ping"]},
                "arg": {"type": "array"},
                "kwarg": {"type": "object"},
            },
        },
        "NewToken": {
            "type": "object",
            "required": ["id_glob"],
            "additionalProperties": False,
            "properties": {
                "id_glob": {**word, "examples": ["web*"]},
                "uses": {"type": "integer", "minimum": 1},
                "expires_s": {"type": "integer", "minimum": 1},
            },
        },
    }


def _get(name: str, summary: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return _answered(name, summary, None, schema, **more)


def _post(name: str, summary: str, body: dict[str, Any] | None, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return _answered(name, summary, body, schema, **more)


def _answered(
    name: str,
    summary: str,
    body: dict[str, Any] | None,
    schema: dict[str, Any],
    *,
    open_to_all: bool = False,
    names: tuple[str, ...] = (),
    status: str = "200",
) -> dict[str, Any]:
    return {
        **_operation(name, summary, names),
        **({"security": []} if open_to_all else {}),
        **({"requestBody": body} if body is not None else {}),
        "responses": {status: {"description": "done", "content": _content(schema)}, **_errors()},
    }


def _lenient(operation: dict[str, Any]) -> dict[str, Any]:
    """An operation in which Salt's API is lenient, unless the client prefers otherwise."""
    strict = {
        "name": "Prefer",
        "in": "header",
        "schema": {"type": "string", "examples": ["handling=strict"]},
        "description": "handling=strict: unknown fields, and calls that nothing can run, are errors.",
    }
    return {**operation, "parameters": [strict]}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"schema": schema} for kind in ("application/json", "application/x-yaml")}


def _operation(name: str, summary: str, names: tuple[str, ...] = ()) -> dict[str, Any]:
    parameters = [
        {"name": one, "in": "path", "required": True, "schema": _PLACES.get(one, {"type": "string", "minLength": 1})}
        for one in names
    ]
    return {"operationId": name, "summary": summary, **({"parameters": parameters} if parameters else {})}


def _page(
    name: str, summary: str, required: list[str], query: Mapping[str, Any], *needed: str, **properties: Any
) -> dict[str, Any]:
    """A GET with parameters in the URL, each with its schema, of which the `needed` ones must be given;
    `properties` are fields of the answer with their schemas."""
    parameters = [
        {"name": one, "in": "query", "schema": schema, **({"required": True} if one in needed else {})}
        for one, schema in query.items()
    ]
    return {**_get(name, summary, _object(required, **properties)), "parameters": parameters}


def _stream(name: str, summary: str) -> dict[str, Any]:
    cursor = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}}
    returns = {
        "name": "returns",
        "in": "query",
        "schema": {"enum": ["true", "false"], "default": "true"},
        "description": "Whether events of jobs have arguments, targets and returns.",
    }
    tag = {
        "name": "tag",
        "in": "query",
        "schema": {"type": "string"},
        "description": "Only events with this part in their tag.",
    }
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    done = {"description": "events, until the caller goes away", "content": content}
    return {**_operation(name, summary), "parameters": [cursor, returns, tag], "responses": {"200": done, **_errors()}}


def _plain(name: str, summary: str) -> dict[str, Any]:
    done = {"description": "done", "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {**_operation(name, summary), "responses": {"200": done, **_errors()}}


def _body(schema: dict[str, Any], *, form: dict[str, Any] | None = None, may_be_empty: bool = False) -> dict[str, Any]:
    """A body in every format; `form` is what a form has, when that is something else."""
    kinds = {"application/json": schema, "application/x-yaml": schema, FORM: form or schema}
    return {"required": not may_be_empty, "content": {kind: {"schema": row} for kind, row in kinds.items()}}


def _one_or_several(schema: str) -> dict[str, Any]:
    """A body of one map or a list of them; a form is one."""
    several = {"anyOf": [_ref(schema), {"type": "array", "items": _ref(schema), "minItems": 1}]}
    return _body(several, form=_ref(schema))


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": dict.fromkeys(required, _ANY) | properties}


def _ref(schema: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{schema}"}


def _error(text: str) -> dict[str, Any]:
    return {"description": text, "content": _content(_ref("Error"))}


def _errors() -> dict[str, Any]:
    return {code: {"$ref": f"#/components/responses/{code}"} for code in _ANSWERS}


if __name__ == "__main__":
    print(json.dumps(document(), indent=2))  # noqa: T201 - that is what it is for
