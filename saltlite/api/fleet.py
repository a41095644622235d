"""/fleet: the fleet as plain JSON, for the console and for other programs. Rights are those of the caller.

Lists are filtered, sorted and cut into pages by the master, so that a page is as small for 100,000 machines as for ten.
A field that the caller may not see is null. The endpoints for clients of Salt's API are in `endpoints`.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from saltlite.api import link
from saltlite.api.clients import RunnerCall, read_batch
from saltlite.api.endpoint import Endpoint
from saltlite.api.feeds import earlier_events
from saltlite.api.formats import HTML, JSON, as_json
from saltlite.api.runner_calls import FollowedCall
from saltlite.api.wheel import TOKEN_LASTS_S
from saltlite.client.local import JobCall
from saltlite.client.rerun import same_calls
from saltlite.errors import RefusedError, UsageError
from saltlite.model.ids import parse_jid, parse_minion_id
from saltlite.model.signature import parse_signature
from saltlite.wire.job_body import CALLS_MAX

PAGE = 100
"""Rows of a page whose size was not asked for."""
PAGE_MAX = 1000
HOUR_S = 3600
HOURS = 24
"""The hours of jobs that the overview counts."""
JOBS_COUNTED = 1000
"""The newest jobs that the overview counts; `jobs_cut` says that there were more."""
GROUPS_MAX = 100
"""Different outputs of a job in an answer."""
IDS_MAX = 200
"""Targets that a group of equal outputs names; `count` has their number."""
IDS_LEAST = 10
"""Those that it names when the groups before it have named IDS_OF_ALL."""
IDS_OF_ALL = 1000
VALUE_MAX = 64 * 1024
"""Characters of one output as JSON; a longer one is cut and marked."""
VALUE_LEAST = 256
"""Those that are left of it when the groups before it have VALUES_OF_ALL."""
VALUES_OF_ALL = 64 * 1024
PREVIEW_MAX = 1000
"""Targets that a preview names."""
EVENTS_READ = 5000
"""Events that one request looks through for those with a part of a tag."""
EVENTS_STEP = 1000
"""Those that it asks the master for at once."""


class FleetEndpoint(Endpoint):
    """The base of the endpoints below /fleet."""

    async def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        """The master's answer to one verb, for the caller."""
        return await self.context.link.call(self.token(), verb, **fields)

    async def ask_if_allowed(self, verb: str, **fields: Any) -> dict[str, Any] | None:
        """The same, or None if the caller has no right to it."""
        try:
            return await self.ask(verb, **fields)
        except RefusedError:
            return None

    async def publish(self, call: JobCall, consent: list[str]) -> None:
        """Publish a job and answer 202, or 409 with the question that comes first."""
        published = await link.publish_or_ask(self.context.link, self.token(), call, consent)
        if isinstance(published, dict):
            self.answer({"question": _shown(published)}, 409)
        else:
            self.answer({"jid": published.jid, "count": published.count}, 202)

    def texts(self, *names: str) -> dict[str, str]:
        """Those of these query parameters that the URL has."""
        given = ((name, self.get_query_arguments(name)) for name in names)
        return {name: texts[-1] for name, texts in given if texts}

    def target(self) -> dict[str, str]:
        """`tgt` and `tgt_type` of the URL, both or none. Raises UsageError."""
        given = self.texts("tgt", "tgt_type")
        if given and not given.get("tgt"):
            raise UsageError("tgt, the target that tgt_type is for, is missing or empty")
        return {"tgt_type": "glob", **given} if given else {}

    def whole(self, name: str, default: int, least: int = 0, most: int = 10**10) -> int:
        """A query parameter that is a whole number from `least` to `most`. Raises UsageError."""
        text = self.get_query_argument(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) < 16 and least <= int(text) <= most):
            raise UsageError(f"{name} is a whole number from {least} to {most}")
        return int(text)

    def page(self) -> int:
        """The size of the page that was asked for."""
        return self.whole("limit", PAGE, 1, PAGE_MAX)

    def given(self, **kinds: type) -> dict[str, Any]:
        """The fields of the JSON body, of which there may be these with these types. Raises UsageError."""
        body = self.body()
        if not isinstance(body, dict):
            raise UsageError("the body is a map")
        unknown = sorted(set(map(str, body)) - set(kinds))
        if unknown:
            raise UsageError(f"the body does not take {unknown[0][:80]!r}; it takes {', '.join(kinds)}")
        for name, value in body.items():
            if not isinstance(value, kinds[name]):
                raise UsageError(f"the field {name} is not of the type {kinds[name].__name__}")
        return body


