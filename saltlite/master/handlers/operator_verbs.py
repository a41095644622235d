"""The table of operator verbs: verb -> fields, handler. A request that the table does not describe is refused.

A request is `{"v": 1, "verb": verb, field: value, …}`, of whoever has logged in with the field `token`; the answer
`{"ok": True, …}` or `{"ok": False, "exit": exit code, "error": one sentence}`, with `"login": True` where a (new) login
is what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from saltlite.core.acl import Principal, refuse_barred
from saltlite.errors import UsageError
from saltlite.master.context import Answer, Master
from saltlite.master.handlers import (
    acl_explain,
    auth_tokens,
    cached,
    cloud_event,
    complete,
    copies,
    describe,
    event_send,
    events,
    follow,
    heard,
    hook,
    job_kill,
    jobs,
    keys,
    lacking,
    login,
    match,
    minions,
    pillar,
    publish,
    resources,
    runner_event,
    served,
    status,
    token_create,
    token_revoke,
)

PROTOCOL_VERSION = 1

Request = Mapping[str, Any]
Handler = Callable[[Master, Principal, Request], Answer]


@dataclass(frozen=True, slots=True)
class OperatorVerb:
    """One row: the handler, the fields that must be there, and those that may."""

    handle: Handler
    needs: Mapping[str, type | tuple[type, ...]] = field(default_factory=dict)
    takes: Mapping[str, type | tuple[type, ...]] = field(default_factory=dict)


NUMBER = (int, float)

VERBS: dict[str, OperatorVerb] = {
    "login": OperatorVerb(login.handle_login, {"backend": str, "username": str, "password": str}),
    "logout": OperatorVerb(login.handle_logout),
    "whoami": OperatorVerb(login.handle_whoami),
    "auth_token_list": OperatorVerb(auth_tokens.handle_auth_token_list),
    "auth_token_revoke": OperatorVerb(auth_tokens.handle_auth_token_revoke, {"ids": list}),
    "acl_explain": OperatorVerb(
        acl_explain.handle_acl_explain,
        {"user": str, "tgt": str, "tgt_type": str, "fun": str, "args": list, "kwargs": dict},
        {"groups": list},
    ),
    "publish": OperatorVerb(
        publish.handle_publish,
        {"request_id": str, "tgt": str, "tgt_type": str, "calls": list},
        {
            "deliver_ms": int,
            "run_ms": int,
            "follow": bool,
            "subset": int,
            "batch": dict,
            "metadata": dict,
            "origin": str,
            "module_executors": (list, str),
            "executor_opts": dict,
            "ret": (list, str),
            "runner": str,
        },
    ),
    "copy_begin": OperatorVerb(copies.handle_copy_begin),
    "copy_put": OperatorVerb(
        copies.handle_copy_put, {"area": str, "path": str, "offset": int, "data": bytes, "mode": int}
    ),
    "copy_end": OperatorVerb(copies.handle_copy_end, {"area": str, "jid": str}),
    "describe": OperatorVerb(describe.handle_describe, {"tgt": str, "tgt_type": str, "funs": list}),
    "follow": OperatorVerb(follow.handle_follow, {"jid": str, "after": int}, {"once": bool}),
    "job_kill": OperatorVerb(job_kill.handle_job_kill, {"jid": str}),
    "job_list": OperatorVerb(
        jobs.handle_job_list,
        {},
        {
            "minion": str,
            "fun": str,
            "user": str,
            "since": NUMBER,
            "until": NUMBER,
            "state": str,
            "limit": int,
            "before": str,
            "whole": bool,
        },
    ),
    "job_show": OperatorVerb(jobs.handle_job_show, {"jid": str}),
    "events": OperatorVerb(events.handle_events, {"pattern": str}, {"after": int, "since": NUMBER}),
    "event_send": OperatorVerb(event_send.handle_event_send, {"tag": str, "said": dict}, {"runner": str}),
    "lacking": OperatorVerb(lacking.handle_lacking, {"fun": str}),
    "runner_event": OperatorVerb(
        runner_event.handle_runner_event, {"jid": str, "funs": list}, {"retcode": int, "duration_ms": int}
    ),
    "status": OperatorVerb(status.handle_status),
    "key_list": OperatorVerb(keys.handle_key_list),
    "key_change": OperatorVerb(keys.handle_key_change, {"action": str, "fingerprints": list}),
    "key_preaccept": OperatorVerb(keys.handle_key_preaccept, {"id": str, "fingerprint": str}),
    "key_finger": OperatorVerb(keys.handle_key_finger),
    "token_create": OperatorVerb(token_create.handle_token_create, {"uses": int, "expires_s": NUMBER, "id_glob": str}),
    "token_revoke": OperatorVerb(token_revoke.handle_token_revoke, {"token_id": str}),
    "cloud_event": OperatorVerb(cloud_event.handle_cloud_event, {"machine": str, "what": str, "said": dict}),
    "hook": OperatorVerb(hook.handle_hook, {"path": str, "said": dict}),
    "heard": OperatorVerb(heard.handle_heard, {"ids": list}),
    "minions": OperatorVerb(minions.handle_minions),
    "match": OperatorVerb(match.handle_match, {"tgt": str, "tgt_type": str}, {"explain": str}),
    "cached": OperatorVerb(
        cached.handle_cached, {"bank": str, "tgt": str, "tgt_type": str}, {"after": str, "names": bool}
    ),
    "cache_clear": OperatorVerb(cached.handle_cache_clear, {"banks": list, "tgt": str, "tgt_type": str}),
    "pillar_show": OperatorVerb(pillar.handle_pillar_show, {"id": str}),
    "served": OperatorVerb(served.handle_served, {"act": str}, {"env": str, "after": str}),
    "resource_list": OperatorVerb(resources.handle_resource_list, {}, {"type": str, "minion": str, "after": str}),
    "resource_owner": OperatorVerb(resources.handle_resource_owner, {"id": str}),
    "resource_grains": OperatorVerb(resources.handle_resource_grains, {"type": str, "id": str}),
    "resource_list_grains": OperatorVerb(resources.handle_resource_list_grains, {}, {"after": str}),
    "resource_transfer": OperatorVerb(resources.handle_resource_transfer, {"srn": str, "minion": str}),
    "resource_stats": OperatorVerb(resources.handle_resource_stats),
    "resource_compact": OperatorVerb(resources.handle_resource_compact),
    "resource_verify": OperatorVerb(resources.handle_resource_verify),
    "complete": OperatorVerb(complete.handle_complete, {"kind": str, "prefix": str}, {"function": str, "states": list}),
}


def handle_request(master: Master, principal: Principal, request: object) -> Answer:
    """The answer to one request of a client. Raises SaltliteError, whose sentence and exit code are the answer."""
    if not isinstance(request, dict):
        raise UsageError("a request is a map")
    if request.get("v") != PROTOCOL_VERSION:
        raise UsageError(f"this master speaks client protocol {PROTOCOL_VERSION}, the client {request.get('v')!r}")
    name = request.get("verb")
    verb = VERBS.get(name) if isinstance(name, str) else None
    if verb is None:
        raise UsageError(f"this master knows no request {str(name)[:40]!r}")
    refuse_barred(principal, master.terms)
    _check(str(name), verb, request)
    if "token" in request:
        principal = master.logins.holder(master.store, request["token"], master.clock.wall())
    return verb.handle(master, principal, request)


def _check(name: str, verb: OperatorVerb, request: Request) -> None:
    unknown = set(request) - set(verb.needs) - set(verb.takes) - {"v", "verb", "token"}
    if unknown:
        raise UsageError(f"{name} does not take {', '.join(sorted(map(str, unknown)))}")
    for fields, needed in ((verb.needs, True), ({**verb.takes, "token": str}, False)):
        for key, kind in fields.items():
            if key not in request:
                if needed:
                    raise UsageError(f"{name} needs {key}")
            elif not isinstance(request[key], kind) or (isinstance(request[key], bool) and kind is not bool):
                raise UsageError(f"{key} of {name} has the wrong type")
