"""The event loop of the daemons: epoll, timers and signals in one thread.

asyncio is not used, because its import costs each process 5 MiB and 40 ms, and the ZeroMQ reader does not need it. The
loop wakes up only for events.

A reactor belongs to one process: create it after the fork. It is not thread-safe.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from saltlite.errors import LocalProtocolError

if TYPE_CHECKING:
    from saltlite.platform.shared_memory import Marks

Callback = Callable[[], None]

_READ = select.EPOLLIN
_WRITE = select.EPOLLOUT
_BROKEN = select.EPOLLHUP | select.EPOLLERR

CANCELLED_TIMERS_KEPT = 64
"""Cancelled timers in the heap; it is rebuilt when there are more, and they are the majority."""


class Timer:
    """A pending call; `cancel` may be called at any time, even after it has run."""

    __slots__ = ("_callback", "_queue", "when")

    def __init__(self, queue: TimerQueue, when: float, callback: Callback) -> None:
        self._queue = queue
        self.when = when
        self._callback: Callback | None = callback

    def cancel(self) -> None:
        """Do not run, and release the callback."""
        if self._callback is not None:
            self._callback = None
            self._queue.note_cancelled()

    def take(self) -> Callback | None:
        """The callback at the first call; None later, and if the timer was cancelled."""
        callback, self._callback = self._callback, None
        return callback

    @property
    def live(self) -> bool:
        """Whether it will still run."""
        return self._callback is not None


class TimerQueue:
    """Timers ordered by time, then by creation. The time is passed in."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._made = 0
        self._cancelled = 0

    def __len__(self) -> int:
        """The number of entries, including cancelled ones."""
        return len(self._heap)

    def add(self, when: float, callback: Callback) -> Timer:
        timer = Timer(self, when, callback)
        self._made += 1
        heapq.heappush(self._heap, (when, self._made, timer))
        return timer

    def note_cancelled(self) -> None:
        """Count a cancelled timer, and rebuild the heap if there are too many."""
        self._cancelled += 1
        if self._cancelled > CANCELLED_TIMERS_KEPT and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].live]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next_when(self) -> float | None:
        """The time of the next live timer, or None."""
        while self._heap and not self._heap[0][2].live:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Timer | None:
        """Remove and return the earliest live timer that is due at `now`, or None."""
        when = self.next_when()
        if when is None or when > now:
            return None
        return heapq.heappop(self._heap)[2]


class _Watch:
    """The callbacks of one file descriptor."""

    __slots__ = ("mask", "reader", "turn", "writer")

    def __init__(self, turn: int) -> None:
        self.reader: Callback | None = None
        self.writer: Callback | None = None
        self.mask = 0
        self.turn = turn