class Overview(FleetEndpoint):
    """/fleet: the state of the master and of the fleet, and the jobs of the last day by hour."""

    async def get(self) -> None:
        """The answer has no list of minions; `versions` counts the minions of each version."""
        status = await self.ask("status", brief=True)
        versions = Counter(status["versions"])
        # After the status, which the master refuses to a login that has ended.
        hours = await self.context.shared.get(self.context.feeds.view(self.token()), self._hours)
        self.answer(
            {
                **{name: value for name, value in status.items() if name != "ok"},
                "versions": dict(versions.most_common(PAGE)),
                **hours,
            }
        )

    async def _hours(self) -> dict[str, Any]:
        now = self.context.link.clock()
        jobs = await self.ask("job_list", since=now - HOURS * HOUR_S, limit=JOBS_COUNTED)
        return {"hours": jobs_by_hour(jobs["jobs"], now), "jobs_cut": jobs["more"]}


def jobs_by_hour(jobs: list[dict[str, Any]], now: float) -> list[dict[str, Any]]:
    """A row for each of the last HOURS hours, the oldest first: `at`, and how many jobs are `ok`, `bad` and `open`."""
    first = (int(now) // HOUR_S - HOURS + 1) * HOUR_S
    rows = [{"at": first + hour * HOUR_S, "ok": 0, "bad": 0, "open": 0} for hour in range(HOURS)]
    for job in jobs:
        hour = (int(job["created_at"]) - first) // HOUR_S
        if 0 <= hour < HOURS:
            rows[hour][_result(job["outcomes"])] += 1
    return rows


def _result(outcomes: Mapping[str, int]) -> str:
    if outcomes.get("failed") or outcomes.get("missing"):
        return "bad"
    return "open" if outcomes.get("open") else "ok"


class Machines(FleetEndpoint):
    """/fleet/minions: a page of the accepted minions."""

    QUERY = frozenset({"tgt", "tgt_type", "state", "sort", "offset", "limit"})

    async def get(self) -> None:
        """`minions` and `total`; see `saltlite.master.handlers.minions.handle_minions`."""
        answer = await self.ask(
            "minions",
            **self.target(),
            **self.texts("state", "sort"),
            offset=self.whole("offset", 0),
            limit=self.page(),
        )
        self.answer({"minions": answer["minions"], "total": answer["total"]})


class Machine(FleetEndpoint):
    """/fleet/minions/<id>: one minion with its key and its cached grains."""

    async def get(self, name: str) -> None:
        minion = parse_minion_id(name)
        one = {"tgt": minion, "tgt_type": "list"}
        answer = await self.ask("minions", **one)
        keys = await self.ask_if_allowed("key_list", id=minion)
        grains = await self.ask_if_allowed("cached", bank="grains", **one)
        if not answer["minions"] and not any(key["id"] == minion for key in (keys or {}).get("keys", ())):
            raise UsageError(f"there is no minion {minion}")
        self.answer(
            {
                "minion": answer["minions"][0] if answer["minions"] else None,
                "keys": None if keys is None else [key for key in keys["keys"] if key["id"] == minion],
                "grains": None if grains is None else grains["values"].get(minion, {}),
            }
        )


class History(FleetEndpoint):
    """/fleet/jobs: a page of the jobs, the newest first, and new jobs."""

    QUERY = frozenset({"minion", "fun", "user", "state", "since", "until", "before", "limit"})

    async def get(self) -> None:
        """`jobs`, and `more`: whether there are older ones, which `before` asks for with the last jid."""
        times = {name: float(self.whole(name, 0)) for name in self.texts("since", "until")}
        answer = await self.ask(
            "job_list",
            **self.texts("minion", "fun", "user", "state", "before"),
            **times,
            limit=self.page(),
        )
        self.answer({"jobs": answer["jobs"], "more": answer["more"]})

    async def post(self) -> None:
        """Publish a job without waiting for it: 202 with `jid` and `count`, the number of its targets.

        With `dry` minions report what they would call, and call nothing.
        409 with `question` if nothing was published because a function has a risk that `consent` does not name.
        """
        given = self.given(tgt=str, tgt_type=str, fun=str, arg=list, kwarg=dict, consent=list, batch=str, dry=bool)
        for name in ("tgt", "fun"):
            if not given.get(name):
                raise UsageError(f"a job needs {name}")
        call = JobCall(
            given["tgt"],
            given["fun"],
            arg=given.get("arg", ()),
            kwarg=given.get("kwarg", {}),
            tgt_type=given.get("tgt_type", "glob"),
            origin=f"API from {self.address}",
            batch=read_batch(given) if "batch" in given else None,
            module_executors=["dry"] if given.get("dry") else None,
        )
        await self.publish(call, given.get("consent", []))


class JobDetails(FleetEndpoint):
    """/fleet/jobs/<jid>: one job, its targets without a return, and its outputs, those that are equal together.

    It is as small for ten thousand targets as for ten: /jobs/<jid> has all of them.
    """

    async def get(self, jid: str) -> None:
        """`job`, `without`: the first targets without a return; `without_count`, and as of `grouped`."""
        answer = await self.ask("job_show", jid=parse_jid(jid), grouped=True)
        if "returns" in answer:
            rows = [(row["names"], link.value_row(row)) for row in answer["returns"] if row["body"]]
        else:
            returned = await link.returned(self.context.link, self.token(), jid)
            rows = [([name], row) for name, row in returned.items()]
        self.answer({**{name: answer[name] for name in ("job", "without", "without_count")}, **grouped(rows)})


class JobAgain(FleetEndpoint):
    """/fleet/jobs/<jid>/rerun: publish the calls of a job again."""

    async def post(self, jid: str) -> None:
        """On its targets that have ended, or with `failed` on those that failed or are missing. Answers as POST to
        /fleet/jobs."""
        given = self.given(failed=bool, consent=list)
        job = (await self.ask("job_show", jid=parse_jid(jid)))["job"]
        wanted = ("failed", "missing") if given.get("failed") else ("failed", "missing", "ok")
        ids = [row["id"] for row in job["targets"] if row["outcome"] in wanted]
        if not ids:
            raise UsageError(f"no target of job {jid} {'failed' if given.get('failed') else 'has ended'}")
        call = same_calls(job, ids, f"API from {self.address}")
        await self.publish(call, given.get("consent", []))


class JobEnd(FleetEndpoint):
    """/fleet/jobs/<jid>/kill: end a job."""

    async def post(self, jid: str) -> None:
        """`ids` end it now, `away` when they come back, and `cancelled` never get it."""
        answer = await self.ask("job_kill", jid=parse_jid(jid))
        self.answer({name: answer[name] for name in ("ids", "away", "cancelled")})


def grouped(returned: Iterable[tuple[Sequence[str], Mapping[str, Any]]]) -> dict[str, Any]:
    """`groups` of equal return values and return codes, the largest first, and `more`: how many groups are omitted.

    `returned` are names of targets with a row that they have in common: `ret`, `retcode` and `success`. A group has
    `count`, `ids` (IDS_MAX of them at most), `retcode`, `success`, `value`, and `cut`: whether `value` is only the
    beginning of its text.
    """
    groups: dict[tuple[str, int, bool], list[str]] = {}
    values: dict[str, Any] = {}
    for names, row in returned:
        # A map may have texts and numbers as keys, which cannot be sorted.
        text = json.dumps(as_json(row["ret"]), sort_keys=True)
        values[text] = row["ret"]
        groups.setdefault((text, row["retcode"], row["success"]), []).extend(names)
    for named in groups.values():
        named.sort()
    largest = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1]))
    rows = []
    letters, ids = VALUES_OF_ALL, IDS_OF_ALL
    for (text, retcode, success), names in largest[:GROUPS_MAX]:
        room = max(VALUE_LEAST, min(VALUE_MAX, letters))
        cut = len(text) > room
        value = text[:room] if cut else values[text]
        named = names[: max(IDS_LEAST, min(IDS_MAX, ids))]
        letters -= min(len(text), room)
        ids -= len(named)
        rows.append(
            {
                "count": len(names),
                "ids": named,
                "retcode": retcode,
                "success": success,
                "value": value,
                "cut": cut,
            }
        )
    return {"groups": rows, "more": max(0, len(largest) - GROUPS_MAX)}


