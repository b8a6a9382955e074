"""The recorder of Events (events.k8s.io/v1), which never slows or fails a reconcile.

`record` is synchronous and only queues; `run` writes. Repetitions become one Event with a series
(docs/reference/events.md). Occurrences of a series may differ in the note and in the resourceVersion of the object, so
the same problem of a changing object stays one Event. The second occurrence is written at once, later occurrences every
half hour and when the series ends. Callers never get an exception.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import msgspec

from kube import clock
from kube.client import Client
from kube.errors import AlreadyExists, ApiError, KubeError, NotFound, ServerError, TooManyRequests, TransportError
from kube.resources import EVENTS
from kube.watcher import MAX_RETRY_AFTER

log = logging.getLogger(__name__)

ACTION = "Reconciling"
"""The `action` of every Event."""

NOTE_LIMIT = 1024
"""The most bytes of a note that the API server accepts."""

QUEUE_LIMIT = 1000
"""The most Events that wait to be written. Further Events are dropped and counted."""

SERIES_LIMIT = 2000
"""Series remembered at once; one more ends the oldest series early."""

SERIES_IDLE = 360.0
"""A series ends this many seconds after its last occurrence."""

SERIES_FLUSH = 1800.0
"""Seconds between writes of a series that continues."""

SWEEP_PERIOD = 30.0
"""Seconds between checks for series to write or end."""

ATTEMPTS = 12
RETRY_PERIOD = 10.0
"""Attempts to write one Event, and seconds between them: two minutes without an API server."""

WRITERS = 4
"""Events written at the same time, so that retries of one Event do not delay all further Events."""


class Reference(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """core/v1 ObjectReference: what an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    def key(self) -> tuple[str, ...]:
        """Identity of the object, the same for all its revisions."""
        return self.api_version, self.kind, self.namespace, self.name, self.uid


class Recorder(Protocol):
    """Records Events without waiting. `distinct`: an occurrence with another note is another Event."""

    def record(
        self, regarding: Reference, event_type: str, reason: str, note: str, /, *, distinct: bool = False
    ) -> None: ...


@dataclass(slots=True)
class _Series:
    """One Event object, and its occurrences since it was last written. Times are loop seconds unless datetime.

    Remembered: events that may be repeated, by object and reason, for 6 minutes after the last occurrence; at most
    2,000. Without this memory the next repetition is an Event of its own instead of a count.
    """

    body: dict[str, object]
    name: str
    namespace: str
    count: int
    last_occurrence: datetime
    last_seen: float
    flushed_at: float
    written_count: int = 0
    is_queued: bool = False
    """Whether the series waits or is being written, so that no second writer takes it."""


def truncate(note: str) -> str:
    """The note, cut between characters with an ellipsis if it has more than `NOTE_LIMIT` bytes of UTF-8."""
    data = note.encode(errors="replace")
    if len(data) <= NOTE_LIMIT:
        return data.decode()
    return data[: NOTE_LIMIT - len("…".encode())].decode(errors="ignore") + "…"


