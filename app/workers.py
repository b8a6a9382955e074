"""Workers: additional processes that serve admission on the manager's port (setting `webhook.workers`).

The manager forks the workers before it has an event loop or a thread, so that they share the memory of the program. A
worker serves only webhooks, and has its own client, caches and certificates. A socket pair, the channel, connects it to
the manager. The worker reports its answers, the manager sends commands of one byte, and each side notices when the
other side ends.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from app.heap import freeze
from app.manager.supervisor import DEFAULT
from policy.kinds import PolicyId
from webhooks.metrics import PolicyMetrics, WebhookMetrics

log = logging.getLogger(__name__)

REPORT_EVERY = 1.0
"""Seconds between two reports of a worker. A report also shows that the worker is alive."""

REPORT_TIMEOUT = 60.0
"""Seconds without a report after which a worker counts as hanging."""

STOP = b"s"
"""The command that makes a worker finish its requests and stop. A worker whose channel just closes ends at once.

The other commands are a level of `logging`, as a byte with this number, and the letters of `app.debug.pages.COMMANDS`.
"""

EXIT_TIMEOUT = DEFAULT.shutdown_delay + DEFAULT.drain + DEFAULT.flush
"""Seconds that workers have after the end of the manager to finish their requests, or to log why they cannot start."""

MAX_ANSWERS = 100_000
"""Largest number of answers in one report. Further answers are not counted."""

MAX_DECISIONS = 10_000
"""Largest number of different decisions of policies in one report. Further decisions are not counted."""

MAX_USED_EXCEPTIONS = 1_000
"""Largest number of different exceptions in one report. Further exceptions are reported when they are used again."""

MAX_REPORT = 16 * 2**20
"""Largest number of bytes of one report, enough for the limits of answers, decisions and exceptions."""


class WorkerError(Exception):
    """A worker cannot start, has ended or hangs. The text is one line."""


class _PathCounts(msgspec.Struct, array_like=True):
    """The counts of one path since the last report.

    `started`: number of requests. `finished`: code and seconds of each answer. `refused`: refused objects by rule.
    """

    started: int = 0
    finished: list[tuple[int, float]] = []
    refused: dict[str, int] = {}

    def count(self, path: str, metrics: WebhookMetrics) -> None:
        """Add the counts to the manager's own metrics."""
        for _ in range(self.started):
            metrics.on_start(path)
        for rule, times in self.refused.items():
            for _ in range(times):
                metrics.on_refusal(path, rule)
        for code, seconds in self.finished:
            metrics.on_finish(path, code, seconds)


class ReportedMetrics(WebhookMetrics, PolicyMetrics, Protocol):
    """The metrics of the manager, to which the reports of its workers are added."""


class _Report(msgspec.Struct, array_like=True):
    """A report of a worker: the counts of each path, the page that a command has requested, and counts about policies.

    `decisions`: policy, rule, action and count. `used_exceptions`: namespace, name and UID of each exception.
    """

    paths: dict[str, _PathCounts]
    command: str = ""
    page: str = ""
    decisions: list[tuple[PolicyId, str, str, int]] = []
    used_exceptions: list[tuple[str, str, str]] = []


_decoder = msgspec.json.Decoder(_Report)


class Records:
    """The `ReportedMetrics` of a worker, which keep counts until they are reported to the manager."""

    def __init__(self) -> None:
        self._decisions: Counter[tuple[PolicyId, str, str]] = Counter()
        self._used_exceptions: set[tuple[str, str, str]] = set()
        self._paths: dict[str, _PathCounts] = defaultdict(_PathCounts)
        self._answers = 0
        self._page = ("", "")
        self._page_ready = asyncio.Event()

    def on_start(self, path: str) -> None:
        self._paths[path].started += 1

    def on_refusal(self, path: str, rule: str) -> None:
        rules = self._paths[path].refused
        rules[rule] = rules.get(rule, 0) + 1

    def on_finish(self, path: str, code: int, seconds: float) -> None:
        if self._answers < MAX_ANSWERS:
            self._answers += 1
            self._paths[path].finished.append((code, seconds))

    def count_decision(self, policy: PolicyId, rule: str, action: str, count: int = 1) -> None:
        decision = policy, rule, action
        if decision in self._decisions or len(self._decisions) < MAX_DECISIONS:
            self._decisions[decision] += count

    def record_exception_use(self, namespace: str, name: str, uid: str) -> None:
        if len(self._used_exceptions) < MAX_USED_EXCEPTIONS:
            self._used_exceptions.add((namespace, name, uid))

    def answer(self, command: bytes, page: str) -> None:
        """Report at once, with the page that `command` requests."""
        self._page = command.decode(), page
        self._page_ready.set()

    def report(self) -> bytes:
        """A report as one line of JSON, with the counts since the last report."""
        decisions = [(*decision, count) for decision, count in self._decisions.items()]
        report = _Report(self._paths, *self._page, decisions, sorted(self._used_exceptions))
        self._paths, self._answers, self._page, self._decisions = defaultdict(_PathCounts), 0, ("", ""), Counter()
        self._used_exceptions = set()
        self._page_ready.clear()
        return msgspec.json.encode(report) + b"\n"

    async def send(self, writer: asyncio.StreamWriter, *, every: float = REPORT_EVERY) -> None:
        """Send a report every `every` seconds for as long as the manager listens."""
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(self.report())
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(every):
                        await self._page_ready.wait()


