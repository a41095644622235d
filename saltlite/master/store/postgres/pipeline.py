"""Statements to PostgreSQL in its pipeline mode: many leave in one flush, each is prepared at its first use.

psycopg's own cursors would send the same, but need several times the CPU: they look at each value of an array, and at
each statement again. Values are sent in the binary format where that is shorter to make, and answers are read in it.
"""

from __future__ import annotations

import re
import select
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from saltlite.model.dataclass import dataclass

_JSON_TEXTS = "jsonb_array_elements_text(?::jsonb) WITH ORDINALITY AS e (value, key)"
_RULES: tuple[tuple[str, str], ...] = (
    (r" INDEXED BY \w+", ""),
    (r"CROSS JOIN", "JOIN"),
    (r"json_each\(\?\) AS asked", f'(SELECT e.value COLLATE "C" AS value, e.key FROM {_JSON_TEXTS}) AS asked'),  # noqa: S608 - a constant
    # The server estimates every such list at 100 values, and then reads the whole table instead of the index.
    (
        r"\b(id|minion|fingerprint) IN \(SELECT value FROM json_each\(\?\)\)",
        rf'\1 = ANY (ARRAY(SELECT e.value COLLATE "C" FROM {_JSON_TEXTS}))',  # noqa: S608 - as above
    ),
    (r"SELECT value FROM json_each\(\?\)", f'SELECT e.value COLLATE "C" FROM {_JSON_TEXTS}'),  # noqa: S608 - as above
    (r"\bid = \? COLLATE NOCASE", "lower(id) = lower(?)"),
)
_MARK = re.compile(r"\?(?:::(\w+)\[\])?")
_BIGINT, _FLOAT8, _BYTEA, _TEXT = 20, 701, 17, 25
_NONE = b"\xff\xff\xff\xff"
_LENGTH = struct.Struct("!i").pack

Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Translated:
    """A statement as PostgreSQL takes it."""

    sql: bytes
    arrays: tuple[str, ...]
    """For each value the type of the elements, if it is an array, else ""."""


@cache
def translated(sql: str) -> Translated:
    """A statement with `?` for its values, in the words of SQLite or PostgreSQL. Arrays are marked as `?::text[]`."""
    for pattern, words in _RULES:
        sql = re.sub(pattern, words, sql)
    arrays: list[str] = []

    def numbered(mark: re.Match[str]) -> str:
        arrays.append(mark[1] or "")
        return f"${len(arrays)}{mark[0][1:]}"

    return Translated(_MARK.sub(numbered, sql).encode(), tuple(arrays))


def stored(value: object) -> object:
    """A value as it is read again: numbers have no booleans, and texts no NUL characters."""
    if isinstance(value, str):
        return str(value).replace("\0", "\N{REPLACEMENT CHARACTER}")
    return int(value) if isinstance(value, bool) else value


def _text(value: str) -> bytes:
    # PostgreSQL has no texts with NUL characters.
    return (value.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in value else value).encode()


def _numbers(code: str, values: Sequence[Any]) -> bytes:
    """Elements of 8 bytes."""
    if None in values:
        one = struct.Struct(f"!i{code}").pack
        return b"".join([_NONE if value is None else one(8, value) for value in values])
    flat = [8] * (2 * len(values))
    flat[1::2] = values
    return struct.pack("!" + f"i{code}" * len(values), *flat)


def _pieces(pieces: Iterable[bytes | None]) -> bytes:
    return b"".join([_NONE if piece is None else _LENGTH(len(piece)) + piece for piece in pieces])


_ELEMENTS: dict[str, tuple[int, Callable[[Sequence[Any]], bytes]]] = {
    "text": (_TEXT, lambda values: _pieces([None if value is None else _text(value) for value in values])),
    "bytea": (_BYTEA, _pieces),
    "bigint": (_BIGINT, lambda values: _numbers("q", values)),
    "float8": (_FLOAT8, lambda values: _numbers("d", values)),
}


def _array(kind: str, values: Sequence[Any]) -> bytes:
    """An array of that type in PostgreSQL's binary format."""
    oid, elements = _ELEMENTS[kind]
    if not values:
        return struct.pack("!iii", 0, 0, oid)
    return struct.pack("!iiiii", 1, None in values, oid, len(values), 1) + elements(values)


