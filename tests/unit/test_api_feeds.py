"""Streams of events of the API: watchers share them, and each token gets what the master lets it see, exactly once."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from saltlite.api import feeds
from saltlite.api.feeds import GZIP_HEAD, PACKED_ABOVE, BehindError, EventBatch, FeedEvent, Feeds, Watcher, packed
from saltlite.client.connection import ConnectionLostError
from saltlite.errors import LoginError, UnreachableError

WAIT_S = 60.0


def rows(*seqs: int, size: int = 1) -> dict[str, Any]:
    """A message of the master with these events."""
    found = [{"seq": seq, "tag": f"salt/t/{seq}", "data": {"x": "y" * size}, "at": 1.0} for seq in seqs]
    return {"seq": seqs[-1], "events": found}


class Line:
    """A connection to the master."""

    def __init__(self, master: PlayedMaster) -> None:
        self._master = master
        self.token = ""
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.closed = False

    async def ask(self, token: str, verb: str, fields: dict[str, Any]) -> dict[str, Any]:
        assert verb == "events"
        self.token = token
        view = self._master.views[token]
        if not view:
            raise LoginError("the token is not valid")
        self._master.opened.append((token, fields.get("after")))
        self._master.returns.append(fields.get("returns", False))
        self._master.lines.append(self)
        return {"ok": True, "seq": fields.get("after", self._master.seq), "view": view}

    async def receive(self, timeout_s: float | None) -> Any:
        assert timeout_s is None
        message = await self.messages.get()
        if isinstance(message, Exception):
            raise message
        return message

    def close(self) -> None:
        self.closed = True


class PlayedMaster:
    """A master with one event log; `views` says what each token may see."""

    def __init__(self, **views: str) -> None:
        self.views = views
        self.seq = 10
        self.opened: list[tuple[str, int | None]] = []
        self.returns: list[bool] = []
        self.lines: list[Line] = []
        self.asked: list[list[str]] = []
        self.feeds = Feeds(self)  # type: ignore[arg-type]  # as much of a MasterLink as feeds use

    async def connect(self) -> Line:
        return Line(self)

    async def call(self, token: str, verb: str, *, tokens: list[str]) -> dict[str, Any]:
        assert (token, verb) == ("", "event_views")
        self.asked.append(tokens)
        return {"views": [self.views[one] for one in tokens]}

    def say(self, message: Any, line: int = -1) -> None:
        self.lines[line].messages.put_nowait(message)


def story(play: Callable[[PlayedMaster], Awaitable[None]], **views: str) -> PlayedMaster:
    """Play it within WAIT_S."""
    made: list[PlayedMaster] = []

    async def whole() -> None:
        made.append(PlayedMaster(**views))
        async with asyncio.timeout(WAIT_S):
            await play(made[0])

    asyncio.run(whole())
    return made[0]


async def taken(watcher: Watcher, count: int) -> list[int]:
    """The cursors of the next events."""
    found: list[int] = []
    while len(found) < count:
        batch = await watcher.next()
        assert batch is not None
        found += [one.seq for one in batch.events]
    return found


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def until(look: Callable[[], bool]) -> None:
    while not look():  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(0.01)


def test_watchers_with_one_view_share_a_stream_and_the_bytes_of_each_event() -> None:
    async def play(master: PlayedMaster) -> None:
        watch = master.feeds.watch
        async with watch("a", None) as one, watch("b", None) as two, watch("a", None) as three:
            master.say(rows(11, 12))
            first, second, third = [await watcher.next() for watcher in (one, two, three)]
            assert first is not None
            assert first is second is third
            assert [event.seq for event in first.events] == [11, 12]
            assert master.feeds.watchers == 3
        assert master.feeds.watchers == 0

    master = story(play, a="all", b="all")
    assert master.opened == [("a", None)]
    assert master.lines[0].closed


def test_another_view_has_a_stream_of_its_own() -> None:
    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None) as one, master.feeds.watch("f", None) as two:
            master.say(rows(11), line=0)
            master.say(rows(12), line=1)
            assert (await taken(one, 1), await taken(two, 1)) == ([11], [12])

    assert story(play, a="all", f="fred").opened == [("a", None), ("f", None)]


def test_streams_with_returns_and_without_are_two() -> None:
    async def play(master: PlayedMaster) -> None:
        watch = master.feeds.watch
        async with watch("a", None) as one, watch("a", None, returns=False) as two, watch("b", None) as three:
            master.say(rows(11), line=0)
            master.say(rows(12), line=1)
            assert [await taken(watcher, 1) for watcher in (one, two, three)] == [[11], [12], [11]]
            master.views["a"] = ""
            await master.feeds._check(["a"])
            for watcher in (one, two):
                with pytest.raises(LoginError):
                    await watcher.next()

    assert story(play, a="all", b="all").returns == [True, False]


def test_a_token_that_ends_takes_its_watchers_along_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "CHECK_S", 0.01)

    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None) as one, master.feeds.watch("b", None) as two:
            master.views["b"] = ""
            with pytest.raises(LoginError):
                await two.next()
            with pytest.raises(LoginError):
                async with master.feeds.watch("b", None):
                    pass
            master.say(rows(11))
            assert await taken(one, 1) == [11]

    story(play, a="all", b="all")


def test_a_token_with_new_rights_gets_nothing_of_the_old_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "CHECK_S", 0.01)

    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None) as one, master.feeds.watch("b", None) as two:
            master.views["b"] = "fred"
            with pytest.raises(LoginError, match="rights have changed"):
                await two.next()
            async with master.feeds.watch("b", None) as again:
                master.say(rows(11), line=0)
                master.say(rows(12), line=1)
                assert (await taken(one, 1), await taken(again, 1)) == ([11], [12])

    story(play, a="all", b="all")


def test_the_stream_goes_on_by_another_token_when_the_one_that_opened_it_ends() -> None:
    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None) as one, master.feeds.watch("b", None) as two:
            master.say(rows(11))
            assert await taken(two, 1) == [11]
            master.views["a"] = ""
            master.say({"ok": False, "exit": 3, "error": "the token is not valid", "login": True})
            with pytest.raises(LoginError):
                await taken(one, 2)
            master.say(rows(12))
            assert await taken(two, 1) == [12]

    assert story(play, a="all", b="all").opened == [("a", None), ("b", 11)]


def test_after_a_reconnect_views_are_asked_before_the_next_event() -> None:
    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None) as one, master.feeds.watch("b", None) as two:
            master.say(rows(11))
            assert (await taken(one, 1), await taken(two, 1)) == ([11], [11])
            master.views["b"] = "fred"
            master.say(ConnectionLostError("the master has ended"))
            await until(lambda: len(master.lines) == 2)
            master.say(rows(12))
            with pytest.raises(LoginError):
                await two.next()
            assert await taken(one, 1) == [12]

    assert story(play, a="all", b="all").opened == [("a", None), ("a", 11)]


def test_without_any_token_left_the_stream_ends() -> None:
    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None) as one:
            master.views["a"] = ""
            master.say({"ok": False, "exit": 3, "error": "the token is not valid", "login": True})
            with pytest.raises(LoginError):
                await one.next()

    story(play, a="all")


def test_the_first_event_is_sent_at_once_and_those_of_the_pause_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "PAUSE_A_WATCHER_S", 0.2)

    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None) as one:
            master.say(rows(11))
            assert [event.seq for event in (await one.next() or EventBatch(0, 0, [])).events] == [11]
            for seq in (12, 13, 14):
                master.say(rows(seq))
                await settled()
            assert [event.seq for event in (await one.next() or EventBatch(0, 0, [])).events] == [12, 13, 14]

    story(play, a="all")


def test_a_watcher_that_comes_during_the_pause_gets_later_events_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "PAUSE_A_WATCHER_S", 0.1)

    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None) as one:
            master.say(rows(11))
            await taken(one, 1)
            master.say(rows(12))
            await settled()
            async with master.feeds.watch("a", None) as two, master.feeds.watch("a", 11) as three:
                master.say(rows(13))
                await settled()
                assert await taken(one, 2) == [12, 13]
                assert await taken(two, 1) == [13]
                assert await taken(three, 2) == [12, 13]

    assert story(play, a="all").opened == [("a", None)]


def test_a_full_batch_does_not_wait_for_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "PAUSE_A_WATCHER_S", 60.0)
    monkeypatch.setattr(feeds, "PAUSE_MAX_S", 60.0)
    monkeypatch.setattr(feeds, "BATCH_BYTES", 1000)

    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None) as one:
            master.say(rows(11))
            await taken(one, 1)
            master.say(rows(12, 13, size=600))
            assert await taken(one, 2) == [12, 13]

    story(play, a="all")


def test_a_slow_watcher_is_ended_when_the_memory_does_not_reach_back_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "KEPT_BYTES", 4000)

    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None) as slow, master.feeds.watch("a", None) as quick:
            for seq in range(11, 15):
                master.say(rows(seq, size=900))
                assert await taken(quick, 1) == [seq]
            with pytest.raises(BehindError):
                await slow.next()

    story(play, a="all")


def test_many_views_share_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "KEPT_OF_ALL", feeds.KEPT_BYTES)

    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None), master.feeds.watch("b", None):
            assert {feed.kept_bytes for feed in master.feeds._feeds.values()} == {feeds.KEPT_BYTES // 2}

    story(play, a="one", b="two")


def test_the_number_of_views_is_limited_and_that_of_tokens_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "FEEDS_MAX", 1)

    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None), master.feeds.watch("b", None):
            with pytest.raises(UnreachableError, match="events of 1 users"):
                async with master.feeds.watch("c", None):
                    pass

    story(play, a="all", b="all", c="fred")


def test_tokens_are_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "CHECK_S", 0.01)
    monkeypatch.setattr(feeds, "TOKENS_ASKED", 2)

    async def play(master: PlayedMaster) -> None:
        watch = master.feeds.watch
        async with watch("a", None), watch("b", None), watch("c", None):
            master.asked.clear()
            await until(lambda: len(master.asked) >= 2)
            assert master.asked[:2] == [["a", "b"], ["c"]]

    story(play, a="all", b="all", c="all")


def test_an_older_cursor_is_served_by_the_master_until_the_feed_can_go_on() -> None:
    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None) as live, master.feeds.watch("a", 5) as late:
            master.say(rows(6, 8), line=1)
            assert await taken(late, 2) == [6, 8]
            master.say(rows(11), line=0)
            assert await taken(live, 1) == [11]
            master.say(rows(10, 11), line=1)
            assert await taken(late, 2) == [10, 11]
            master.say(rows(12), line=0)
            assert (await taken(live, 1), await taken(late, 1)) == ([12], [12])
            assert master.lines[1].closed

    assert story(play, a="all").opened == [("a", None), ("a", 5)]


def test_a_quiet_watcher_is_woken_and_a_closed_one_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "QUIET_S", 0.05)

    async def play(master: PlayedMaster) -> None:
        async with master.feeds.watch("a", None) as one, master.feeds.watch("a", None) as two:
            assert await one.next() is None
            assert await one.next() is None
            waiting = asyncio.ensure_future(two.next())
            await settled()
            two.close()
            assert await waiting is None
            assert two.closed

    story(play, a="all")


def test_a_batch_without_a_wanted_event_still_moves_the_cursor() -> None:
    batch = EventBatch(9, 12, [FeedEvent(10, "salt/job/1/new", b"{}"), FeedEvent(12, "salt/auth", b"{}")])
    assert batch.tagged("") is batch
    assert batch.tagged("job").text == b"id: 10\ntag: salt/job/1/new\ndata: {}\n\n"
    assert batch.tagged("nothing").text == b"id: 12\n\n"


def test_batches_in_gzip_refer_to_no_others() -> None:
    large = EventBatch(0, 9, [FeedEvent(seq, "salt/job/1/ret/web1", b'{"x": %d}' % seq) for seq in range(500)])
    small = EventBatch(9, 10, [FeedEvent(10, "a\nb", b"{}")])
    assert len(large.text) > PACKED_ABOVE > len(small.text)
    assert small.text == b"id: 10\ntag: a?b\ndata: {}\n\n"
    assert len(large.packed) < len(large.text) / 8
    for several in ([large], [small, large], [large, small, large]):
        unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
        stream = GZIP_HEAD + b"".join(one.packed for one in several)
        assert unpack.decompress(stream) == b"".join(one.text for one in several)
    assert packed(b"x" * PACKED_ABOVE).endswith(b"x" * PACKED_ABOVE)
