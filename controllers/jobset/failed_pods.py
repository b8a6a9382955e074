"""Looks up the failed pods of failed Jobs: the answer to a plan's `FailedPodQuery`.

An answer that a decision needs is waited for, and an error is raised: the reconcile is tried again. Any other answer
neither delays nor fails a restart: if it is late, the history has fewer details.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime, timedelta

from api import keys
from api.owners import owning_job
from api.pending import clean_words
from api.pod import DetailedPod, PodMeta
from api.selectors import one_of
from api.termination import end_of_message
from controllers.planning.actions import FailedPodQuery
from controllers.planning.child_jobs import integer
from controllers.planning.observed import Ended, FailedPod, FailedPodsByJob
from kube.client import Client
from kube.clock import rfc3339
from kube.errors import KubeError
from kube.options import ListOptions
from kube.resources import PODS

log = logging.getLogger(__name__)

ANSWER_TIMEOUT = 2.0
"""Seconds for an answer that is not needed: a restart waits for it."""

MAX_PODS = 100
"""Failed pods that are listed for an answer that is not needed; of `JOBS_AT_ONCE` Jobs at most."""

JOBS_AT_ONCE = 50
"""Jobs of one call: their UIDs are in its URL."""

LONGEST_WHY = 200
"""Characters of a kubelet's message about the end of a pod or container."""

PAGE = 500
"""Failed pods of a page of an answer that is needed. All pages are read: the plan keeps few of the pods."""

Keep = Callable[[str, Sequence[FailedPod]], Sequence[FailedPod]]
"""Takes the UID of a Job and failed pods of it, returns those to keep.

Called after each page with the pods kept so far and those of the page (`planning.decisive_pod.candidates_of`).
"""


async def list_failed_pods(
    client: Client, namespace: str, pod_query: FailedPodQuery, keep: Keep, *, page: int = PAGE
) -> FailedPodsByJob:
    """The answer to a plan's query: each Job that it names, with the failed pods that may decide.

    If the answer is needed, all failed pods are read, in pages of `page`, and errors of the client are raised.
    """
    pods_by_job: dict[str, tuple[FailedPod, ...]] = {uid: () for _, uid in pod_query.jobs}
    try:
        async for pods in _pages(client, namespace, pod_query, page):
            for uid, new in _by_job(pods).items():
                if uid in pods_by_job:
                    pods_by_job[uid] = tuple(keep(uid, (*pods_by_job[uid], *new)))
    except (KubeError, TimeoutError) as error:
        if pod_query.needed:
            raise
        log.info("pods of Job %s/%s are not known: %s", namespace, pod_query.jobs[0][0], error)
    return pods_by_job


async def _pages(
    client: Client, namespace: str, pod_query: FailedPodQuery, page: int
) -> AsyncIterator[Iterable[DetailedPod]]:
    """The failed pods of a query, page by page; one page only if the answer is not needed."""
    for start in range(0, len(pod_query.jobs), JOBS_AT_ONCE):
        options: ListOptions = {
            "namespace": namespace,
            "label_selector": one_of(keys.JOB_UID, [uid for _, uid in pod_query.jobs[start : start + JOBS_AT_ONCE]]),
            "field_selector": "status.phase=Failed",
            "limit": page if pod_query.needed else MAX_PODS,
        }
        if not pod_query.needed:
            options["timeout"] = ANSWER_TIMEOUT
            yield (await client.list(PODS, type=DetailedPod, **options)).items or ()
            return
        while True:
            found = await client.list(PODS, type=DetailedPod, **options)
            yield found.items or ()
            if not found.metadata.continue_token:
                break
            options["continue_token"] = found.metadata.continue_token


def _by_job(pods: Iterable[DetailedPod]) -> dict[str, list[FailedPod]]:
    """Summaries of pods by the UID of the Job that controls them: the label by which they are listed may be forged."""
    by_job: dict[str, list[FailedPod]] = {}
    for pod in pods:
        if (owner := owning_job(pod.metadata)) is not None:
            by_job.setdefault(owner.uid, []).append(summary(pod))
    return by_job


def summary(pod: DetailedPod) -> FailedPod:
    """The part of a failed pod that decisions need.

    If no container ran, it ended when it became not ready, or when its kubelet, which refused it, first saw it.
    """
    status = pod.status
    done = [(c.name, c.state.terminated) for c in (*status.container_statuses, *status.init_container_statuses)]
    ended = [(name, end) for name, end in done if end is not None]
    not_ready = [c.since for c in status.conditions if c.type == "Ready" and c.status == "False"]
    return FailedPod(
        name=pod.metadata.name,
        node=pod.spec.node_name,
        ends=tuple(
            Ended(name, end.exit_code, end.finished_at or "", end_of_message(end.message), _reason_text(end.reason, ""))
            for name, end in ended
            if end.exit_code
        ),
        ended_at=max((end.finished_at or "" for _, end in ended), default="")
        or max(not_ready, default=status.start_time or ""),
        conditions=frozenset((c.type, c.status) for c in status.conditions),
        deleting=pod.metadata.deletion_timestamp is not None,
        index_failures=integer(pod.metadata.annotations.index_failures) or 0,
        reasons=tuple(filter(None, (status.reason, *(end.reason for _, end in ended)))),
        topology=pod.metadata.topology or "",
        domain=pod.domain,
        why=_reason_text(status.reason, status.message),
        deletion_asked=_deletion_asked(pod.metadata),
    )


def _deletion_asked(meta: PodMeta) -> str:
    """When its deletion was asked for, RFC 3339: the deletion timestamp minus the grace period; empty if unknown."""
    grace = timedelta(seconds=meta.deletion_grace_period_seconds or 0)
    try:
        return rfc3339(datetime.fromisoformat(meta.deletion_timestamp or "") - grace)
    except (ValueError, OverflowError):
        return ""


def _reason_text(reason: str, message: str) -> str:
    """`OOMKilled`, `Evicted: The node was low on resource: memory`; empty if only a failure is reported."""
    words = clean_words(message, LONGEST_WHY).rstrip(". ")
    return words if reason in {"", "Error"} else clean_words(f"{reason}: {words}" if words else reason, LONGEST_WHY)