class EventRecorder:
    """Records Events. `reporting_instance` names this replica, for example `jobset-<hostname>`."""

    def __init__(self, client: Client, *, reporting_controller: str, reporting_instance: str) -> None:
        self._client = client
        self._controller = reporting_controller
        self._instance = reporting_instance[:128]
        self._last_nanos = 0
        self._series: dict[tuple[object, ...], _Series] = {}
        self._queue: asyncio.Queue[_Series] = asyncio.Queue(QUEUE_LIMIT)
        self._flushing = False
        self.dropped = 0
        """How often an Event was not written: the queue was full, the API server refused it, or all attempts failed."""

    def record(self, regarding: Reference, type: str, reason: str, note: str, *, distinct: bool = False) -> None:  # noqa: A002 -- the field's name
        """Remember one occurrence. `type` is Normal or Warning; the note is text, never a format string.

        `distinct`: an occurrence with another note is another Event, for notes that name different objects in turn.
        """
        now = asyncio.get_running_loop().time()
        key = (type, reason, note if distinct else "", regarding.key())
        series = self._series.get(key)
        if series is not None and now - series.last_seen < SERIES_IDLE:
            series.count += 1
            series.last_occurrence, series.last_seen = clock.now(), now
            if series.count == 2:
                self._enqueue(series)
            return
        if series is not None:
            self._end_series(key, series)
        fields: dict[str, object] = {"type": type, "reason": reason, "action": ACTION, "note": truncate(note)}
        series = self._new_series(regarding, now, fields)
        if self._enqueue(series):
            self._series[key] = series
            if len(self._series) > SERIES_LIMIT:
                oldest = next(iter(self._series))
                self._end_series(oldest, self._series[oldest])

    async def run(self) -> None:
        """Write until cancelled. Call `flush` first on a clean stop."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sweep(), name="events-sweep")
            for number in range(WRITERS):
                group.create_task(self._write_all(), name=f"events-writer-{number}")

    async def flush(self, timeout: float) -> None:
        """Write all queued Events and the counts of open series; give up after `timeout` seconds."""
        self._flushing = True
        for series in self._series.values():
            if series.count > series.written_count:
                self._enqueue(series)
        try:
            async with asyncio.timeout(timeout):
                await self._queue.join()
        except TimeoutError:
            log.warning("%d events were not written before the stop", self._queue.qsize())

    def _new_series(self, regarding: Reference, now: float, fields: dict[str, object]) -> _Series:
        self._last_nanos = max(time.time_ns(), self._last_nanos + 1)
        suffix = f".{self._last_nanos:x}"
        name = regarding.name[: 253 - len(suffix)].rstrip(".-") + suffix
        namespace = regarding.namespace or "default"
        moment = clock.now()
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": clock.micro_time(moment),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "regarding": msgspec.to_builtins(regarding),
            **fields,
        }
        return _Series(body, name, namespace, 1, moment, now, now)

    def _enqueue(self, series: _Series) -> bool:
        if series.is_queued:
            return True
        try:
            self._queue.put_nowait(series)
        except asyncio.QueueFull:
            self.dropped += 1
            return False
        series.is_queued = True
        return True

    def _end_series(self, key: tuple[object, ...], series: _Series) -> None:
        del self._series[key]
        if series.count > series.written_count:
            self._enqueue(series)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_PERIOD)
            now = asyncio.get_running_loop().time()
            for key, series in list(self._series.items()):
                if now - series.last_seen >= SERIES_IDLE:
                    self._end_series(key, series)
                elif now - series.flushed_at >= SERIES_FLUSH and series.count > series.written_count:
                    self._enqueue(series)

    async def _write_all(self) -> None:
        while True:
            series = await self._queue.get()
            try:
                await self._write(series)
            finally:
                series.is_queued = False
                if series.count > series.written_count > 0 and (series.written_count == 1 or self._flushing):
                    self._enqueue(series)
                self._queue.task_done()

    async def _write(self, series: _Series) -> None:
        """Write a series, with retries. A refused Event is dropped, since it would be refused again."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._send(series)
            except (TransportError, ServerError, TooManyRequests) as error:
                if attempt == ATTEMPTS:
                    self._drop(series, error)
                    return
                wait = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
                await asyncio.sleep(min(max(wait, RETRY_PERIOD), MAX_RETRY_AFTER))
            except KubeError as error:
                self._drop(series, error)
                return
            else:
                series.flushed_at = asyncio.get_running_loop().time()
                return

    def _drop(self, series: _Series, error: KubeError) -> None:
        self.dropped += 1
        level = logging.DEBUG if isinstance(error, ApiError) and error.namespace_ends else logging.WARNING
        log.log(level, "event %s/%s (%s) dropped: %s", series.namespace, series.name, series.body["reason"], error)

    async def _send(self, series: _Series) -> None:
        """Create the Event or patch its series. An Event that has expired is created again."""
        count = series.count
        if series.written_count == 0:
            try:
                await self._create(series, count)
            except AlreadyExists:
                log.debug("event %s was created by a try whose answer was lost", series.name)
                count = 1
        else:
            patch = {"series": _series_fields(series, count)}
            try:
                await self._client.patch(EVENTS, series.name, patch, namespace=series.namespace)
            except NotFound:
                await self._create(series, count)
        series.written_count = count

    async def _create(self, series: _Series, count: int) -> None:
        body = series.body if count == 1 else {**series.body, "series": _series_fields(series, count)}
        await self._client.create(EVENTS, body, namespace=series.namespace)


def _series_fields(series: _Series, count: int) -> dict[str, object]:
    return {"count": count, "lastObservedTime": clock.micro_time(series.last_occurrence)}
