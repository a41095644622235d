"""What a minion's journal forgets, and up to where unknown jobs are refused from then on."""

from __future__ import annotations

from saltlite.minion.protocol.effects import JOURNAL_KEEP_ENTRIES, JOURNAL_MOST_ENTRIES, JournalEntry, JournalStep
from saltlite.minion.protocol.journal_format import CLOCK_SLACK_S, kept
from saltlite.model.ids import jid_at
from tests.support.keys import NOW

NOW_MS = int(NOW * 1000)


def refused(off_s: float, count: int) -> list[JournalEntry]:
    """So many refused jobs whose jids begin that many seconds from now."""
    first = int((NOW + off_s) * 1_000_000)
    return [JournalEntry(jid_at(first + number), JournalStep.REFUSED, reason="cancelled:x") for number in range(count)]


def test_jids_of_the_future_do_not_raise_the_floor() -> None:
    """Real jobs would count as forgotten until that time comes."""
    invented = refused(2 * CLOCK_SLACK_S, JOURNAL_MOST_ENTRIES + 5)
    staying, floor = kept(invented, NOW_MS, "")
    assert floor == ""
    assert staying == invented


def test_jids_within_what_clocks_may_differ_are_forgotten_as_others_are() -> None:
    entries = refused(CLOCK_SLACK_S / 2, JOURNAL_KEEP_ENTRIES + 5)
    staying, floor = kept(entries, NOW_MS, "")
    assert floor == entries[4].jid
    assert [entry.jid for entry in staying] == [entry.jid for entry in entries[5:]]
