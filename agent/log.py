"""Passes the worker's output on and finds heartbeats in it.

Output is passed on byte for byte, before anything is matched. Memory is bounded whatever the worker prints: one read,
and the start of one line, for each of stdout and stderr.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import threading
from collections.abc import Callable

READ_BYTES = 64 << 10
LONGEST_LINE = 4096
"""Bytes of a line in which the pattern is looked for."""
_ENDS = re.compile(rb"[\r\n]")  # progress bars end their lines with a carriage return


class Lines:
    """Cuts a stream of bytes into lines, of which it keeps the first `LONGEST_LINE` bytes."""

    def __init__(self) -> None:
        self._open = b""

    def cut(self, data: bytes) -> list[bytes]:
        """The lines that are complete now. A line that reaches the limit is complete then; its rest is skipped."""
        *ended, last_part = _ENDS.split(data)
        lines = []
        for part in ended:
            lines.append(self._extend_line(part))
            self._open = b""
        reached = len(self._open) >= LONGEST_LINE
        self._open = self._extend_line(last_part)
        if not reached and len(self._open) >= LONGEST_LINE:
            lines.append(self._open)
        return [line for line in lines if line]

    def _extend_line(self, part: bytes) -> bytes:
        return self._open + part[: LONGEST_LINE - len(self._open)]


class WorkerLog:
    """Two pipes for the worker. `match` gets its lines; the worker's output waits until `release` is called."""

    def __init__(self, match: Callable[[list[bytes]], None]) -> None:
        self._match = match
        self._matched = threading.Semaphore(0)
        self._draining = False
        self._ended = threading.Event()
        pairs = {1: os.pipe(), 2: os.pipe()}
        self._readers = {pair[0]: number for number, pair in pairs.items()}
        self.writers = {number: pair[1] for number, pair in pairs.items()}
        """The ends for the worker, by the descriptor that each is for."""

    def run(self) -> None:
        """Until all writers are closed; for a thread of its own. To be started once the worker has its ends."""
        for descriptor in self.writers.values():
            os.close(descriptor)
        lines = {descriptor: Lines() for descriptor in self._readers}
        poll = select.poll()
        for descriptor in lines:
            poll.register(descriptor, select.POLLIN)
        while lines:
            for descriptor, _ in poll.poll():
                data = os.read(descriptor, READ_BYTES)
                if not data:
                    poll.unregister(descriptor)
                    os.close(descriptor)
                    del lines[descriptor]
                    continue
                _write(self._readers[descriptor], data)
                self._hand_over(lines[descriptor].cut(data))
        self._ended.set()

    def _hand_over(self, lines: list[bytes]) -> None:
        if lines and not self._draining:
            self._match(lines)
            self._matched.acquire()

    def release(self) -> None:
        """Let the worker's output continue after its lines were matched."""
        self._matched.release()

    def drain(self, seconds: float) -> None:
        """Match no more, and wait until what the worker has printed is passed on."""
        self._draining = True
        self._matched.release()
        self._ended.wait(seconds)


def _write(descriptor: int, data: bytes) -> None:
    """Write all data. A closed reader is ignored: the worker must not notice."""
    unwritten = memoryview(data)
    with contextlib.suppress(BrokenPipeError):
        while unwritten:
            try:
                unwritten = unwritten[os.write(descriptor, unwritten) :]
            except BlockingIOError:
                select.select([], [descriptor], [])
