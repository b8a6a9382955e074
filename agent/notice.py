"""Passes a notice of maintenance on to the worker, and reports when the worker is ready to move.

See docs/concepts/node-maintenance.md. The worker writes a file when it is ready. Only processes that handle the signal
of the notice get the signal, which would end any other process. New processes of the worker get it once they handle it.
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path

from agent import worker
from agent.api import Api, ApiError
from agent.decision import Notice
from agent.follow import say

CHECK_PERIOD_SECONDS = 0.2
RETRY_SECONDS = 2.0


class Notices:
    """The open notice. `receive` is for the thread that follows the JobSet, `run` is a thread of its own."""

    def __init__(self, file: Path, api: Api) -> None:
        self._acknowledged: Notice | None = None
        self._file = file
        self._api = api
        self._open: Notice | None = None
        self._changed = threading.Event()

    @property
    def is_acknowledged(self) -> bool:
        """Whether the worker is ready to move because of the notice that is open."""
        acknowledged = self._acknowledged
        return acknowledged is not None and acknowledged == self._open

    def forget_acknowledgement(self) -> None:
        """Forget that the worker is ready to move: a new worker starts."""
        self._acknowledged = None

    def receive(self, notice: Notice | None) -> None:
        """Take the notice that is open now, or None."""
        if notice != self._open:
            self._open = notice
            self._changed.set()

    def run(self) -> None:
        """Handle each notice; does not return."""
        while True:
            self._changed.wait()
            self._changed.clear()
            if (notice := self._open) is not None:
                self._handle(notice)

    def _handle(self, notice: Notice) -> None:
        """Signal the worker until it acknowledges, and report this. Returns early if the notice ends or changes."""
        number = getattr(signal, notice.signal, None)
        if not isinstance(number, signal.Signals):
            say(f"the notice of maintenance has signal {notice.signal!r}, which this agent does not know")
            return
        say(f"the set is about to move: {number.name} to the processes of the worker that handle it")
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            say(f"{self._file}: {error.strerror}: any change of it acknowledges the notice")
        initial_state, signalled, pause = self._file_state(), set[int](), CHECK_PERIOD_SECONDS
        while not self._changed.wait(pause):
            for process in worker.descendants():
                if process not in signalled and worker.handles(process, number):
                    signalled.add(process)
                    worker.send_signal_to(process, number)
            if self._file_state() in {None, initial_state}:
                continue
            try:
                self._api.acknowledge(notice.time)
            except ApiError as error:
                say(str(error))
                if error.forbidden:
                    return
                pause = RETRY_SECONDS
            else:
                self._acknowledged = notice
                say("the worker is ready to move, and the pod says so")
                return

    def _file_state(self) -> tuple[int, ...] | None:
        """A value that changes when the file is written; None without the file."""
        try:
            file_status = self._file.stat()
        except OSError:
            return None
        return file_status.st_ino, file_status.st_mtime_ns, file_status.st_size