class JobReturn(FleetEndpoint):
    """/fleet/jobs/<jid>/returns/<id>: the whole return of one target."""

    async def get(self, jid: str, name: str) -> None:
        """`ret`, `retcode` and `success`."""
        found = (await self.ask("job_return", jid=parse_jid(jid), target=name))["return"]
        if found is None or not found["body"]:
            raise UsageError(f"job {jid} has no return of {name[:200]}")
        row = link.value_row(found)
        # A browser that follows a link to it saves it.
        self.kind = JSON if self.kind == HTML else self.kind
        self.answer({field: row[field] for field in ("ret", "retcode", "success")})


# -- what a job would do


class TargetPreview(FleetEndpoint):
    """/fleet/target: what a target selects, and what a function is there; nothing is published."""

    QUERY = frozenset({"tgt", "tgt_type", "fun", "explain"})

    async def get(self) -> None:
        """`count`, `resources`, `away`, and `functions`: name -> signatures, risks, and who lacks it.

        `ids` are the first minions, if the caller may resolve targets. With `explain`, the id of a minion or the SRN of
        a resource, `explanation` says why the target selects it or not, term by term.
        """
        target = self.target()
        if not target:
            raise UsageError("the parameter tgt, a target, is missing")
        described = await self.ask("describe", **target, funs=[self.get_query_argument("fun", "") or "test.ping"])
        matched = await self.ask_if_allowed("match", **target, **self.texts("explain"))
        ids = None if matched is None else [*matched["minions"], *chain(*matched["resources"].values())]
        self.answer(
            {
                **_shown(described),
                "ids": None if ids is None else ids[:PREVIEW_MAX],
                "unknown": [] if matched is None else matched["unknown"],
                "explanation": None if matched is None else matched.get("explanation"),
            }
        )


