"""Detection of heartbeats, and the time without one."""

from __future__ import annotations

import os
import re
import signal
import stat
from pathlib import Path

from agent.follow import say
from agent.watchdog_settings import PATTERN

# A running agent checks several times a second, even on a busy node. An agent that has not checked for that long was
# stopped, together with its worker: by SIGSTOP, a frozen container, or a machine that was suspended or moved.
LONGEST_GAP = 5.0
# A pattern such as (a+)+$ can take longer than a year for one line, and would block the rest of the agent.
MATCH_SECONDS = 0.5
_READ_BYTES = 64 << 10
_MAX_READS = 16


class Silence:
    """Seconds without a heartbeat, counted only while the agent itself runs."""

    def __init__(self, first_deadline: float, deadline: float, now: float) -> None:
        """`first_deadline` is for the first heartbeat, `deadline` for each later one. `now` is monotonic time."""
        self.seconds = 0.0
        self.limit = first_deadline
        self._deadline = deadline
        self._last_update = now

    def update(self, now: float, heartbeat: bool) -> bool:
        """Update the time without a heartbeat. Returns whether the limit is reached."""
        gap, self._last_update = now - self._last_update, now
        if heartbeat:
            self.seconds, self.limit = 0.0, self._deadline
        elif gap > LONGEST_GAP:
            say(f"the agent was stopped for {gap:.0f} s: the time until the next heartbeat begins again")
            self.seconds = 0.0
        else:
            self.seconds += gap
        return self.seconds >= self.limit


class HeartbeatFile:
    """A file whose changes are heartbeats, or a named pipe that is read.

    Changes are noticed by comparison with the last check, so no clock of a file system is compared with another clock.
    A file from before the worker, such as that of an earlier attempt, is not a heartbeat.
    """

    def __init__(self, path: Path) -> None:
        self.problem = ""
        self._path = path
        self._last_state: tuple[int, ...] | None = None
        self._pipe: tuple[int, int, int] | None = None  # device, inode, descriptor
        self.has_changed()

    def has_changed(self) -> bool:
        """Whether there was a heartbeat since the last call."""
        try:
            file_status = self._path.stat()
            if stat.S_ISFIFO(file_status.st_mode):
                changed, problem = self._drain(file_status), ""
            elif stat.S_ISREG(file_status.st_mode):
                state = (file_status.st_dev, file_status.st_ino, file_status.st_mtime_ns, file_status.st_size)
                changed, problem = state != self._last_state, ""
                self._last_state = state
            else:
                changed, problem = False, f"{self._path} is neither a file nor a named pipe"
        except OSError as error:
            changed, problem = False, f"{self._path}: {error.strerror}"
        if problem not in {"", self.problem}:
            say(f"no heartbeat can come yet: {problem}")
        self.problem = problem
        return changed

    def close(self) -> None:
        """Close the pipe."""
        if self._pipe is not None:
            os.close(self._pipe[2])
            self._pipe = None

    def _drain(self, file_status: os.stat_result) -> bool:
        if self._pipe is None or self._pipe[:2] != (file_status.st_dev, file_status.st_ino):
            self.close()
            self._pipe = (file_status.st_dev, file_status.st_ino, os.open(self._path, os.O_RDONLY | os.O_NONBLOCK))
        has_data = False
        for _ in range(_MAX_READS):  # a worker that writes endlessly must not block the watchdog here
            try:
                if not os.read(self._pipe[2], _READ_BYTES):
                    break
            except BlockingIOError:
                break
            has_data = True
        return has_data


class Matcher:
    """Looks for a pattern in lines, for a limited time. In the main thread only, where signals interrupt a match."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        """Takes SIGALRM for itself."""
        self._pattern = pattern
        self._matching = False
        signal.signal(signal.SIGALRM, self._give_up)

    def matches_any(self, lines: list[bytes]) -> bool:
        """Whether a line has a match; False if the search takes too long."""
        self._matching = True
        signal.setitimer(signal.ITIMER_REAL, MATCH_SECONDS)
        try:
            return any(map(self._pattern.search, lines))
        except _TooLongError:
            say(
                f"{PATTERN} took longer than {MATCH_SECONDS} s for {sum(map(len, lines))} bytes of output, which count"
                " as no heartbeat: write a pattern without repeats of repeats, such as (a+)+"
            )
            return False
        finally:
            self._matching = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _give_up(self, *_: object) -> None:
        if self._matching:
            raise _TooLongError


class _TooLongError(Exception):
    """Raised by the timer of a match."""
