"""Notices that a worker makes no progress, and ends it: docs/reference/watchdog.md.

Everything here is local to the container. While heartbeats come, the watchdog costs one stat of a file every quarter of
a second and sends no request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from agent import hang
from agent.heartbeats import HeartbeatFile, Matcher, Silence
from agent.watchdog_settings import WatchdogSettings

CHECK_PERIOD_SECONDS = 0.25


class Watchdog:
    """Watches one worker. Create it before the worker starts: an older file is not a heartbeat.

    `on_hang` is called once, with the reason as a sentence. Pass the lines of the worker's output to `match`.
    """

    def __init__(
        self,
        settings: WatchdogSettings,
        shell: str,
        on_hang: Callable[[str], None],
    ) -> None:
        self.exit_code = settings.exit_code
        self._settings = settings
        self._shell = shell
        self._on_hang = on_hang
        self._has_match = False
        self._stopped = threading.Event()
        self._file = None if settings.file is None else HeartbeatFile(settings.file)
        self._matcher = None if settings.pattern is None else Matcher(settings.pattern)

    def match(self, lines: list[bytes]) -> None:
        """Look for heartbeats in lines of the worker's output. In the main thread only."""
        if self._matcher is not None and self._matcher.matches_any(lines):
            self._has_match = True

    def end_worker(self, pid: int) -> None:
        """Dump the stacks of worker `pid`, ask it to end, and return after its time limit."""
        hang.end_hanging_worker(self._settings, self._shell, pid, self._stopped)

    def stop(self) -> None:
        """Stop watching: the worker has ended."""
        self._stopped.set()

    def watch(self) -> None:
        """Watch until the worker hangs or `stop` is called; for a thread of its own."""
        silence = Silence(self._settings.first_deadline, self._settings.deadline, time.monotonic())
        while not self._stopped.wait(CHECK_PERIOD_SECONDS):
            heartbeat, self._has_match = self._has_match, False
            heartbeat = (self._file is not None and self._file.has_changed()) or heartbeat
            if silence.update(time.monotonic(), heartbeat):
                problem = f" ({self._file.problem})" if self._file is not None and self._file.problem else ""
                self._on_hang(f"no heartbeat for {silence.limit:.0f} s{problem}")
                break
        if self._file is not None:
            self._file.close()
