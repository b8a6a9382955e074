"""The worker loop: a worker takes a request from the queue, reconciles it, and queues it again if needed (`settle`).

A bug in one reconcile is counted, logged and retried, and never ends the process: the loop catches every Exception.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from kube.calls import counting
from kube.controller_metrics import ControllerMetrics
from kube.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    leaves,
    missing_right,
    retry_after,
)
from kube.interruptions import CLUSTER_ROLES, LOG_EVERY
from kube.log_fields import log_fields
from kube.workqueue import WorkQueue

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

RECONCILE_TIMEOUT = 300.0
"""Seconds that one reconcile may take. Only a reconcile that hangs takes as long."""


class Request(NamedTuple):
    """The object to reconcile. It has no reason, since a reconcile reads the whole state."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a reconcile without an error. `requeue_after`: seconds until the next one, at `priority`."""

    requeue_after: float | None = None
    priority: int = 0


Reconcile = Callable[[K], Awaitable[Result | None]]


def settle(queue: WorkQueue[K], request: K, outcome: Result | Exception) -> str:
    """Queue the request again, or forget its failures. Returns the `result` label of the metric.

    - error that a retry may resolve: queue after a back-off, at least as long as the server asked for
    - the namespace is being deleted: forget; no error
    - terminal error: forget; the next change of the object queues it
    - requeue_after: forget, and queue after that time
    - success: forget
    """
    if isinstance(outcome, Exception) and not says_namespace_ends(outcome):
        if is_terminal(outcome):
            queue.forget(request)
        else:
            queue.add_rate_limited(request, at_least=retry_after(outcome) or 0.0)
        return "error"
    queue.forget(request)
    if isinstance(outcome, Result) and outcome.requeue_after is not None:
        queue.add_after(request, outcome.requeue_after, outcome.priority)
        return "requeue_after"
    return "success"


def is_terminal(error: BaseException) -> bool:
    """Whether a retry cannot help until the object changes. A group of errors is terminal if all its errors are.

    422 is retried: a write that was planned with a stale cache gets "field is immutable", and the next plan differs.
    400 is retried, since the API server answers with it if a webhook denies a request without a code, and policies
    change. A namespace that is being deleted refuses all creations permanently.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(is_terminal(inner) for inner in error.exceptions)
    if isinstance(error, BadRequest):
        return error.code != 400
    return isinstance(error, Forbidden) and error.namespace_ends


def says_namespace_ends(error: BaseException) -> bool:
    """Whether the only errors are that the namespace is being deleted, and that some of its objects are gone."""
    errors = leaves(error)
    says_end = [isinstance(each, ApiError) and each.namespace_ends for each in errors]
    return any(says_end) and all(end or isinstance(each, NotFound) for each, end in zip(errors, says_end, strict=True))


def is_expected(error: BaseException) -> bool:
    """Whether the error is one that `kube` raises on purpose or a timeout, and not a bug."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_expected(inner) for inner in error.exceptions)
    return isinstance(error, KubeError | TimeoutError)


class _MissingRights:
    """Log messages about missing rights, with the remedy: each at most once a minute."""

    def __init__(self) -> None:
        self._log_again_at: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}

    def message(self, errors: list[BaseException], now: float) -> str | None:
        """The beginning of the log message about errors, which names the missing rights.

        It is empty if an error has another cause, and None if the same rights were logged less than a minute ago.
        """
        rights = list(dict.fromkeys(map(missing_right, errors)))
        if "" in rights:
            return ""
        missing = ", ".join(rights)
        if now < self._log_again_at.get(missing, now):
            self._unlogged[missing] = self._unlogged.get(missing, 0) + 1
            return None
        self._log_again_at[missing] = now + LOG_EVERY
        unlogged = self._unlogged.pop(missing, 0)
        more = f" ({unlogged} more failures since this was said)" if unlogged else ""
        return f"the manager may not {missing}: {CLUSTER_ROLES}{more}: "


class Controller(Generic[K]):
    """Workers for one queue of requests of any type.

    `run` ends after `queue.shutdown()`, when the running reconciles have ended.
    """

    def __init__(
        self,
        name: str,
        queue: WorkQueue[K],
        reconcile: Reconcile[K],
        *,
        workers: int = 1,
        timeout: float = RECONCILE_TIMEOUT,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._timeout = timeout
        self._metrics = metrics or ControllerMetrics()
        self._active = 0
        self._missing_rights = _MissingRights()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name}-worker-{number}")

    async def _work(self) -> None:
        while (request := await self.queue.get()) is not None:
            self._change_active(+1)
            try:
                await self._handle(request)
            finally:
                self.queue.done(request)
                self._change_active(-1)
            # A reconcile without requests never yields: thousands in a row would block leases, probes and watches.
            await asyncio.sleep(0)

    def _change_active(self, change: int) -> None:
        self._active += change
        self._metrics.active(self._active)

    async def _handle(self, request: K) -> None:
        clock = asyncio.get_running_loop().time
        started = clock()
        outcome: Result | Exception
        with log_fields(controller=self.name, reconcileID=str(uuid.uuid4())), counting() as calls:
            try:
                async with asyncio.timeout(self._timeout):
                    outcome = await self._reconcile(request) or Result()
            except Exception as error:  # noqa: BLE001 -- the worker boundary
                outcome = error
                self._report(request, error)
        self._metrics.on_requests(calls.sent)
        self._metrics.on_reconcile(settle(self.queue, request, outcome), clock() - started)

    def _report(self, request: K, error: Exception) -> None:
        if says_namespace_ends(error):
            log.info(
                "%s %s: the namespace is being deleted, nothing is created: %s", self.name, request, _error_line(error)
            )
            return
        self._metrics.on_failure()
        if isinstance(error, Conflict):
            log.info("%s %s: conflict, trying again: %s", self.name, request, error)
        elif is_terminal(error):
            self._metrics.on_terminal_failure()
            log.error("%s %s: not tried again until it changes: %s", self.name, request, _error_line(error))
        elif is_expected(error):
            message = self._missing_rights.message(leaves(error), asyncio.get_running_loop().time())
            if message is not None:
                log.warning("%s %s: failed, trying again: %s%s", self.name, request, message, _error_line(error))
        else:
            self._metrics.on_panic()
            log.error("%s %s: unexpected error", self.name, request, exc_info=error)


def _error_line(error: Exception) -> str:
    """An error as one line of the log; for a group, its message and its first error."""
    return f"{error.message}, first: {leaves(error)[0]}" if isinstance(error, ExceptionGroup) else str(error)
