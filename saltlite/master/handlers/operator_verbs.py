"""The table of operator verbs, and their dispatcher: it checks fields, authenticates tokens and authorises the verb.

A request is `{"v": 1, "verb": verb, field: value, …}`, with the field `token` after a login. The answer is
`{"ok": True, …}`, or `{"ok": False, "exit": exit code, "error": one sentence}`, with `"login": True` if a login is
required. Requests that do not match the table are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize, refuse_barred
from saltlite.errors import UsageError
from saltlite.master.handlers import (
    auth,
    cached,
    documents,
    events,
    files,
    functions,
    jobs,
    keys,
    masters,
    mine,
    minions,
    publish,
    resources,
    targets,
)
from saltlite.master.handlers.fields import (
    NAME,
    TOKEN,
    BooleanField,
    BytesField,
    Field,
    IntegerField,
    ListField,
    MapField,
    Names,
    NumberField,
    TextField,
)
from saltlite.master.processes.context import Answer, Master
from saltlite.model.dataclass import dataclass

PROTOCOL_VERSION = 1
SHOWN_MAX = 80
"""Characters of a wrong value that an answer repeats."""

Request = Mapping[str, Any]
Handler = Callable[[Master, Principal, Request], Answer]


@dataclass(frozen=True, slots=True)
class OperatorVerb:
    """One row: the handler, its required fields, and its optional ones."""

    handle: Handler
    needs: Mapping[str, Field] = field(default_factory=dict)
    takes: Mapping[str, Field] = field(default_factory=dict)
    authorizes: bool = False
    """The handler authorises the request by itself, because that depends on a field."""


VERBS: dict[str, OperatorVerb] = {
    "login": OperatorVerb(auth.handle_login, {"backend": NAME, "username": NAME, "password": TextField()}),
    "logout": OperatorVerb(auth.handle_logout),
    "whoami": OperatorVerb(auth.handle_whoami, {}, {"runners": Names}),
    "auth_token_list": OperatorVerb(auth.handle_auth_token_list),
    "auth_token_revoke": OperatorVerb(auth.handle_auth_token_revoke, {"ids": Names}),
    "acl_explain": OperatorVerb(
        auth.handle_acl_explain,
        {"user": NAME, "tgt": TextField(), "tgt_type": NAME, "fun": NAME, "args": ListField(), "kwargs": MapField()},
        {"groups": Names},
    ),
    "publish": OperatorVerb(publish.handle_publish, publish.FIELDS, publish.OPTIONAL_FIELDS),
    "copy_begin": OperatorVerb(files.handle_copy_begin),
    "copy_put": OperatorVerb(
        files.handle_copy_put,
        {
            "area": NAME,
            "path": NAME,
            "offset": IntegerField(most=2**53),
            "data": BytesField(files.PIECE_MAX),
            "mode": IntegerField(most=0o7777),
        },
    ),
    "copy_end": OperatorVerb(files.handle_copy_end, {"area": NAME, "jid": NAME}),
    "describe": OperatorVerb(
        publish.handle_describe,
        {"tgt": TextField(), "tgt_type": NAME, "funs": Names},
        {"permitted": BooleanField()},
    ),
    "follow": OperatorVerb(jobs.handle_follow, {"jid": NAME, "after": IntegerField()}, {"once": BooleanField()}),
    "job_kill": OperatorVerb(jobs.handle_job_kill, {"jid": NAME}, {"planned": BooleanField()}),
    "job_list": OperatorVerb(
        jobs.handle_job_list,
        {},
        {
            "minion": NAME,
            "fun": NAME,
            "user": NAME,
            "since": NumberField(),
            "until": NumberField(),
            "state": NAME,
            "limit": IntegerField(),
            "before": NAME,
            "whole": BooleanField(),
        },
    ),
    "job_show": OperatorVerb(jobs.handle_job_show, {"jid": NAME}, {"grouped": BooleanField()}),
    "job_return": OperatorVerb(jobs.handle_job_return, {"jid": NAME, "target": NAME}),
    "events": OperatorVerb(
        events.handle_events,
        {"pattern": NAME},
        {"after": IntegerField(), "since": NumberField(), "returns": BooleanField(), "once": BooleanField()},
    ),
    "event_views": OperatorVerb(events.handle_event_views, {"tokens": Names}),
    "event_send": OperatorVerb(events.handle_event_send, {"tag": NAME, "data": MapField()}, {"runner": NAME}),
    "missing_functions": OperatorVerb(functions.handle_missing_functions, {"fun": NAME}),
    "runner_event": OperatorVerb(
        events.handle_runner_event,
        {"jid": NAME, "funs": Names},
        {"retcode": IntegerField(-(2**63)), "duration_ms": IntegerField()},
    ),
    "wheel_event": OperatorVerb(
        events.handle_wheel_event, {"jid": NAME, "fun": NAME}, {"success": BooleanField(), "data": MapField()}
    ),
    "status": OperatorVerb(minions.handle_status, {}, {"brief": BooleanField()}),
    "config_values": OperatorVerb(minions.handle_config_values),
    "masters": OperatorVerb(masters.handle_masters),
    "master_drain": OperatorVerb(masters.handle_master_drain, {"name": NAME}, {"ends": BooleanField()}),
    "master_remove": OperatorVerb(masters.handle_master_remove, {"name": NAME}),
    "minions_connected": OperatorVerb(minions.handle_minions_connected),
    "key_list": OperatorVerb(
        keys.handle_key_list,
        {},
        {
            "public": BooleanField(),
            "id": NAME,
            "state": NAME,
            "search": NAME,
            "sort": NAME,
            "offset": IntegerField(),
            "limit": IntegerField(1, keys.ROWS_MAX),
        },
    ),
    "key_change": OperatorVerb(keys.handle_key_change, {"action": NAME, "fingerprints": Names}),
    "key_preaccept": OperatorVerb(keys.handle_key_preaccept, {"id": NAME, "fingerprint": NAME}),
    "key_rename": OperatorVerb(keys.handle_key_rename, {"id": NAME, "new_id": NAME}),
    "key_finger": OperatorVerb(keys.handle_key_finger),
    "token_create": OperatorVerb(
        keys.handle_token_create, {"uses": IntegerField(), "expires_s": NumberField(), "id_glob": NAME}
    ),
    "token_list": OperatorVerb(keys.handle_token_list),
    "token_revoke": OperatorVerb(keys.handle_token_revoke, {"token_id": NAME}),
    "cloud_event": OperatorVerb(events.handle_cloud_event, {"machine": NAME, "what": NAME, "data": MapField()}),
    "hook": OperatorVerb(events.handle_hook, {"path": NAME, "data": MapField()}, authorizes=True),
    "last_seen": OperatorVerb(minions.handle_last_seen, {"ids": Names}),
    "minions": OperatorVerb(
        minions.handle_minions,
        {},
        {
            "tgt": TextField(),
            "tgt_type": NAME,
            "state": NAME,
            "sort": NAME,
            "offset": IntegerField(),
            "limit": IntegerField(1, minions.ROWS_MAX),
        },
    ),
    "match": OperatorVerb(targets.handle_match, {"tgt": TextField(), "tgt_type": NAME}, {"explain": NAME}),
    "cached": OperatorVerb(
        cached.handle_cached,
        {"bank": NAME, "tgt": TextField(), "tgt_type": NAME},
        {"after": NAME, "names": BooleanField(), "key": NAME},
    ),
    "cache_clear": OperatorVerb(cached.handle_cache_clear, {"banks": Names, "tgt": TextField(), "tgt_type": NAME}),
    "mine_get": OperatorVerb(
        mine.handle_mine_get, {"tgt": TextField(), "tgt_type": NAME, "functions": Names}, {"after": NAME}
    ),
    "pillar_show": OperatorVerb(documents.handle_pillar_show, {"id": NAME}),
    "file_list": OperatorVerb(files.handle_file_list, {"operation": NAME}, {"env": NAME, "after": NAME}),
    "resource_list": OperatorVerb(resources.handle_resource_list, {}, {"type": NAME, "minion": NAME, "after": NAME}),
    "resource_owner": OperatorVerb(resources.handle_resource_owner, {"id": NAME}),
    "resource_grains": OperatorVerb(resources.handle_resource_grains, {"type": NAME, "id": NAME}),
    "resource_list_grains": OperatorVerb(resources.handle_resource_list_grains, {}, {"after": NAME}),
    "resource_transfer": OperatorVerb(resources.handle_resource_transfer, {"srn": NAME, "minion": NAME}),
    "resource_confirm": OperatorVerb(resources.handle_resource_confirm, {"minion": NAME}, {"type": NAME}),
    "resource_stats": OperatorVerb(resources.handle_resource_stats),
    "resource_compact": OperatorVerb(resources.handle_resource_compact),
    "resource_verify": OperatorVerb(resources.handle_resource_verify),
    "complete": OperatorVerb(
        functions.handle_complete, {"kind": NAME, "prefix": NAME}, {"function": NAME, "states": Names}
    ),
}


AUDITED: Mapping[str, tuple[str, ...]] = {
    "auth_token_revoke": ("ids",),
    "cache_clear": ("banks", "tgt", "tgt_type"),
    "cloud_event": ("machine", "what"),
    "copy_end": ("area", "jid"),
    "event_send": ("tag",),
    "hook": ("path",),
    "job_kill": ("jid",),
    "key_change": ("action", "fingerprints"),
    "key_preaccept": ("id", "fingerprint"),
    "key_rename": ("id", "new_id"),
    "logout": (),
    "master_drain": ("name", "ends"),
    "master_remove": ("name",),
    "pillar_show": ("id",),
    "resource_compact": (),
    "resource_confirm": ("minion", "type"),
    "resource_transfer": ("srn", "minion"),
    "runner_event": ("jid", "funs"),
    "token_create": ("uses", "expires_s", "id_glob"),
    "token_revoke": ("token_id",),
    "wheel_event": ("jid", "fun"),
}
"""Verb -> the fields that the audit log has of a request that was carried out. `publish` and `login` write more."""
AUDITED_ANSWERS: Mapping[str, tuple[str, ...]] = {
    "auth_token_revoke": ("revoked",),
    "token_revoke": ("revoked",),
}
"""Verb -> the fields of its answer that the audit log has, too: they say whether anything was changed."""


def handle_request(master: Master, principal: Principal, request: object) -> Answer:
    """The answer to one request of a client. Raises SaltliteError, whose message and exit code are the answer."""
    return carry_out(master, *checked_request(master, principal, request))


def checked_request(master: Master, principal: Principal, request: object) -> tuple[Principal, str, Request]:
    """The principal (of the token, if there is one), the verb and the fields of a request. Raises SaltliteError."""
    if not isinstance(request, dict):
        raise UsageError("a request is a map")
    if request.get("v") != PROTOCOL_VERSION or request["v"] is True:
        spoken = repr(request.get("v"))[:SHOWN_MAX]
        raise UsageError(f"this master speaks client protocol {PROTOCOL_VERSION}, the client {spoken}")
    name = request.get("verb")
    verb = VERBS.get(name) if isinstance(name, str) else None
    if verb is None:
        raise UsageError(f"this master knows no request {str(name)[:40]!r}")
    refuse_barred(principal, master.config)
    _check(str(name), verb, request)
    if "token" in request:
        principal = master.logins.holder(master.store, request["token"], master.clock.wall())
    return principal, str(name), request


def carry_out(master: Master, principal: Principal, name: str, request: Request) -> Answer:
    """Authorise and answer a request whose fields were checked. Raises SaltliteError as `handle_request` does."""
    answer = dispatch(master, principal, name, request)
    return answer if answer.write is None else answer.write.alone(master.store)


def dispatch(master: Master, principal: Principal, name: str, request: Request) -> Answer:
    """As `carry_out`, but the caller commits the answer's `write`."""
    verb = VERBS[name]
    master.begin_request()
    if not verb.authorizes:
        authorize(principal, Action(name), master.config)
    answer = verb.handle(master, principal, request)
    if name in AUDITED:
        asked = {key: request[key] for key in AUDITED[name] if key in request}
        master.record(principal, name, asked | {key: answer.fields[key] for key in AUDITED_ANSWERS.get(name, ())})
    return answer


def _check(name: str, verb: OperatorVerb, request: Request) -> None:
    unknown = set(request) - set(verb.needs) - set(verb.takes) - {"v", "verb", "token"}
    if unknown:
        raise UsageError(f"{name} does not take {', '.join(sorted(map(str, unknown)))[:SHOWN_MAX]}")
    for fields, needed in ((verb.needs, True), ({**verb.takes, "token": TOKEN}, False)):
        for key, kind in fields.items():
            if key not in request:
                if needed:
                    raise UsageError(f"{name} needs {key}")
                continue
            wrong = kind.problem(request[key])
            if wrong:
                raise UsageError(f"the field {key} of {name} is wrong: {wrong}")
