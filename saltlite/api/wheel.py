"""The client `wheel`: work on keys, under the names and with the answers of Salt's wheel functions."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from saltlite.api.link import MasterLink
from saltlite.errors import UsageError
from saltlite.model import keylists

TOKEN_LASTS_S = 3600.0
"""How long a join token is good that says nothing else."""
GENERATING = ("key.gen", "key.gen_accept", "key.gen_keys")
"""Salt's functions that make a private key on the master: here it is made by its minion and never leaves it."""


class Wheel:
    """The wheel functions, on behalf of the holder of a token."""

    def __init__(self, link: MasterLink, token: str) -> None:
        self._link = link
        self._token = token

    async def call(self, fun: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the wheel function `fun` returns. Raises UsageError for one that there is not, or other arguments."""
        function = _FUNCTIONS.get(fun)
        if fun in GENERATING:
            raise UsageError(f"{fun}: a minion makes its own key; let it in with a join token of key.token_create")
        if function is None:
            raise UsageError(f"there is no wheel function {fun[:80]!r}: there are {', '.join(_FUNCTIONS)}")
        given = list(args)
        try:
            inspect.signature(function).bind(self, *given, **kwargs)
        except TypeError as error:
            raise UsageError(f"{fun}: {error}") from None
        return await function(self, *given, **kwargs)

    async def list_all(self) -> dict[str, list[str]]:
        """Ids by list, as Salt's `key.list_all`."""
        return keylists.all_lists(await self._rows())

    async def list_some(self, match: str) -> dict[str, list[str]]:
        """One of the lists, or the keys whose ids match a glob, as Salt's `key.list`."""
        return keylists.some_lists(await self._rows(), match)

    async def name_match(self, match: str) -> dict[str, list[str]]:
        """Ids that match a glob, by list."""
        return keylists.matching(await self.list_all(), match)

    async def finger(self, match: str, hash_type: str = "sha256") -> dict[str, dict[str, str]]:
        """Fingerprints of keys whose ids match a glob, by list. There is one `hash_type` only."""
        if hash_type != "sha256":
            raise UsageError("fingerprints are made with sha256 only")
        own = ""
        if match in ("*", keylists.LOCAL_KEY):
            own = (await self._link.call(self._token, "key_finger"))["master"]["fingerprint"]
        return keylists.fingerprints(await self._rows(), match, own)

    async def finger_of(self, minion: str) -> dict[str, dict[str, str]]:
        """Fingerprints of the keys of one id, by list."""
        found = await self.finger("*")
        rows = {name: {one: text for one, text in ids.items() if one == minion} for name, ids in found.items()}
        return {name: ids for name, ids in rows.items() if ids}

    async def accept(
        self, match: str, include_rejected: bool = False, include_denied: bool = False
    ) -> dict[str, list[str]]:
        """Accept the keys whose ids match a glob."""
        states = ["pending", *(["rejected"] if include_rejected else []), *(["conflict"] if include_denied else [])]
        return await self._change("accept", match, states, "minions")

    async def accept_dict(self, match: Mapping[str, Any]) -> dict[str, list[str]]:
        """Accept keys by list and id, as `{minions_pre: [id]}`."""
        return await self._change_named("accept", match, "minions")

    async def reject(
        self, match: str, include_accepted: bool = False, include_denied: bool = False
    ) -> dict[str, list[str]]:
        """Reject the keys whose ids match a glob."""
        states = ["pending", *(["accepted"] if include_accepted else []), *(["conflict"] if include_denied else [])]
        return await self._change("reject", match, states, "minions_rejected")

    async def reject_dict(self, match: Mapping[str, Any]) -> dict[str, list[str]]:
        """Reject keys by list and id."""
        return await self._change_named("reject", match, "minions_rejected")

    async def revoke(self, match: str) -> dict[str, list[str]]:
        """Revoke the accepted keys whose ids match a glob; Salt has no such function."""
        return await self._change("revoke", match, ["accepted"], "minions_revoked")

    async def delete(self, match: str) -> dict[str, list[str]]:
        """Delete the keys whose ids match a glob."""
        await self._change("delete", match, list(keylists.LISTS.values()), "")
        return {}

    async def delete_dict(self, match: Mapping[str, Any]) -> dict[str, list[str]]:
        """Delete keys by list and id."""
        await self._change_named("delete", match, "")
        return {}

    async def token_create(self, match: str = "*", uses: int = 1, expires_s: float = TOKEN_LASTS_S) -> dict[str, Any]:
        """A join token for minions whose ids match a glob; Salt has no such function."""
        if not (isinstance(match, str) and type(uses) is int and type(expires_s) in (int, float)):
            raise UsageError("`match` is a glob on ids, `uses` a whole number, `expires_s` a number of seconds")
        answer = await self._link.call(self._token, "token_create", id_glob=match, uses=uses, expires_s=expires_s)
        return {"join_token": answer["token"], "match": match, "uses": uses, "expires_s": expires_s}

    async def _rows(self) -> Any:
        return (await self._link.call(self._token, "key_list"))["keys"]

    async def _change(self, action: str, match: str, states: Sequence[str], told_as: str) -> dict[str, list[str]]:
        return await self._carry_out(action, keylists.chosen(await self._rows(), match, states), told_as)

    async def _change_named(self, action: str, match: Mapping[str, Any], told_as: str) -> dict[str, list[str]]:
        return await self._carry_out(action, keylists.chosen_by_name(await self._rows(), match), told_as)

    async def _carry_out(self, action: str, rows: Sequence[keylists.Row], told_as: str) -> dict[str, list[str]]:
        if not rows:
            return {}
        fingerprints = [row["fingerprint"] for row in rows]
        answer = await self._link.call(self._token, "key_change", action=action, fingerprints=fingerprints)
        return keylists.changed(answer, told_as)


_FUNCTIONS: dict[str, Callable[..., Awaitable[Any]]] = {
    "key.list_all": Wheel.list_all,
    "key.list": Wheel.list_some,
    "key.name_match": Wheel.name_match,
    "key.glob_match": Wheel.name_match,
    "key.finger": Wheel.finger,
    "key.accept": Wheel.accept,
    "key.accept_dict": Wheel.accept_dict,
    "key.reject": Wheel.reject,
    "key.reject_dict": Wheel.reject_dict,
    "key.revoke": Wheel.revoke,
    "key.delete": Wheel.delete,
    "key.delete_dict": Wheel.delete_dict,
    "key.token_create": Wheel.token_create,
}
