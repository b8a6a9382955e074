"""Follows the logs of a JobSet's pods for `jobset logs -f`, also of new attempts, until the JobSet has ended."""

import asyncio
import re
from collections import Counter
from typing import Any, TextIO

import msgspec

from api.jobset import JobSet
from app.terminal import lines_of_programs
from cli import session
from cli.messages import printable
from cli.operate.unread import reasons, unread_log
from cli.operate.wait import raise_refusal, watch_jobset
from jobset_client.log_order import Log, LogPod, log_pod, logs, newest_attempt, selector
from jobset_client.states import end_summary
from jobset_client.words import count_noun
from kube.errors import ApiError, Forbidden, KubeError, Unauthorized
from kube.model.meta import Base
from kube.reflector import Target, watch
from kube.resources import PODS
from kube.watcher import Apply, Delete, Event, Init, InitDone

MAX_FOLLOWED = 100
"""At most this many logs are followed at once. For each, the API server has an open connection to a kubelet."""
LONGEST_LINE = 256 << 10
"""Bytes after which a line is broken."""
IDLE_SECONDS = 600.0
"""Seconds without a line after which a log is requested again, in case its connection is dead."""
RETRY_PAUSE = 1.0
"""Seconds until a log is requested again if its container still runs."""
LAST_SECONDS = 30.0
"""Seconds without an ending log for which logs are read after the JobSet has ended, since its pods may still write."""
_STAMPED = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d)) ", re.ASCII)
"""The timestamp at the start of a line. Further parts of a broken line have no timestamp."""


class _Meta(Base, frozen=True, kw_only=True):
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class _Pod(Base, frozen=True, kw_only=True):
    """The fields of a watched pod that are needed for its logs."""

    metadata: _Meta
    status: dict[str, Any] = {}


