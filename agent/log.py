"""Passes the worker's output on, finds heartbeats in it, and keeps the last lines of its stderr.

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
from pathlib import Path

READ_BYTES = 64 << 10
LONGEST_LINE = 4096
"""Bytes of a line that are matched."""
DRAIN_SECONDS = 5.0
"""Seconds after the worker's end within which its last output is still passed on, if it is read."""
LAST_BYTES = 1000
"""Bytes of the end of stderr that are kept for the termination message."""
_ENDS = re.compile(rb"[\r\n]")  # progress bars end their lines with a carriage return


class Lines:
    """Cuts a stream of bytes into lines, and keeps the first `LONGEST_LINE` bytes of each."""

    def __init__(self) -> None:
        self._open_line = b""

    def cut(self, data: bytes) -> list[bytes]:
        """The lines that are complete now. A line that reaches the limit is complete then; its rest is skipped."""
        *ended, last_part = _ENDS.split(data)
        lines = []
        for part in ended:
            if len(self._open_line) < LONGEST_LINE:
                lines.append(self._extend_line(part))
            self._open_line = b""
        was_full = len(self._open_line) >= LONGEST_LINE
        self._open_line = self._extend_line(last_part)
        if not was_full and len(self._open_line) >= LONGEST_LINE:
            lines.append(self._open_line)
        return [line for line in lines if line]

    def _extend_line(self, part: bytes) -> bytes:
        return self._open_line + part[: LONGEST_LINE - len(self._open_line)]


class WorkerLog:
    """Pipes for the worker's stdout and stderr, or without `match` for stderr only.

    `match` gets the lines of the worker, whose output waits until `release` is called.
    """

    def __init__(self, match: Callable[[list[bytes]], None] | None) -> None:
        self._match = match
        self._stderr_end = b""
        self._matched = threading.Semaphore(0)
        self._is_draining = False
        self._ended = threading.Event()
        pipes = {number: os.pipe() for number in ((2,) if match is None else (1, 2))}
        self._readers = {pipe[0]: number for number, pipe in pipes.items()}
        self.writers = {number: pipe[1] for number, pipe in pipes.items()}
        """The write ends of the pipes, by the worker's descriptor: 1 for stdout, 2 for stderr."""

    def run(self) -> None:
        """Pass output on until all writers are closed; for a thread of its own.

        Start it once the worker has been started with `writers`.
        """
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
                if self._readers[descriptor] == 2:
                    self._stderr_end = (self._stderr_end + data)[-LAST_BYTES - 1 :]
                if self._match is not None:
                    self._match_lines(self._match, lines[descriptor].cut(data))
        self._ended.set()

    def _match_lines(self, match: Callable[[list[bytes]], None], lines: list[bytes]) -> None:
        if lines and not self._is_draining:
            match(lines)
            self._matched.acquire()

    def last_lines(self) -> str:
        """The last lines of stderr. A single line that is longer than `LAST_BYTES` loses its start."""
        stderr_end = self._stderr_end
        if len(stderr_end) > LAST_BYTES:
            stderr_end = stderr_end.partition(b"\n")[2] or stderr_end[1:]
        return stderr_end.decode(errors="replace").strip()

    def release(self) -> None:
        """Let the worker's output continue after its lines were matched."""
        self._matched.release()

    def drain(self, seconds: float) -> None:
        """Stop matching, and wait until the worker's output is passed on."""
        self._is_draining = True
        self._matched.release()
        self._ended.wait(seconds)


def write_message(path: Path, text: str) -> None:
    """Write the termination message of the container, if it has a file for that."""
    with contextlib.suppress(OSError):
        if text and path.exists():
            path.write_text(text)


def _write(descriptor: int, data: bytes) -> None:
    """Write all data. Ignores a closed reader, so that the worker does not notice it."""
    unwritten = memoryview(data)
    with contextlib.suppress(BrokenPipeError):
        while unwritten:
            try:
                unwritten = unwritten[os.write(descriptor, unwritten) :]
            except BlockingIOError:
                select.select([], [descriptor], [])
