"""What every store promises about tokens of logins: SQLite and its in-memory twin."""

from __future__ import annotations

from collections.abc import Callable

from saltlite.master.store.ports import Store
from saltlite.model.keys import AuthToken

NOW = 1_800_000_000.0


def token(number: int, user: str = "fred", *, lasts_s: float = 60.0) -> AuthToken:
    """One that was made `number` seconds after NOW."""
    made = NOW + number
    return AuthToken(f"{number:032x}", "file", user, ("dev", "ops"), made, made + lasts_s, "seal")


def put(store: Store, *tokens: AuthToken, most: int = 10) -> None:
    with store.write() as tx:
        for one in tokens:
            tx.put_auth_token(one, most)


def test_a_token_is_there_as_it_was_put_also_when_the_store_is_opened_again(open_store: Callable[[], Store]) -> None:
    first = open_store()
    put(first, token(2), token(1, "gina"))
    first.close()
    second = open_store()
    assert second.auth_token(token(2).token_id) == token(2)
    assert second.auth_tokens() == [token(1, "gina"), token(2)]
    assert second.auth_token("0") is None


def test_a_deleted_token_is_gone_and_is_deleted_once(store: Store) -> None:
    put(store, token(1), token(2))
    with store.write() as tx:
        assert tx.delete_auth_token(token(1).token_id)
        assert not tx.delete_auth_token(token(1).token_id)
    assert store.auth_tokens() == [token(2)]


def test_the_oldest_of_one_user_make_room_and_those_of_others_stay(store: Store) -> None:
    put(store, token(1, "gina"), *(token(number) for number in range(2, 6)), most=3)
    assert store.auth_tokens() == [token(1, "gina"), token(3), token(4), token(5)]


def test_what_has_expired_is_forgotten(store: Store) -> None:
    put(store, token(1, lasts_s=5), token(2, lasts_s=60))
    with store.write() as tx:
        tx.expire_auth_tokens(NOW + 6)
    assert store.auth_tokens() == [token(2, lasts_s=60)]