class Follower:
    """Follows the logs of one JobSet. `tail`: the number of earlier lines of each log; negative for all lines."""

    def __init__(
        self, connection: session.Session, js: JobSet, *, container: str, tail: int, out: TextIO, err: TextIO
    ) -> None:
        self._connection, self._js = connection, js
        self._container, self._tail = container, tail
        self._out, self._err = out, err
        self._write_line = lines_of_programs(out)
        self._pods: dict[str, LogPod] = {}
        self._listing: set[str] | None = set()
        self._attempt = -1
        self._fault: BaseException | None = None
        self._over = bool(end_summary(js))
        self._exists = True
        self._changed = asyncio.Event()
        self._tasks: dict[tuple[str, ...], asyncio.Task[None]] = {}
        self._last: dict[tuple[str, ...], str] = {}
        self._done: set[tuple[str, ...]] = set()
        self._reported: set[tuple[str, ...]] = set()
        self._causes: Counter[str] = Counter()
        self._left_out = 0
        self._shown = False

    async def run(self, job: str) -> int:
        """Follow until the JobSet has ended or was deleted. Returns the exit code. `job`: empty for all Jobs."""
        labels = selector(self._js, job)
        pods = Target(PODS, _Pod, namespace=self._connection.namespace, label_selector=labels, streaming=False)
        watches = (
            watch(self._connection.client, pods, self._pod_event, on_error=raise_refusal),
            watch_jobset(self._connection, self._js, self._set_event),
        )
        tasks = list(map(asyncio.ensure_future, watches))
        for task in tasks:
            task.add_done_callback(self._task_ended)
        try:
            await self._wait_until_over()
        finally:
            tasks += self._tasks.values()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return session.DONE if self._shown else session.FAILED

    async def _wait_until_over(self) -> None:
        while not self._over or self._listing is not None:
            await self._changed.wait()
            self._changed.clear()
            self._raise()
            if self._listing is None:
                self._start()
        while True:
            self._start()
            if not (running := list(self._tasks.values())):
                return
            finished, _ = await asyncio.wait(running, timeout=LAST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            self._raise()
            if not finished:
                self._err.write(f"jobset logs: pods still write {LAST_SECONDS:g} s after the end; this is not shown\n")
                return

    def _raise(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _start(self) -> None:
        """Follow the logs of the latest attempt whose containers have started and that are not followed yet."""
        attempt = newest_attempt(self._pods.values())
        if self._attempt >= 0 and attempt > self._attempt:
            self._err.write(f"jobset logs: attempt {attempt} begins\n")
        is_first, self._attempt = self._attempt < 0, max(attempt, self._attempt)
        pods_of_attempt = [pod for pod in self._pods.values() if pod.attempt == self._attempt]
        readable = [log for log in logs(pods_of_attempt, self._container) if not log.waits]
        self._tasks = {log_key: task for log_key, task in self._tasks.items() if not task.done()}
        left_out = 0
        for log in readable:
            log_key = (log.pod, log.run[0], log.container)
            if log_key in self._tasks or _run(log) in self._done:
                continue
            if len(self._tasks) >= MAX_FOLLOWED:
                left_out += 1
                continue
            task = asyncio.ensure_future(self._follow(log, log_key, tail=self._tail if is_first else -1))
            task.add_done_callback(self._task_ended)
            self._tasks[log_key] = task
        if left_out > self._left_out:
            self._err.write(
                f"jobset logs: {count_noun(left_out, 'more log')}, followed when others have ended:"
                " --job JOB follows those of one Job\n"
            )
        self._left_out = left_out

    async def _follow(self, log: Log, log_key: tuple[str, ...], *, tail: int) -> None:
        """Write the lines of one log until its container has ended or its pod is gone."""
        while True:
            before = self._now(log)
            try:
                await self._read(log, log_key, tail)
            except (Forbidden, Unauthorized) as error:
                self._fault = error
            except ApiError as error:
                if error.code == 404 or before is None:
                    break
                self._tell(log, log_key, error)
            except KubeError:
                pass  # the connection broke, or the log was silent for `IDLE_SECONDS`
            if self._fault is not None:
                break
            now = self._now(log)
            if now is None or (now.ended and before is not None and before.ended) or now.run != log.run:
                break
            tail = -1
            await asyncio.sleep(RETRY_PAUSE)
        self._done.add(_run(log))
        self._changed.set()

    def _tell(self, log: Log, log_key: tuple[str, ...], error: ApiError) -> None:
        """Report why a log cannot be read, if no line of it was written yet. Report each cause once, with one log."""
        if log_key in self._last or log_key in self._reported:
            return
        self._reported.add(log_key)
        missing = unread_log(log.prefix, error.message or error.reason)
        self._causes[missing.cause] += 1
        if self._causes[missing.cause] == 1:
            self._err.writelines(f"{printable(line)}\n" for line in reasons([missing]))
        elif self._causes[missing.cause] == 2:
            self._err.write("jobset logs: others have no log for the same reason\n")

    async def _read(self, log: Log, log_key: tuple[str, ...], tail: int) -> None:
        """Write new lines of the log as long as the API server sends them."""
        last = self._last.get(log_key, "")
        query = [("container", log.container), ("follow", "true"), ("timestamps", "true")]
        query += [("sinceTime", last[:19] + last[29:])] if last else [("tailLines", str(tail))] if tail >= 0 else []
        path = PODS.path(self._connection.namespace, log.pod, "log")
        async with self._connection.client.log(
            path, tuple(query), idle=IDLE_SECONDS, break_after=LONGEST_LINE
        ) as lines:
            async for line in lines:
                text = line.decode("utf-8", "replace")
                if stamp := _STAMPED.match(text):
                    text = text[stamp.end() :]
                    if last and stamp[1] <= last:
                        continue
                    self._last[log_key] = stamp[1]
                self._shown = True
                self._write_line(log.prefix, text)
                self._out.flush()

    def _now(self, log: Log) -> Log | None:
        """The log with the present state of its pod; None if the pod is gone."""
        pod = self._pods.get(log.pod)
        if pod is None or pod.uid != log.run[0]:
            return None
        return next(iter(logs([pod], log.container)), None)

    def _pod_event(self, event: Event) -> None:
        match event:
            case Init():
                self._listing = set()
            case Apply(_Pod() as pod):
                self._pods[pod.metadata.name] = log_pod(msgspec.to_builtins(pod.metadata), pod.status)
                if self._listing is not None:
                    self._listing.add(pod.metadata.name)
            case Delete(_Pod() as pod):
                self._pods.pop(pod.metadata.name, None)
            case InitDone():
                listed, self._listing = self._listing, None
                for name in self._pods.keys() - (listed or ()):
                    del self._pods[name]
            case _:
                return
        self._changed.set()

    def _set_event(self, event: Event) -> None:
        match event:
            case Init():
                self._exists = False
            case Apply(JobSet() as js):
                self._exists = js.metadata.uid == self._js.metadata.uid
                self._over = self._over or not self._exists or bool(end_summary(js))
            case Delete():
                self._over = True
            case InitDone():
                self._over = self._over or not self._exists
            case _:
                return
        self._changed.set()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Store the error of a task, such as a closed output, which ends the command."""
        if not task.cancelled() and (fault := task.exception()):
            self._fault = fault
            self._changed.set()


def _run(log: Log) -> tuple[str, ...]:
    return (log.pod, log.run[0], log.container, str(log.run[1]))
