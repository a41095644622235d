"""The log of a process that may not touch the log file: it hands its lines to its parent, which writes them down.

The link process has a user of its own, so it could not open the file again when somebody rotates it; and a descriptor
that it inherited would be too much: whoever holds one can cut the file short. So it gets one end of a socket, and its
stdout and stderr go nowhere else either (a terminal that root owns takes commands from whoever has it open). The parent
believes none of it: it adds the time itself, escapes what would make another line, and takes so many lines a second.
"""

from __future__ import annotations

import logging
import os
import socket
from time import monotonic

from saltlite.platform import logs
from saltlite.platform.reactor import Reactor

LINE_MAX = 16 * 1024
"""Bytes of one line, a traceback included; what is longer is cut."""
LINES_A_TURN = 64
"""Lines that the parent reads in one turn."""
LINES_PER_S = 500
"""Lines that are written in one second; those above it are counted, and told of in the next one."""


class LogRelay:
    """Made by the parent before it forks. `name` says whose lines these are where they say nothing themselves."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self._second = 0
        self._lines = 0
        self._dropped = 0

    def fileno(self) -> int:
        """The descriptor that the child keeps."""
        return self._theirs.fileno()

    def listen(self, reactor: Reactor) -> None:
        """In the parent: write down what the child says."""
        reactor.add_reader(self._ours.fileno(), self._readable)

    def close(self) -> None:
        """In the parent: hear the child no more."""
        self._ours.close()
        self._theirs.close()

    def become_child(self, level: str) -> None:
        """In the child: log through the parent from now on, and let go of stdin, stdout, stderr and the log file."""
        logs.configure_sink(level, RelaySink(self._theirs.fileno()))
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for descriptor in (0, 1):
            os.dup2(null, descriptor)
        os.dup2(self._theirs.fileno(), 2)
        os.close(null)

    def _readable(self) -> None:
        for _ in range(LINES_A_TURN):
            try:
                said = self._ours.recv(LINE_MAX)
            except OSError:
                return
            self._take(said)

    def _take(self, said: bytes) -> None:
        if not said.strip():
            return  # the end of a line that the interpreter wrote in pieces
        second = int(monotonic())
        if second != self._second:
            dropped, self._dropped = self._dropped, 0
            self._second, self._lines = second, 0
            if dropped:
                logs.write_line(logging.ERROR, f"ERROR {__name__} {dropped} lines of {self._name} were too many")
        self._lines += 1
        if self._lines > LINES_PER_S:
            self._dropped += 1
            return
        head, _, text = said.decode("utf-8", "backslashreplace").partition(" ")
        if head.isascii() and head.isdigit() and len(head) <= len(str(logging.CRITICAL)):
            logs.write_line(int(head), text)
        else:
            # Not a line of its log: what the interpreter itself writes to stderr when it ends.
            logs.write_line(logging.ERROR, f"ERROR {self._name} {head} {text}".rstrip())


class RelaySink(logs.Sink):
    """The child's end: one message a line, its level before it. A line that the parent is too slow for is counted."""

    def line(self, stamp: str, level: int, text: str) -> str:  # noqa: ARG002 - the parent has its own time
        return f"{level} {text}"

    def _put(self, text: str) -> bool:
        data = text.encode(errors="backslashreplace")[:LINE_MAX]
        try:
            return os.write(self.fd, data) == len(data)
        except OSError:
            return False