def _value(value: object) -> tuple[bytes | None, int, int]:
    """A value as it is sent, its type (0: the server finds out), and whether its format is binary."""
    match value:
        case None:
            return None, 0, 0
        case str():
            return _text(value), 0, 0
        case bytes():
            return value, _BYTEA, 1
        case int():
            return b"%d" % value, _BIGINT, 0
        case float():
            return repr(value).encode(), _FLOAT8, 0
        case _:
            raise TypeError(f"a column takes no {type(value).__name__}")


_Key = tuple[str, tuple[int, ...]]
_ROWS, _DONE, _SKIPPED = map(int, (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.PIPELINE_ABORTED))


class Pipeline:
    """One connection in pipeline mode. psycopg runs nothing on it from here on."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._link = connection.pgconn
        self._link.nonblocking = 1
        self._link.enter_pipeline_mode()
        self._names: dict[_Key, bytes] = {}
        self._prepared = 0
        self._reading = Transformer(connection)
        self._poll = select.poll()
        self._poll.register(self._link.socket, select.POLLIN)

    def run(self, statements: Sequence[tuple[str, Values]], patience_s: float) -> list[tuple[list[Any], int]]:
        """Send all in one flush; the rows of each, and the number of rows that it changed.

        Raises psycopg.Error: of the first statement that failed, and then none after it has run, or of a connection on
        which no answer came within `patience_s`.
        """
        # All values are looked at before the first statement leaves.
        sent = [_sent(sql, values) for sql, values in statements]
        link = self._link
        asked: list[_Key | None] = []
        for key, text, values, formats in sent:
            name = self._names.get(key)
            if name is None:
                self._prepared += 1
                name = self._names[key] = b"s%d" % self._prepared
                link.send_prepare(name, text, key[1])
                asked.append(key)
            link.send_query_prepared(name, values, formats, 1)
            asked.append(None)
        link.pipeline_sync()
        return self._answers(asked, patience_s)

    def _answers(self, asked: list[_Key | None], patience_s: float) -> list[tuple[list[Any], int]]:
        patience = _Patience(self._poll, patience_s)
        self._flush(patience)
        answers: list[tuple[list[Any], int]] = []
        failure: psycopg.Error | None = None
        for key in asked:
            result = self._result(patience)
            status = int(result.status)
            if status == _ROWS:
                self._reading.set_pgresult(result, set_loaders=True, format=pq.Format.BINARY)
                answers.append((self._reading.load_rows(0, result.ntuples, tuple), 0))
            elif status == _DONE:
                if key is None:
                    answers.append(([], result.command_tuples or 0))
            else:
                if key is not None:
                    del self._names[key]
                if status != _SKIPPED and failure is None:
                    failure = error_from_result(result)
            # What follows each answer is empty.
            self._result(patience)
        self._result(patience)  # that of the sync
        if failure is not None:
            raise failure
        return answers

    def _flush(self, patience: _Patience) -> None:
        if self._link.flush():
            poll = select.poll()
            poll.register(self._link.socket, select.POLLIN | select.POLLOUT)
            while self._link.flush():
                patience.wait(poll)
                # The server may wait until its answers are read.
                self._link.consume_input()

    def _result(self, patience: _Patience) -> Any:
        while self._link.is_busy():
            patience.wait()
            self._link.consume_input()
        return self._link.get_result()


def _sent(sql: str, values: Values) -> tuple[_Key, bytes, list[bytes | None], list[int]]:
    statement = translated(sql)
    try:
        made = [
            (_array(kind, value), 0, 1) if kind else _value(value)
            for kind, value in zip(statement.arrays, values, strict=True)
        ]
    except (TypeError, ValueError, OverflowError, struct.error) as error:
        raise psycopg.DataError(f"a value cannot be stored: {error}") from error
    oids = tuple([one[1] for one in made])
    return (sql, oids), statement.sql, [one[0] for one in made], [one[2] for one in made]


class _Patience:
    """Waits for the server for a limited time in all."""

    def __init__(self, poll: select.poll, most_s: float) -> None:
        self._poll = poll
        self._most_s = most_s
        self._until = time.monotonic() + most_s

    def wait(self, poll: select.poll | None = None) -> None:
        """Raises psycopg.OperationalError when the time is over."""
        left = self._until - time.monotonic()
        if left <= 0 or not (poll or self._poll).poll(left * 1000):
            raise psycopg.OperationalError(f"no answer within {self._most_s:g} s")
