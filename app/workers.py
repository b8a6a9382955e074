"""The processes that serve admission on the manager's port (`webhook.workers`).

They are forked before the manager has an event loop or a thread, so that they share with it the memory of the program.
A worker is a manager with webhooks only: it has its own client, caches and certificates. A socket pair connects each to
the manager: the worker reports its answers over it, the manager sends commands, and each side sees by its end that the
other is gone.
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
"""Seconds between two reports of a worker; a report also shows that the worker is alive."""

REPORT_TIMEOUT = 60.0
"""Seconds without a report after which a worker counts as hanging."""

STOP = b"s"
"""The message that makes a worker finish its requests and stop. If the channel closes without it, the worker ends at
once.

The other commands are a level of `logging`, as the byte of that number, and the letters of `app.debug.pages.COMMANDS`.
"""

EXIT_TIMEOUT = DEFAULT.shutdown_delay + DEFAULT.drain + DEFAULT.flush
"""Seconds that workers have once the manager has ended: to finish their requests, or to say why they cannot start."""

MAX_ANSWERS = 100_000
"""Answers in one report; more are not counted."""

MAX_DECISIONS = 10_000
"""Different decisions of policies in one report; more are not counted."""

MAX_USED = 1_000
"""Different exceptions in one report; more are reported when they are used again."""

MAX_REPORT = 16 * 2**20
"""Bytes of one report: enough for that many answers and decisions."""


class WorkerError(Exception):
    """A worker cannot start, has ended or hangs; the text is one line."""


class _Path(msgspec.Struct, array_like=True):
    """What happened at one path since the last report.

    Requests begun, code and seconds of those answered, and the objects refused by rule.
    """

    started: int = 0
    finished: list[tuple[int, float]] = []
    refused: dict[str, int] = {}

    def count(self, path: str, metrics: WebhookMetrics) -> None:
        """Add it to the manager's own metrics."""
        for _ in range(self.started):
            metrics.on_start(path)
        for rule, times in self.refused.items():
            for _ in range(times):
                metrics.on_refusal(path, rule)
        for code, seconds in self.finished:
            metrics.on_finish(path, code, seconds)


class ReportedMetrics(WebhookMetrics, PolicyMetrics, Protocol):
    """The manager's metrics that its workers report to."""


class _Report(msgspec.Struct, array_like=True):
    """What happened at each path, the page that a command has asked for, and the number of each decision of policies.

    `used`: namespace, name and UID of exceptions.
    """

    paths: dict[str, _Path]
    command: str = ""
    page: str = ""
    decisions: list[tuple[PolicyId, str, str, int]] = []
    used: list[tuple[str, str, str]] = []


_decoder = msgspec.json.Decoder(_Report)


class Records:
    """`ReportedMetrics` of a worker: keeps the counts until they are reported to the manager."""

    def __init__(self) -> None:
        self._decisions: Counter[tuple[PolicyId, str, str]] = Counter()
        self._used: set[tuple[str, str, str]] = set()
        self._paths: dict[str, _Path] = defaultdict(_Path)
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

    def used(self, namespace: str, name: str, uid: str) -> None:
        if len(self._used) < MAX_USED:
            self._used.add((namespace, name, uid))

    def answer(self, command: bytes, page: str) -> None:
        """Send the page that a command has asked for with the next report, which comes at once."""
        self._page = command.decode(), page
        self._page_ready.set()

    def report(self) -> bytes:
        """One line with what happened since the last one."""
        decisions = [(*decision, count) for decision, count in self._decisions.items()]
        report = _Report(self._paths, *self._page, decisions, sorted(self._used))
        self._paths, self._answers, self._page, self._decisions = defaultdict(_Path), 0, ("", ""), Counter()
        self._used = set()
        self._page_ready.clear()
        return msgspec.json.encode(report) + b"\n"

    async def send(self, writer: asyncio.StreamWriter, *, every: float = REPORT_EVERY) -> None:
        """Report every that many seconds for as long as the manager listens."""
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(self.report())
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(every):
                        await self._page_ready.wait()


@dataclass(slots=True)
class Worker:
    """A worker as the manager sees it."""

    pid: int
    channel: socket.socket
    _writer: asyncio.StreamWriter | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)
    _pages: dict[str, asyncio.Future[str]] = field(default_factory=dict, init=False)

    async def watch(self, metrics: ReportedMetrics, *, timeout: float = REPORT_TIMEOUT) -> None:
        """Count what it answers until it has stopped.

        Raises `WorkerError` if it ends before, or does not report for `timeout` seconds.
        """
        reader, self._writer = await asyncio.open_connection(sock=self.channel, limit=MAX_REPORT)
        try:
            if self._stopped:
                self._writer.write(STOP)
            while line := await self._read_line(reader, timeout):
                self._take(_decoder.decode(line), metrics)
        except TimeoutError:
            raise WorkerError(f"admission worker {self.pid} hangs: no report from it for {timeout:g} s") from None
        except ConnectionError:
            pass  # it ended before it read the message
        finally:
            if not (self._stopped or self._writer.is_closing()):
                self._writer.write(STOP)  # the manager fails, and pending requests are still answered
            self._writer.close()
        if not self._stopped:
            raise WorkerError(f"admission worker {self.pid} ended: its last log lines are above")

    @staticmethod
    async def _read_line(reader: asyncio.StreamReader, timeout: float) -> bytes:
        """Not with `asyncio.wait_for`: up to Python 3.11 it ignores a cancellation that comes together with a line."""
        async with asyncio.timeout(timeout):
            return await reader.readline()

    def _take(self, report: _Report, metrics: ReportedMetrics) -> None:
        waiter = self._pages.pop(report.command, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(report.page)
        for path, seen in report.paths.items():
            seen.count(path, metrics)
        for policy, rule, action, count in report.decisions:
            metrics.count_decision(policy, rule, action, count)
        for namespace, name, uid in report.used:
            metrics.used(namespace, name, uid)

    def release(self) -> None:
        """Close the channel without an event loop."""
        with contextlib.suppress(OSError):
            if self._writer is None:
                self.channel.send(STOP)
            self.channel.close()

    def stop(self) -> None:
        """Make it finish its requests and end."""
        self._stopped = True
        self._send(STOP)

    def set_level(self, level: int) -> None:
        """Make it log at this level of `logging` and above."""
        self._send(bytes([level]))

    async def page(self, command: bytes) -> str:
        """The worker's answer to one of `app.debug.pages.COMMANDS`. Ask for one page at a time."""
        page: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._pages[command.decode()] = page
        self._send(command)
        return await page

    def _send(self, command: bytes) -> None:
        """Send a message; does nothing before `watch` and after the end."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(command)


@contextlib.contextmanager
def fork_workers(count: int, work: Callable[[socket.socket], None]) -> Iterator[list[Worker]]:
    """`count` processes that do `work` with their end of the channel; all end with the block.

    A `WorkerError` that `work` raises is printed as one line.
    """
    freeze()  # a collection would write to every page, and pages that are written to are not shared any more
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
        # The manager handles signals and stops its workers. A worker notices the end of the manager only if it closes
        # its copies of the manager's ends.
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
    """Wait for a process that was told to stop, until the deadline (`time.monotonic`); then kill it."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(0.005)