class Reactor:
    """Runs callbacks for descriptors, timers and signals.

    An exception in a callback ends `run`, because a daemon must not continue with a lost callback; with `on_error` it
    is passed to that function instead, and the loop continues. `marks` records each turn, so that a supervisor can end
    one that hangs.
    """

    def __init__(self, on_error: Callable[[Exception], None] | None = None, *, marks: Marks | None = None) -> None:
        self._epoll = select.epoll()
        self._watches: dict[int, _Watch] = {}
        self._timers = TimerQueue()
        self._soon: deque[Callback] = deque()
        self._signals: dict[int, Callback] = {}
        self._replaced: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._wake_pipe: tuple[int, int] | None = None
        self._stopping = False
        self._turn = 0
        self._on_error = on_error
        self._marks = marks

    def now(self) -> float:
        """The monotonic clock of `call_at`, in seconds."""
        return time.monotonic()

    def add_reader(self, fd: int, callback: Callback) -> None:
        """Call `callback` as long as `fd` is readable, hung up or broken (level-triggered)."""
        watch = self._watch(fd)
        watch.reader = callback
        self._arm(fd, watch)

    def add_writer(self, fd: int, callback: Callback) -> None:
        """Call `callback` as long as `fd` is writable, hung up or broken (level-triggered)."""
        watch = self._watch(fd)
        watch.writer = callback
        self._arm(fd, watch)

    def add_listener(self, fd: int, callback: Callback) -> None:
        """Like `add_reader`, for a listening socket of several processes: the kernel wakes only few of them."""
        watch = self._watch(fd)
        if watch.mask:
            raise LocalProtocolError(f"descriptor {fd} is watched already, so it cannot become a listener")
        watch.reader = callback
        watch.mask = _READ
        self._epoll.register(fd, _READ | select.EPOLLEXCLUSIVE)

    def remove_reader(self, fd: int) -> None:
        """Call before `fd` is closed. Has no effect without a reader."""
        watch = self._watches.get(fd)
        if watch is not None and watch.reader is not None:
            watch.reader = None
            self._arm(fd, watch)

    def remove_writer(self, fd: int) -> None:
        """Call before `fd` is closed. Has no effect without a writer."""
        watch = self._watches.get(fd)
        if watch is not None and watch.writer is not None:
            watch.writer = None
            self._arm(fd, watch)

    def call_at(self, when: float, callback: Callback) -> Timer:
        """Call once when `now()` has reached `when`; timers with the same time run in the order of creation."""
        return self._timers.add(when, callback)

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        """Call once, at least `seconds` from now."""
        return self._timers.add(time.monotonic() + seconds, callback)

    def call_soon(self, callback: Callback) -> None:
        """Call once, in the next turn at the latest. Calls that it adds run in a later turn."""
        self._soon.append(callback)

    def on_signal(self, signum: int, callback: Callback) -> None:
        """Run `callback` in the loop when the signal arrives; only in the main thread, undone by `close`."""
        if self._wake_pipe is None:
            self._wake_pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            signal.set_wakeup_fd(self._wake_pipe[1], warn_on_full_buffer=False)
            self.add_reader(self._wake_pipe[0], self._read_signals)
        self._signals[signum] = callback
        # The C handler behind any Python handler writes to the wake-up pipe, so this one does nothing.
        previous = signal.signal(signum, lambda _signum, _frame: None)
        self._replaced.setdefault(signum, previous)

    def run(self) -> None:
        """Run until `stop`. Raises exceptions of callbacks, unless there is an `on_error`."""
        try:
            while not self._stopping:
                self._run_turn()
        finally:
            self._stopping = False

    def stop(self) -> None:
        """Make `run` return after the current turn (or at once, if it is called before `run`)."""
        self._stopping = True

    def close(self) -> None:
        """Restore the signal handlers, and close the descriptors that the reactor opened."""
        for signum, previous in self._replaced.items():
            signal.signal(signum, previous)
        self._replaced.clear()
        if self._wake_pipe is not None:
            signal.set_wakeup_fd(-1)
            for fd in self._wake_pipe:
                os.close(fd)
            self._wake_pipe = None
        self._watches.clear()
        self._soon.clear()
        self._epoll.close()

    def _watch(self, fd: int) -> _Watch:
        watch = self._watches.get(fd)
        if watch is None:
            watch = self._watches[fd] = _Watch(self._turn)
        return watch

    def _arm(self, fd: int, watch: _Watch) -> None:
        mask = (_READ if watch.reader else 0) | (_WRITE if watch.writer else 0)
        if mask == watch.mask:
            return
        if not watch.mask:
            self._epoll.register(fd, mask)
        elif mask:
            self._epoll.modify(fd, mask)
        else:
            self._epoll.unregister(fd)
            del self._watches[fd]
        watch.mask = mask

    def _wait_s(self) -> float | None:
        if self._soon or self._stopping:
            return 0
        when = self._timers.next_when()
        return None if when is None else max(0.0, when - time.monotonic())

    def _run_turn(self) -> None:
        events = self._epoll.poll(self._wait_s())
        self._turn += 1
        if self._marks is not None:
            self._marks.begin()
        for fd, mask in events:
            self._dispatch(fd, mask)
        self._run_timers(time.monotonic())
        for _ in range(len(self._soon)):
            self._call(self._soon.popleft())
        if self._marks is not None:
            self._marks.idle()

    def _run_timers(self, now: float) -> None:
        # At most as many as at the start: a timer that adds a due timer must not starve the descriptors.
        for _ in range(len(self._timers)):
            timer = self._timers.pop_due(now)
            if timer is None:
                return
            callback = timer.take()
            if callback is not None:
                self._call(callback)

    def _dispatch(self, fd: int, mask: int) -> None:
        watch = self._watches.get(fd)
        # A watch that was created in this turn is for a new file with a reused number: the event is not for it.
        if watch is None or watch.turn == self._turn:
            return
        if watch.reader is not None and mask & (_READ | _BROKEN):
            self._call(watch.reader)
        if watch.writer is not None and mask & (_WRITE | _BROKEN):
            self._call(watch.writer)

    def _read_signals(self) -> None:
        assert self._wake_pipe is not None  # noqa: S101 - registered only together with the pipe
        try:
            numbers = os.read(self._wake_pipe[0], 4096)
        except BlockingIOError:
            return
        for signum in dict.fromkeys(numbers):
            callback = self._signals.get(signum)
            if callback is not None:
                self._call(callback)

    def _call(self, callback: Callback) -> None:
        try:
            callback()
        except Exception as error:  # supervision point: `on_error` decides
            if self._on_error is None:
                raise
            self._on_error(error)