class FunctionCatalogue(FleetEndpoint):
    """/fleet/functions: the functions that the caller may run on a target, by the beginning of their names."""

    QUERY = frozenset({"prefix", "tgt", "tgt_type", "limit"})

    async def get(self) -> None:
        """`functions`: name -> signatures, risks, who lacks it, and `doc`, "" for a module that does not ship.

        There are none if the `prefix` is that of several modules: `modules` has their names. `more`: whether there are
        functions behind the last one.
        """
        target = self.target() or {"tgt": "*", "tgt_type": "glob"}
        prefix, most = self.get_query_argument("prefix", ""), self.page()
        words = (await self.ask("complete", kind="function", prefix=prefix))["words"]
        names = [word for word in words if not word.endswith(".")]
        found: dict[str, Any] = {}
        # Without any function the master says whether there can be such a target.
        for start in range(0, min(len(names), most) or 1, CALLS_MAX):
            funs = names[start : min(start + CALLS_MAX, most)]
            described = await self.ask_if_allowed("describe", **target, funs=funs or ["test.ping"], permitted=True)
            found |= _shown(described)["functions"] if described is not None and funs else {}
        docs = await self.context.documentation.functions() if found else {}
        self.answer(
            {
                "functions": {name: {**known, "doc": docs.get(name, "")} for name, known in found.items()},
                "modules": [word.removesuffix(".") for word in words if word.endswith(".")],
                "more": len(names) > most,
            }
        )


