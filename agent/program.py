"""The agent's main loop. It handles events of the API server, the worker and the kubelet, one after the other.

Only the main thread decides when the program ends and with which code. The other threads wait: one for the API server,
one for the probe or the worker, and with a watchdog one for heartbeats and one for the worker's output.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

from agent import worker
from agent.api import Api
from agent.decision import Action
from agent.follow import Continuation, JobSetWatcher, say
from agent.log import DRAIN_SECONDS, WorkerLog, write_message
from agent.notice import Notices
from agent.probe import Probe
from agent.settings import ACKNOWLEDGEMENT, HELP, Settings, SettingsError, read_settings
from agent.watchdog import Watchdog

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Signal(NamedTuple):
    """A signal that asks the agent to end, from the kubelet or a person."""

    number: int


class WorkerEnded(NamedTuple):
    """The worker has ended."""

    code: int


class AllGone(NamedTuple):
    """No process of the worker is left."""


class ThreadFailed(NamedTuple):
    """A thread has failed."""


class Hang(NamedTuple):
    """The worker has made no progress for too long."""

    reason: str


class Overdue(NamedTuple):
    """A worker that hangs has not ended within the time limit after SIGTERM."""


class LinesPrinted(NamedTuple):
    """The worker has printed these lines."""

    lines: list[bytes]


WorkerEvent = WorkerEnded | AllGone | Hang | Overdue | LinesPrinted
EventSink = Callable[[WorkerEvent], None]


class Restart(NamedTuple):
    """The attempt is over and the agent continues. `worker_gone` is set once no process of the worker is left."""

    worker_gone: threading.Event


class WorkerRunEvent(NamedTuple):
    """An event of the worker with the number `run`. The agent drops events of earlier workers."""

    run: int
    event: WorkerEvent


Event = Action | Signal | ThreadFailed | Restart | WorkerRunEvent


class Agent:
    """One run of the agent. A signal handler may put events into its queue."""

    def __init__(self, settings: Settings) -> None:
        """Raises SettingsError if the probe's port is in use."""
        self._settings = settings
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._worker: int | None = None
        self._reaper: threading.Thread | None = None
        self._worker_number = 0
        self._stop_signal: int | None = None
        self._is_hanging = False
        self._failed_code: int | None = None  # exit code of the worker that has failed, while the barrier is up
        self._watcher: JobSetWatcher | None = None
        self._watchdog: Watchdog | None = None
        self._log: WorkerLog | None = None
        self._probe: Probe | None = None
        self._notices = Notices(settings.acknowledgement, Api(settings))
        if settings.worker is None:
            try:
                self._probe = Probe(settings.probe_port, settings.probe_path)
            except OSError as error:
                raise SettingsError(
                    f"cannot listen on port {settings.probe_port} ({error.strerror}): set STARTUP_PROBE_PORT to a port"
                    " that is free in this pod, and the container's startupProbe with it"
                ) from error

    def run(self) -> int:
        """Run the agent. Returns the exit code."""
        for number in SIGNALS:
            signal.signal(number, lambda caught, _: self._events.put(Signal(caught)))
        if self._probe is not None:
            self._start_thread(self._probe.serve)
        if self._settings.in_place:
            continuation = Continuation(self._end_worker, Api(self._settings)) if self._settings.worker_only else None
            if self._settings.worker is not None:
                self._start_thread(self._notices.run)
            self._watcher = JobSetWatcher(
                Api(self._settings), self._events.put, continuation=continuation, notify=self._notices.receive
            )
            self._start_thread(self._watcher.run)
        else:
            self._events.put(Action.LIFT)
        while True:
            code = self._handle(self._events.get())
            if code is not None:
                return code

    def _handle(self, event: Event) -> int | None:
        """Handle an event. Returns the exit code if the agent ends."""
        match event:
            case Signal(number):
                return None if self._is_hanging else self._stop(number)
            case ThreadFailed():
                return self._finish(1)
            case WorkerRunEvent(run, worker_event):
                return self._handle_worker_event(worker_event) if run == self._worker_number else None
            case Action.RESTART | Restart() if self._stop_signal and self._notices.is_acknowledged:
                say("the worker was ready to move, and this attempt is over")
                return self._finish(128 + self._stop_signal)  # nothing is left for which the grace period is needed
            case Action() | Restart() if not self._stop_signal:
                return self._handle_action(event)
        return None

    def _handle_worker_event(self, event: WorkerEvent) -> int | None:
        """Handle an event of the current worker."""
        if self._stop_signal and not isinstance(event, LinesPrinted):
            return self._drain(128 + self._stop_signal) if isinstance(event, AllGone) else None
        if isinstance(event, WorkerEnded):
            return None if self._is_hanging else self._end_run(event.code, "Error")
        return None if self._watchdog is None else self._handle_watchdog_event(self._watchdog, event)

    def _handle_watchdog_event(self, watchdog: Watchdog, event: LinesPrinted | Hang | AllGone | Overdue) -> int | None:
        """Handle an event of the watchdog. The agent ends once a worker that hangs is gone, or overdue."""
        if isinstance(event, LinesPrinted):
            watchdog.match(event.lines)
            if self._log is not None:
                self._log.release()
        elif isinstance(event, Hang) and self._worker is not None:
            say(f"the worker hangs: {event.reason}; ending with exit code {watchdog.exit_code}")
            self._is_hanging = True
            self._start_thread(partial(self._end_hang, watchdog, self._worker, self._event_sink()))
        elif self._is_hanging:
            return self._end_run(watchdog.exit_code, "Hang")
        return None

    def _end_hang(self, watchdog: Watchdog, pid: int, put_event: EventSink) -> None:
        watchdog.end_worker(pid)
        put_event(Overdue())

    def _handle_action(self, event: Action | Restart) -> int | None:
        if event is Action.LIFT:
            return self._lift()
        if isinstance(event, Restart):
            return self._end_attempt(event)
        if event is Action.RESTART:
            say(f"this attempt is over: ending with exit code {self._settings.exit_code} to be started again in place")
            return self._finish(self._settings.exit_code)
        if event is Action.FAIL and self._failed_code is not None:
            return self._finish(self._failed_code)
        return None

    def _end_run(self, code: int, reason: str) -> int | None:
        """Handle the end or the hang of the worker. Returns the exit code if the agent ends with the worker.

        If the worker failed and the settings ask for it, the agent stays and reports the failure. Then all workers
        start again in the next attempt.
        """
        if self._watcher is None or not self._settings.restart_failed or code == 0 or not self._clear_worker():
            return self._finish(code)
        last_lines = "" if self._log is None else self._log.last_lines()
        self._failed_code = code
        self._watcher.report_failure(f"{code} {reason}\n{last_lines}".strip())
        return None

    def _end_worker(self) -> None:
        """End the worker. Returns once no process of the worker is left; for the thread that watches the JobSet."""
        worker_gone = threading.Event()
        self._events.put(Restart(worker_gone))
        worker_gone.wait()

    def _end_attempt(self, restart: Restart) -> int | None:
        """End the worker for the next attempt. If it cannot be killed, the agent ends, and the container with it."""
        if (self._is_hanging and not self._settings.restart_failed) or not self._clear_worker():
            return self._handle_action(Action.RESTART)
        say("this attempt is over: the worker was ended, and will start again in the next")
        restart.worker_gone.set()
        return None

    def _clear_worker(self) -> bool:
        """Kill the remaining processes of the worker. Returns whether none is left, so that another one can start."""
        if self._worker is not None and not worker.kill(self._worker):
            return False
        if self._reaper is not None:
            self._reaper.join()  # a reaper that still runs would take the next worker for a process of this worker
        self._drain(0)
        self._worker_number += 1
        self._worker = self._reaper = self._watchdog = None
        self._is_hanging = False
        return True

    def _stop(self, number: int) -> int | None:
        """Pass the signal on and let the worker end, within the kubelet's grace period."""
        if self._worker is None:
            return 128 + number if self._failed_code is None else self._finish(self._failed_code)
        say(f"{signal.Signals(number).name}: waiting for the worker to end")
        self._stop_signal = number
        worker.send_signal(self._worker, number)
        return None

    def _lift(self) -> int | None:
        say("the barrier is down")
        self._failed_code = None
        self._notices.forget_acknowledgement()
        if self._probe is not None:
            self._probe.lift()
        elif self._settings.worker is not None:
            try:
                worker.adopt_orphans()
                child = self._start_worker(self._settings.worker)
            except OSError as error:
                say(f"cannot start the worker with {self._settings.worker[0]}: {error.strerror}")
                return 1
            put_event = self._event_sink()
            self._worker = child
            self._reaper = self._start_thread(partial(self._reap, child, put_event))
        return None

    def _reap(self, child: int, put_event: EventSink) -> None:
        def report_end(code: int) -> None:
            say(f"the worker ended with exit code {code}")
            put_event(WorkerEnded(code))

        worker.reap(child, report_end, lambda: put_event(AllGone()))

    def _event_sink(self) -> EventSink:
        """A function that queues events of the current worker, which may be called from any thread."""
        run = self._worker_number
        return lambda event: self._events.put(WorkerRunEvent(run, event))

    def _start_worker(self, command: tuple[str, ...]) -> int:
        """Start the worker, and the watchdog if it is configured. Returns the process id. Raises OSError."""
        settings, put_event = self._settings.watchdog, self._event_sink()
        env = {**os.environ, ACKNOWLEDGEMENT: str(self._settings.acknowledgement)}
        if settings is None and not self._settings.restart_failed:
            return worker.start(command, env)
        has_pattern = settings is not None and settings.pattern is not None
        log = self._log = WorkerLog((lambda lines: put_event(LinesPrinted(lines))) if has_pattern else None)
        if settings is not None:
            self._watchdog = Watchdog(settings, self._settings.shell, on_hang=lambda reason: put_event(Hang(reason)))
        child = worker.start(command, env, log.writers)
        self._start_thread(log.run)
        if self._watchdog is not None:
            self._start_thread(self._watchdog.watch)
        return child

    def _finish(self, code: int) -> int:
        """Kill the worker. Returns the exit code."""
        if self._worker is not None and not worker.kill(self._worker):
            say("a process of the worker cannot be killed; ending without it")
        self._drain(code)
        if code and self._log is not None:
            write_message(self._settings.message_path, self._log.last_lines())
        return code

    def _drain(self, code: int) -> int:
        """Pass on what the worker has printed. Returns `code`."""
        if self._watchdog is not None:
            self._watchdog.stop()
        if self._log is not None:
            self._log.drain(DRAIN_SECONDS)
        return code

    def _start_thread(self, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException:  # noqa: BLE001 - an agent without one of its threads must not sit there for ever
                say(f"this is a bug, please report it:\n{traceback.format_exc()}")
                self._events.put(ThreadFailed())

        # A thread inherits blocked signals: only the main thread can handle signals.
        blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
        return thread


def main() -> None:
    """Run the agent and end the process."""
    first_argument, *command = sys.argv[1:] or ["--"]
    if first_argument != "--" or (sys.argv[1:] and not command):
        wants_help = not command and first_argument in {"--help", "-h"}
        (sys.stdout if wants_help else sys.stderr).write(HELP)
        sys.exit(0 if wants_help else 2)
    try:
        agent = Agent(read_settings(os.environ, command))
    except SettingsError as error:
        for line in str(error).splitlines():
            say(line)
        sys.exit(1)
    code = agent.run()
    sys.stderr.flush()
    os._exit(code)  # threads wait on sockets; neither they nor the interpreter have anything to clean up