@dataclass(slots=True)
class Worker:
    """The manager's side of one worker."""

    pid: int
    channel: socket.socket
    _writer: asyncio.StreamWriter | None = field(default=None, init=False)
    _is_stopping: bool = field(default=False, init=False)
    _page_waiters: dict[str, asyncio.Future[str]] = field(default_factory=dict, init=False)

    async def watch(self, metrics: ReportedMetrics, *, timeout: float = REPORT_TIMEOUT) -> None:
        """Count the worker's answers until the worker has stopped.

        Raises `WorkerError` if the worker ends without `stop`, or does not report for `timeout` seconds.
        """
        reader, self._writer = await asyncio.open_connection(sock=self.channel, limit=MAX_REPORT)
        try:
            if self._is_stopping:
                self._writer.write(STOP)
            while line := await self._read_line(reader, timeout):
                self._count_report(_decoder.decode(line), metrics)
        except TimeoutError:
            raise WorkerError(f"admission worker {self.pid} hangs: no report from it for {timeout:g} s") from None
        except ConnectionError:
            pass  # the worker ended before it read the command
        finally:
            if not (self._is_stopping or self._writer.is_closing()):
                self._writer.write(STOP)  # the manager fails, but the worker still answers pending requests
            self._writer.close()
        if not self._is_stopping:
            raise WorkerError(f"admission worker {self.pid} ended: its last log lines are above")

    @staticmethod
    async def _read_line(reader: asyncio.StreamReader, timeout: float) -> bytes:
        # Up to Python 3.11, `asyncio.wait_for` ignores a cancellation that comes together with a line.
        async with asyncio.timeout(timeout):
            return await reader.readline()

    def _count_report(self, report: _Report, metrics: ReportedMetrics) -> None:
        waiter = self._page_waiters.pop(report.command, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(report.page)
        for path, path_counts in report.paths.items():
            path_counts.count(path, metrics)
        for policy, rule, action, count in report.decisions:
            metrics.count_decision(policy, rule, action, count)
        for namespace, name, uid in report.used_exceptions:
            metrics.record_exception_use(namespace, name, uid)

    def release(self) -> None:
        """Close the channel without an event loop."""
        with contextlib.suppress(OSError):
            if self._writer is None:
                self.channel.send(STOP)
            self.channel.close()

    def stop(self) -> None:
        """Make the worker finish its requests and end."""
        self._is_stopping = True
        self._send(STOP)

    def set_level(self, level: int) -> None:
        """Make the worker log at this level of `logging` and above."""
        self._send(bytes([level]))

    async def page(self, command: bytes) -> str:
        """The worker's answer to one of `app.debug.pages.COMMANDS`. Ask for one page at a time."""
        page: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._page_waiters[command.decode()] = page
        self._send(command)
        return await page

    def _send(self, command: bytes) -> None:
        """Send a command. Does nothing before `watch` and after the end of the worker."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(command)


@contextlib.contextmanager
def fork_workers(count: int, work: Callable[[socket.socket], None]) -> Iterator[list[Worker]]:
    """Fork `count` processes, each of which calls `work` with its end of the channel. All processes end with the block.

    A `WorkerError` that `work` raises is printed as one line.
    """
    freeze()  # a garbage collection would write to every page, and a page that is written to is no longer shared
    workers: list[Worker] = []
    try:
        for _ in range(count):
            workers.append(_fork(work, [worker.channel for worker in workers]))
        yield workers
    finally:
        for worker in workers:
            worker.release()
        deadline = time.monotonic() + EXIT_TIMEOUT
        for worker in workers:
            _reap(worker.pid, deadline)


def _fork(work: Callable[[socket.socket], None], inherited: list[socket.socket]) -> Worker:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return Worker(pid, ours)
    code = 1
    try:
        # The manager handles signals and stops its workers. A worker notices the end of the manager only after it has
        # closed its copies of the manager's ends of all channels.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        for channel in (ours, *inherited):
            channel.close()
        work(theirs)
        code = 0
    except WorkerError as error:
        sys.stderr.write(f"jobset manager: admission worker {os.getpid()}: {error}\n")
        sys.stderr.flush()
    except Exception:
        log.exception("admission worker failed")
    finally:
        os._exit(code)


def _reap(pid: int, deadline: float) -> None:
    """Wait for the end of a process until `deadline` (`time.monotonic`), then kill it."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(0.005)