def _shown(described: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the verb `describe`, with the parameters of each signature."""
    functions = {
        fun: {**known, "signatures": [_parameters(text) for text in known["signatures"]]}
        for fun, known in described["functions"].items()
    }
    return {**{name: described[name] for name in ("count", "resources", "away")}, "functions": functions}


def _parameters(text: str) -> list[dict[str, Any]] | None:
    """The parameters of a signature; None if it is not known."""
    signature = parse_signature(text)[1]
    if signature is None:
        return None
    return [
        {"name": one.name, "kind": str(one.kind), "types": list(one.types), "default": one.default}
        for one in signature.parameters
    ]


class Words(FleetEndpoint):
    """/fleet/words: completions of a `prefix`, for the caller: of a `kind` such as target or function."""

    QUERY = frozenset({"kind", "prefix"})

    async def get(self) -> None:
        answer = await self.ask(
            "complete",
            kind=self.get_query_argument("kind", "function"),
            prefix=self.get_query_argument("prefix", ""),
        )
        self.answer({"words": answer["words"]})


# -- keys, resources, access


class FleetKeys(FleetEndpoint):
    """/fleet/keys: a page of the keys of minions."""

    QUERY = frozenset({"state", "search", "sort", "offset", "limit"})

    async def get(self) -> None:
        """`keys`, those that wait for a decision first; `total`, `counts` by state; `fleet`, which minions pin.

        `search` is a part of an id or the beginning of a fingerprint.
        """
        answer = await self.ask(
            "key_list",
            **self.texts("state", "search", "sort"),
            offset=self.whole("offset", 0),
            limit=self.page(),
        )
        finger = await self.ask_if_allowed("key_finger")
        self.answer(
            {
                **{name: answer[name] for name in ("keys", "total", "counts")},
                "fleet": None if finger is None else finger["fleet"],
            }
        )

    async def post(self) -> None:
        """Accept, reject, revoke or delete the keys with exactly these fingerprints."""
        given = self.given(action=str, fingerprints=list)
        answer = await self.ask(
            "key_change", action=given.get("action", ""), fingerprints=given.get("fingerprints", [])
        )
        self.answer({"changed": answer["changed"], "refused": answer["refused"]})


class JoinTokens(FleetEndpoint):
    """/fleet/tokens: join tokens."""

    async def get(self) -> None:
        """`tokens`: those that are still valid, without their texts."""
        self.answer({"tokens": (await self.ask("token_list"))["tokens"]})

    async def post(self) -> None:
        """Make one: `token` is its text, which is shown only here."""
        given = self.given(id_glob=str, uses=int, expires_s=int)
        answer = await self.ask(
            "token_create",
            id_glob=given.get("id_glob", ""),
            uses=given.get("uses", 1),
            expires_s=float(given.get("expires_s", TOKEN_LASTS_S)),
        )
        self.answer({"token": answer["token"]})


class JoinTokenEnd(FleetEndpoint):
    """/fleet/tokens/<id>/revoke: end a join token."""

    async def post(self, name: str) -> None:
        """`revoked`: false if there was none."""
        self.answer({"revoked": (await self.ask("token_revoke", token_id=name))["revoked"]})


class EarlierEvents(FleetEndpoint):
    """/fleet/events: events that were, which the stream /events goes on from."""

    QUERY = frozenset({"before", "limit", "tag"})

    async def get(self) -> None:
        """`events`, the newest first, older than the event `before`; `before` of the page behind it, or null.

        With `tag`, only those with this part in their tag, among EVENTS_READ at most: a page may have fewer than
        `limit` and yet not be the last one.
        """
        before = self.whole("before", 0, 1) if self.texts("before") else None
        tag, most = self.get_query_argument("tag", ""), self.page()
        rows: list[dict[str, Any]] = []
        for _ in range(EVENTS_READ // EVENTS_STEP if tag else 1):
            count = EVENTS_STEP if tag else most
            found, start = await earlier_events(self.context.link, self.token(), before, count)
            read = ({"id": event.seq, **json.loads(event.data)} for event in reversed(found))
            rows += [row for row in read if tag in row["tag"]]
            before = start + 1 if start else None
            if before is None or len(rows) >= most:
                break
        if len(rows) > most:
            rows = rows[:most]
            before = rows[-1]["id"]
        self.answer({"events": rows, "before": before})


class Resources(FleetEndpoint):
    """/fleet/resources: a page of the resources, sorted by SRN; `after` is the last one of the page before."""

    QUERY = frozenset({"type", "minion", "after", "limit"})

    async def get(self) -> None:
        answer = await self.ask("resource_list", **self.texts("type", "minion", "after"))
        limit = self.page()
        rows = answer["resources"]
        self.answer({"resources": rows[:limit], "more": answer["more"] or len(rows) > limit})


class Access(FleetEndpoint):
    """/fleet/access: who the caller is, and the logins that the caller may manage."""

    async def get(self) -> None:
        """Also `now`, by the clock of the fleet: what the times in all answers are to be compared with."""
        who = await self.ask("whoami")
        tokens = await self.ask_if_allowed("auth_token_list")
        who.pop("ok", None)
        logins = None if tokens is None else tokens["tokens"]
        self.answer({**who, "logins": logins, "now": self.context.link.clock()})

    async def post(self) -> None:
        """Revoke logins by their ids."""
        given = self.given(revoke=list)
        self.answer({"revoked": (await self.ask("auth_token_revoke", ids=given.get("revoke", [])))["revoked"]})


class AccessQuestion(FleetEndpoint):
    """/fleet/access/explain: whether a user may run a function on a target, and by which rule. Nothing is run."""

    async def post(self) -> None:
        """`allowed`, `reason`, `rules`, `operator`, `targets`, `refused`; see
        `saltlite.master.handlers.auth.handle_acl_explain`."""
        given = self.given(user=str, groups=list, tgt=str, tgt_type=str, fun=str, arg=list, kwarg=dict)
        for name in ("user", "tgt", "fun"):
            if not given.get(name):
                raise UsageError(f"the question needs {name}")
        answer = await self.ask(
            "acl_explain",
            user=given["user"],
            tgt=given["tgt"],
            tgt_type=given.get("tgt_type", "glob"),
            fun=given["fun"],
            args=given.get("arg", []),
            kwargs=given.get("kwarg", {}),
            groups=given.get("groups", []),
        )
        answer.pop("ok", None)
        self.answer(answer)


# -- runners


class RunnerEndpoint(FleetEndpoint):
    """The base of these endpoints."""

    async def user(self) -> str:
        """Who the caller is."""
        who = await self.ask("whoami")
        return f"{who['eauth']}:{who['user']}"


class RunnerCalls(RunnerEndpoint):
    """/fleet/runners: calls of runners."""

    async def get(self) -> None:
        """`calls`: those of the caller that are kept, the newest first, without their returns."""
        calls = self.context.runner_calls.of(await self.user())
        self.answer({"calls": [one.shown() for one in calls]})

    async def post(self) -> None:
        """Run one and wait for it: `jid`, `value`, and `retcode`; the value of one that failed is its message.

        With `wait` false, 202 and its `jid` at once.
        """
        given = self.given(fun=str, arg=list, kwarg=dict, wait=bool)
        if not given.get("fun"):
            raise UsageError("a runner has a function, such as manage.up")
        if "runner" not in self.context.config.netapi_enable_clients:
            raise UsageError(
                "the client runner is disabled: add it to netapi_enable_clients in the API's configuration"
            )
        call = RunnerCall(given["fun"], given.get("arg", []), given.get("kwarg", {}), self.token())
        if given.get("wait", True):
            jid, found = await self.context.runners.run(call)
            self.answer({"jid": jid, **found})
            return
        user = await self.user()
        jid, work = await self.context.runners.begin(call)
        self.context.runner_calls.follow(FollowedCall(jid, call.fun, user, time.time()), work)
        self.answer({"jid": jid}, 202)


class RunnerFunctions(RunnerEndpoint):
    """/fleet/runners/functions: the runners that the caller may run."""

    async def get(self) -> None:
        """`functions`: name -> `signatures`, their parameters; `risk` or ""; and `doc`."""
        await self.user()  # a process is started only for those who are logged in
        known = await self.context.documentation.runners(self.context.runners.config_dir)
        allowed = (await self.ask("whoami", runners=sorted(known)))["runners"]
        shown = {
            name: {**known[name], "signatures": [_parameters(text) for text in known[name]["signatures"]]}
            for name in allowed
        }
        self.answer({"functions": shown})


class RunnerDetails(RunnerEndpoint):
    """/fleet/runners/<jid>: a call that was not waited for."""

    async def get(self, jid: str) -> None:
        """`jid`, `fun`, `began`, `ended` and `retcode`, null while it runs; `value`, and `cut`: whether `value` is only
        the beginning of its text."""
        call = self.context.runner_calls.one(parse_jid(jid), await self.user())
        cut = len(call.text) > VALUE_MAX
        self.answer({**call.shown(), "value": call.text[:VALUE_MAX] if cut else json.loads(call.text), "cut": cut})


class RunnerReturn(RunnerEndpoint):
    """/fleet/runners/<jid>/return: the whole return of such a call."""

    async def get(self, jid: str) -> None:
        """`value` and `retcode`. Raises UsageError while it runs."""
        call = self.context.runner_calls.one(parse_jid(jid), await self.user())
        if call.ended is None:
            raise UsageError(f"the runner {jid} has not ended yet")
        # A browser that follows a link to it saves it.
        self.kind = JSON if self.kind == HTML else self.kind
        self.answer({"value": json.loads(call.text), "retcode": call.retcode})


FLEET_PATHS: dict[str, type[Endpoint]] = {
    r"/fleet": Overview,
    r"/fleet/minions": Machines,
    r"/fleet/minions/([^/]+)": Machine,
    r"/fleet/jobs": History,
    r"/fleet/jobs/([^/]+)": JobDetails,
    r"/fleet/jobs/([^/]+)/returns/([^/]+)": JobReturn,
    r"/fleet/jobs/([^/]+)/kill": JobEnd,
    r"/fleet/jobs/([^/]+)/rerun": JobAgain,
    r"/fleet/target": TargetPreview,
    r"/fleet/functions": FunctionCatalogue,
    r"/fleet/words": Words,
    r"/fleet/keys": FleetKeys,
    r"/fleet/events": EarlierEvents,
    r"/fleet/resources": Resources,
    r"/fleet/access": Access,
    r"/fleet/access/explain": AccessQuestion,
    r"/fleet/tokens": JoinTokens,
    r"/fleet/tokens/([^/]+)/revoke": JoinTokenEnd,
    r"/fleet/runners": RunnerCalls,
    r"/fleet/runners/functions": RunnerFunctions,
    r"/fleet/runners/([^/]+)": RunnerDetails,
    r"/fleet/runners/([^/]+)/return": RunnerReturn,
}
"""Path -> endpoint."""
