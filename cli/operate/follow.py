"""Follows the logs of a JobSet's pods for `jobset logs -f`, also of new attempts, until the JobSet has ended.

An attempt is the time between two restarts of the JobSet. A `Log` is that of one container. A run of a container ends
when the kubelet restarts the container. Two watches report changes of the pods and the JobSet as events: `Init` begins
a list of all objects, `InitDone` ends the list, and `Apply` and `Delete` are about one object.
"""

import asyncio
import re
from collections import Counter
from typing import Any, TextIO

import msgspec

from api.jobset import JobSet
from cli import session
from cli.messages import printable
from cli.operate.unread import unread_log, unread_log_messages
from cli.operate.wait import raise_refusal, watch_jobset
from cli.terminal import program_line_writer
from jobset_client.log_order import Log, LogPod, log_pod, logs, newest_attempt, selector
from jobset_client.states import end_summary
from jobset_client.words import count_noun
from kube.errors import ApiError, Forbidden, KubeError, Unauthorized
from kube.model.meta import Base
from kube.reflector import Target, watch
from kube.resources import PODS
from kube.watcher import Apply, Delete, Event, Init, InitDone

MAX_FOLLOWED = 100
"""At most this many logs are followed at once. For each log, the API server has an open connection to a kubelet."""
MAX_LINE_BYTES = 256 << 10
"""Bytes after which a line is broken."""
IDLE_SECONDS = 600.0
"""Seconds without a line after which a log is requested again, in case its connection is dead."""
RETRY_PAUSE = 1.0
"""Seconds until a log is requested again if its container still runs."""
DRAIN_SECONDS = 30.0
"""Seconds for which logs are read after the JobSet has ended and no log has ended, since its pods may still write."""
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d)) ", re.ASCII)
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
        self._write_line = program_line_writer(out)
        self._pods: dict[str, LogPod] = {}
        self._listed_pod_names: set[str] | None = set()  # pods of the unfinished list; None after `InitDone`
        self._attempt = -1  # before the first pod
        self._has_jobset_ended = bool(end_summary(js))
        self._is_jobset_listed = True  # whether the last list has the JobSet
        self._state_changed = asyncio.Event()
        self._tasks_by_log: dict[tuple[str, ...], asyncio.Task[None]] = {}
        self._last_timestamp_by_log: dict[tuple[str, ...], str] = {}
        self._finished_runs: set[tuple[str, ...]] = set()
        self._reported_logs: set[tuple[str, ...]] = set()
        self._unreadable_counts: Counter[str] = Counter()
        self._waiting_log_count = 0  # logs that are followed later, because of `MAX_FOLLOWED`
        self._has_written = False

    async def run(self, job: str) -> int:
        """Follow until the JobSet has ended or was deleted. Returns the exit code. `job`: empty for all Jobs."""
        labels = selector(self._js, job)
        pods = Target(PODS, _Pod, namespace=self._connection.namespace, label_selector=labels, streaming=False)
        try:
            async with asyncio.TaskGroup() as group:
                watches = [
                    group.create_task(watch(self._connection.client, pods, self._on_pod_event, on_error=raise_refusal)),
                    group.create_task(watch_jobset(self._connection, self._js, self._on_jobset_event)),
                ]
                await self._follow_until_end(group)
                for task in (*watches, *self._tasks_by_log.values()):
                    task.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return session.DONE if self._has_written else session.FAILED

    async def _follow_until_end(self, group: asyncio.TaskGroup) -> None:
        while not self._has_jobset_ended or self._listed_pod_names is not None:
            await self._state_changed.wait()
            self._state_changed.clear()
            if self._listed_pod_names is None:
                self._follow_started_logs(group)
        while True:
            self._follow_started_logs(group)
            if not (running_tasks := list(self._tasks_by_log.values())):
                return
            finished, _ = await asyncio.wait(running_tasks, timeout=DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not finished:
                self._err.write(f"jobset logs: pods still write {DRAIN_SECONDS:g} s after the end; this is not shown\n")
                return

    def _follow_started_logs(self, group: asyncio.TaskGroup) -> None:
        """Follow logs of the latest attempt: those of started containers that are not followed yet."""
        attempt = newest_attempt(self._pods.values())
        if self._attempt >= 0 and attempt > self._attempt:
            self._err.write(f"jobset logs: attempt {attempt} begins\n")
        is_first, self._attempt = self._attempt < 0, max(attempt, self._attempt)
        pods_of_attempt = [pod for pod in self._pods.values() if pod.attempt == self._attempt]
        started_logs = [log for log in logs(pods_of_attempt, self._container) if not log.wait_reason]
        self._tasks_by_log = {log_key: task for log_key, task in self._tasks_by_log.items() if not task.done()}
        waiting_log_count, tail = 0, self._tail if is_first else -1
        for log in started_logs:
            log_key = _log_key(log)
            if log_key in self._tasks_by_log or _run_key(log) in self._finished_runs:
                continue
            if len(self._tasks_by_log) >= MAX_FOLLOWED:
                waiting_log_count += 1
                continue
            self._tasks_by_log[log_key] = group.create_task(self._follow(log, tail))
        if waiting_log_count > self._waiting_log_count:
            self._err.write(
                f"jobset logs: {count_noun(waiting_log_count, 'more log')}, followed when others have ended:"
                " --job JOB follows those of one Job\n"
            )
        self._waiting_log_count = waiting_log_count

    async def _follow(self, log: Log, tail: int) -> None:
        """Write the lines of one log until its container has ended or its pod is gone."""
        while True:
            log_before = self._current_log(log)
            try:
                await self._write_new_lines(log, tail)
            except (Forbidden, Unauthorized):
                raise
            except ApiError as error:
                if error.code == 404 or log_before is None:
                    break
                self._report_unreadable(log, error)
            except KubeError:
                pass  # the connection broke, or the log was silent for `IDLE_SECONDS`
            log_after = self._current_log(log)
            if (
                log_after is None
                or (log_after.has_ended and log_before is not None and log_before.has_ended)
                or log_after.run != log.run
            ):
                break
            tail = -1
            await asyncio.sleep(RETRY_PAUSE)
        self._finished_runs.add(_run_key(log))
        self._state_changed.set()

    def _report_unreadable(self, log: Log, error: ApiError) -> None:
        """Report why a log cannot be read, unless lines of it were written. Logs with the same cause share a report."""
        log_key = _log_key(log)
        if log_key in self._last_timestamp_by_log or log_key in self._reported_logs:
            return
        self._reported_logs.add(log_key)
        unreadable_log = unread_log(log.prefix, error.message or error.reason)
        self._unreadable_counts[unreadable_log.cause] += 1
        if self._unreadable_counts[unreadable_log.cause] == 1:
            self._err.writelines(f"{printable(line)}\n" for line in unread_log_messages([unreadable_log]))
        elif self._unreadable_counts[unreadable_log.cause] == 2:
            self._err.write("jobset logs: others have no log for the same reason\n")

    async def _write_new_lines(self, log: Log, tail: int) -> None:
        """Write new lines of the log as long as the API server sends them."""
        log_key = _log_key(log)
        last_timestamp = self._last_timestamp_by_log.get(log_key, "")
        query = [("container", log.container), ("follow", "true"), ("timestamps", "true")]
        if last_timestamp:
            query.append(("sinceTime", last_timestamp[:19] + last_timestamp[29:]))
        elif tail >= 0:
            query.append(("tailLines", str(tail)))
        is_repeated = False
        path = PODS.path(self._connection.namespace, log.pod, "log")
        async with self._connection.client.log(
            path, tuple(query), idle=IDLE_SECONDS, break_after=MAX_LINE_BYTES
        ) as lines:
            async for line in lines:
                text = line.decode("utf-8", "replace")
                if timestamp := _TIMESTAMP.match(text):
                    text = text[timestamp.end() :]
                    is_repeated = timestamp[1] <= last_timestamp
                if is_repeated:
                    continue
                if timestamp:
                    self._last_timestamp_by_log[log_key] = timestamp[1]
                self._has_written = True
                self._write_line(log.prefix, text)
                self._out.flush()

    def _current_log(self, log: Log) -> Log | None:
        """The log with the present state of its pod; None if the pod is gone."""
        pod = self._pods.get(log.pod)
        if pod is None or pod.uid != log.run[0]:
            return None
        return next(iter(logs([pod], log.container)), None)

    def _on_pod_event(self, event: Event) -> None:
        match event:
            case Init():
                self._listed_pod_names = set()
            case Apply(_Pod() as pod):
                self._pods[pod.metadata.name] = log_pod(msgspec.to_builtins(pod.metadata), pod.status)
                if self._listed_pod_names is not None:
                    self._listed_pod_names.add(pod.metadata.name)
            case Delete(_Pod() as pod):
                self._pods.pop(pod.metadata.name, None)
            case InitDone():
                listed, self._listed_pod_names = self._listed_pod_names, None
                for name in self._pods.keys() - (listed or ()):
                    del self._pods[name]
            case _:
                return
        self._state_changed.set()

    def _on_jobset_event(self, event: Event) -> None:
        match event:
            case Init():
                self._is_jobset_listed = False
            case Apply(JobSet() as js):
                self._is_jobset_listed = js.metadata.uid == self._js.metadata.uid
                self._has_jobset_ended = self._has_jobset_ended or not self._is_jobset_listed or bool(end_summary(js))
            case Delete():
                self._has_jobset_ended = True
            case InitDone():
                self._has_jobset_ended = self._has_jobset_ended or not self._is_jobset_listed
            case _:
                return
        self._state_changed.set()


def _log_key(log: Log) -> tuple[str, ...]:
    """A key that is the same for all runs of a container: the name and UID of the pod, and the container."""
    return (log.pod, log.run[0], log.container)


def _run_key(log: Log) -> tuple[str, ...]:
    """A key of one run of a container: the key of the log, and the number of restarts before the run."""
    return (*_log_key(log), str(log.run[1]))
