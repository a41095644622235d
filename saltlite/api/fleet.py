"""The endpoints that show the fleet: /minions, /jobs, /keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from saltlite.api import jobs
from saltlite.api.clients import logged_out
from saltlite.api.endpoint import Endpoint
from saltlite.api.lowstate import Lowstate, read_lowstate, read_lowstates
from saltlite.api.sessions import Caller
from saltlite.api.wheel import Wheel
from saltlite.errors import UsageError
from saltlite.model.ids import parse_jid, parse_minion_id

KEY_FIELDS = frozenset({"mid", "eauth", "username", "password", "sharedsecret"})
"""What the body of POST /keys may have."""
JOBS_SHOWN = 1000
"""Jobs of GET /jobs: the newest."""


class Minions(Caller):
    """/minions."""

    async def get(self) -> None:
        """The grains of the minions, asked of themselves."""
        low = Lowstate("local", "grains.items", tgt="*")
        self.answer({"return": await self.clients().run_each([low], self.token())})

    async def post(self) -> None:
        """Publish jobs, and wait for nothing: lowstates of the client local_async, which need not say so."""
        token = self.token()
        enabled = self.office.config.netapi_enable_clients
        rows = [
            {**row, "client": "local_async"} if isinstance(row, dict) else row for row in read_lowstates(self.body())
        ]
        lowstates = [read_lowstate(row, enabled) for row in rows]
        published = await self.clients().run_each(lowstates, token)
        links = [{"href": f"/jobs/{one['jid']}"} for one in published if one]
        self.answer({"return": published, "_links": {"jobs": links}}, 202)


class Minion(Caller):
    """/minions/<id>."""

    async def get(self, minion: str) -> None:
        """Its grains, asked of itself."""
        low = Lowstate("local", "grains.items", tgt=minion, tgt_type="list")
        self.answer({"return": await self.clients().run_each([low], self.token())})


class Jobs(Endpoint):
    """/jobs and /jobs/<jid>."""

    async def get(self, jid: str | None = None) -> None:
        """The newest jobs, or one with what it returned."""
        token = self.token()
        if jid is None:
            answer = await self.office.link.call(token, "job_list", limit=JOBS_SHOWN)
            self.answer({"return": [{row["jid"]: _listed(row) for row in answer["jobs"]}]})
            return
        job = (await self.office.link.call(token, "job_show", jid=parse_jid(jid)))["job"]
        returned = await jobs.returned(self.office.link, token, jid)
        values = {name: row["ret"] for name, row in returned.items()}
        rows = {name: {**row, "return": row["ret"]} for name, row in returned.items()}
        info = {**_listed(job), "jid": jid, "Minions": [row["id"] for row in job["targets"]], "Result": rows}
        if "metadata" in job:
            info["Metadata"] = job["metadata"]
        self.answer({"info": [info], "return": [values]})


def _listed(job: Mapping[str, Any]) -> dict[str, Any]:
    began = datetime.fromtimestamp(job["created_at"], UTC)
    return {
        "Function": job["fun"],
        "Arguments": [argument for call in job.get("calls", ()) for argument in call[1]],
        "Target": job["tgt"],
        "Target-type": job["tgt_type"],
        "User": job["user"],
        "StartTime": began.strftime("%Y, %b %d %H:%M:%S.%f"),
    }


class Keys(Caller):
    """/keys."""

    async def get(self) -> None:
        """The ids of all keys by list."""
        self.answer({"return": await Wheel(self.office.link, self.token()).list_all()})

    async def post(self) -> None:
        """Let one minion in that does not exist yet: a join token for its id, which is good once.

        In Salt this answers a pair of keys that the master has made and accepted. Here the private key never leaves
        the machine that made it, and what a new machine is given instead is the right to join under its name.
        """
        given = self.body()
        has_login = isinstance(given, dict) and ("username" in given or "eauth" in given)
        token = "" if has_login else self.token()
        if not isinstance(given, dict) or not KEY_FIELDS.issuperset(given):
            raise UsageError(
                "POST /keys takes mid, the id of a minion, and eauth, username and password without a token"
            )
        if wrong := [field for field, value in given.items() if not isinstance(value, str)]:
            raise UsageError(f"POST /keys: `{wrong[0]}` is no text")
        name = parse_minion_id(given.get("mid"))
        token = token or (await self.log_in(given))["token"]
        try:
            made = await Wheel(self.office.link, token).token_create(name)
        finally:
            if has_login:
                await logged_out(self.office.link, token)
        self.answer({"return": {"mid": name, **made}})


class Key(Endpoint):
    """/keys/<id>."""

    async def get(self, minion: str) -> None:
        """The fingerprints of the keys of one id, by list."""
        self.answer({"return": await Wheel(self.office.link, self.token()).finger_of(minion)})
