"""Notices that a worker makes no progress, and ends it: docs/reference/watchdog.md.

Everything here is local to the container. While heartbeats come, the watchdog costs one stat of a file every quarter of
a second and no request to anybody.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from agent import hang
from agent.heartbeats import HeartbeatFile, Matcher, Silence
from agent.log import WorkerLog
from agent.watchdog_settings import WatchdogSettings

LOOK_SECONDS = 0.25
# What the worker has printed is passed on within so long after its end, if somebody reads it.
DRAIN_SECONDS = 5.0


class Watchdog:
    """Watches one worker. To be made before the worker starts: what is there by then is no heartbeat.

    `hang` is called once, with the reason as a sentence. `printed` gets lines of the worker's output, which the main
    thread has to hand to `match`.
    """

    def __init__(
        self,
        settings: WatchdogSettings,
        shell: str,
        hang: Callable[[str], None],
        printed: Callable[[list[bytes]], None],
    ) -> None:
        self.exit_code = settings.exit_code
        self._settings = settings
        self._shell = shell
        self._hang = hang
        self._beat = False
        self._stopped = threading.Event()
        self._file = None if settings.file is None else HeartbeatFile(settings.file)
        self._matcher = None if settings.pattern is None else Matcher(settings.pattern)
        self._log = None if settings.pattern is None else WorkerLog(printed)

    @property
    def output(self) -> Mapping[int, int]:
        """The descriptors for stdout and stderr of the worker; empty if it keeps those of the agent."""
        return {} if self._log is None else self._log.writers

    @property
    def work(self) -> list[Callable[[], None]]:
        """For threads of their own, once the worker has started."""
        return [self._watch] if self._log is None else [self._watch, self._log.run]

    def match(self, lines: list[bytes]) -> None:
        """Look for heartbeats in lines that `printed` got. In the main thread only."""
        if self._matcher is not None and self._matcher.any(lines):
            self._beat = True
        if self._log is not None:
            self._log.release()

    def end(self, pid: int) -> None:
        """Dump the stacks of worker `pid`, ask it to end, and return when its time for that is over."""
        hang.end(self._settings, self._shell, pid, self._stopped)

    def stop(self) -> None:
        """The worker has ended: watch no more, and pass on what it has printed."""
        self._stopped.set()
        if self._log is not None:
            self._log.drain(DRAIN_SECONDS)

    def _watch(self) -> None:
        silence = Silence(self._settings.first, self._settings.deadline, time.monotonic())
        while not self._stopped.wait(LOOK_SECONDS):
            heartbeat, self._beat = self._beat, False
            heartbeat = (self._file is not None and self._file.changed()) or heartbeat
            if silence.look(time.monotonic(), heartbeat):
                problem = f" ({self._file.problem})" if self._file is not None and self._file.problem else ""
                self._hang(f"no heartbeat for {silence.limit:.0f} s{problem}")
                break
        if self._file is not None:
            self._file.close()
