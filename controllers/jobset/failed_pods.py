"""Lists the failed pods of failed Jobs, as the answer to the `FailedPodQuery` of a plan.

If a decision needs the answer, the reconcile waits for it, and an error makes the reconcile fail and run again. Other
answers are only for events and the attempt history in the status: they delay a restart by at most `ANSWER_TIMEOUT`, and
errors are logged.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime, timedelta

from api import keys
from api.owners import owning_job
from api.pending import clean_words
from api.pod import DetailedPod, PodMeta
from api.selectors import MAX_UIDS, one_of
from api.termination import end_of_message
from controllers.planning.actions import FailedPodQuery
from controllers.planning.child_jobs import integer
from controllers.planning.observed import Ended, FailedPod, FailedPodsByJob
from kube.client import PAGE_SIZE, Client
from kube.clock import rfc3339
from kube.errors import KubeError
from kube.model.field import join_names
from kube.options import ListOptions
from kube.resources import PODS

log = logging.getLogger(__name__)

ANSWER_TIMEOUT = 2.0
"""Seconds until an answer that no decision needs times out, since a restart waits for it."""

MAX_PODS = 100
"""At most this many failed pods, of at most `MAX_UIDS` Jobs, are listed for an answer that no decision needs."""

LONGEST_REASON = 200
"""At most this many characters of a kubelet's message about the end of a pod or container."""

KeepPods = Callable[[str, Sequence[FailedPod]], Sequence[FailedPod]]
"""Takes the UID of a Job and failed pods of the Job, and returns the pods by which the Job may have failed.

It is called after each page with the pods kept so far and the pods of the page (`planning.decisive_pod.candidates_of`).
"""


async def list_failed_pods(
    client: Client, namespace: str, pod_query: FailedPodQuery, keep: KeepPods, *, page_size: int = PAGE_SIZE
) -> FailedPodsByJob:
    """The failed pods that `keep` returns for each Job of the query, by UID of the Job.

    If a decision needs the answer, all failed pods are read, `page_size` at a time, and errors are raised.
    """
    pods_by_job: dict[str, tuple[FailedPod, ...]] = {uid: () for _, uid in pod_query.jobs}
    try:
        async for pods in _pages(client, namespace, pod_query, page_size):
            for uid, new_pods in _pods_by_job(pods).items():
                if uid in pods_by_job:
                    pods_by_job[uid] = tuple(keep(uid, (*pods_by_job[uid], *new_pods)))
    except (KubeError, TimeoutError) as error:
        if pod_query.needed:
            raise
        names = join_names([name for name, _ in pod_query.jobs], 3)
        log.info("failed pods of %s in namespace %s are not known: %s", names, namespace, error)
    return pods_by_job


async def _pages(
    client: Client, namespace: str, pod_query: FailedPodQuery, page_size: int
) -> AsyncIterator[Iterable[DetailedPod]]:
    """The failed pods of a query, page by page; only one page if no decision needs the answer."""
    for start in range(0, len(pod_query.jobs), MAX_UIDS):
        options: ListOptions = {
            "namespace": namespace,
            "label_selector": one_of(keys.JOB_UID, [uid for _, uid in pod_query.jobs[start : start + MAX_UIDS]]),
            "field_selector": "status.phase=Failed",
            "limit": page_size if pod_query.needed else MAX_PODS,
        }
        if not pod_query.needed:
            options["timeout"] = ANSWER_TIMEOUT
            yield (await client.list(PODS, type=DetailedPod, **options)).items or ()
            return
        while True:
            page = await client.list(PODS, type=DetailedPod, **options)
            yield page.items or ()
            if not page.metadata.continue_token:
                break
            options["continue_token"] = page.metadata.continue_token


def _pods_by_job(pods: Iterable[DetailedPod]) -> dict[str, list[FailedPod]]:
    """Summaries of pods by UID of the Job that controls them. The label by which they are listed may be forged."""
    by_job: dict[str, list[FailedPod]] = {}
    for pod in pods:
        if (owner := owning_job(pod.metadata)) is not None:
            by_job.setdefault(owner.uid, []).append(failed_pod(pod))
    return by_job


def failed_pod(pod: DetailedPod) -> FailedPod:
    """The record of a failed pod for decisions.

    If no container ran, `ended_at` is when the pod became not ready, else when the kubelet, which refused it, saw it.
    """
    status = pod.status
    states = [(c.name, c.state.terminated) for c in (*status.container_statuses, *status.init_container_statuses)]
    ended_containers = [(name, end) for name, end in states if end is not None]
    not_ready_times = [c.since for c in status.conditions if c.type == "Ready" and c.status == "False"]
    return FailedPod(
        name=pod.metadata.name,
        node=pod.spec.node_name,
        ends=tuple(
            Ended(name, end.exit_code, end.finished_at or "", end_of_message(end.message), _reason_text(end.reason, ""))
            for name, end in ended_containers
            if end.exit_code
        ),
        ended_at=max((end.finished_at or "" for _, end in ended_containers), default="")
        or max(not_ready_times, default=status.start_time or ""),
        conditions=frozenset((c.type, c.status) for c in status.conditions),
        deleting=pod.metadata.deletion_timestamp is not None,
        index_failures=integer(pod.metadata.annotations.index_failures) or 0,
        reasons=tuple(filter(None, (status.reason, *(end.reason for _, end in ended_containers)))),
        topology=pod.metadata.topology or "",
        domain=pod.domain,
        kubelet_reason=_reason_text(status.reason, status.message),
        deletion_asked=_deletion_request_time(pod.metadata),
    )


def _deletion_request_time(meta: PodMeta) -> str:
    """When the deletion of the pod was requested (RFC 3339), which is before its grace period; empty if unknown."""
    grace = timedelta(seconds=meta.deletion_grace_period_seconds or 0)
    try:
        return rfc3339(datetime.fromisoformat(meta.deletion_timestamp or "") - grace)
    except (ValueError, OverflowError):
        return ""


def _reason_text(reason: str, message: str) -> str:
    """A text such as `OOMKilled` or `Evicted: The node was low on resource: memory`; without the reason `Error`."""
    text = clean_words(message, LONGEST_REASON).rstrip(". ")
    return text if reason in {"", "Error"} else clean_words(f"{reason}: {text}" if text else reason, LONGEST_REASON)
