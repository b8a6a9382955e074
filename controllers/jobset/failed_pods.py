"""Looks up the failed pods of failed Jobs: the answer to a plan's `PodQuery`.

An answer that a decision needs is waited for, and an error goes up: the reconcile is tried again. Any other never holds
up or fails a restart: without an answer in time the history says less. Must not judge what it finds.
"""

import logging
from collections.abc import AsyncIterator

from api import keys
from api.pod import DetailedPod
from api.selectors import one_of
from controllers.planning.actions import PodQuery
from controllers.planning.child_jobs import integer
from controllers.planning.observed import Ended, FailedPod, FailedPodsByJob
from kube.client import Client
from kube.errors import KubeError
from kube.options import ListOptions
from kube.resources import PODS

log = logging.getLogger(__name__)

ANSWER_TIMEOUT = 2.0
"""Seconds for an answer that is not needed: a restart waits for it."""

MOST_PODS = 100
"""Failed pods that are looked at for an answer that is not needed, and only those of the first Jobs it is about."""

JOBS_AT_ONCE = 50
"""Jobs that one call asks about: their UIDs stand in its URL."""

PAGE = 500
MOST_PAGES = 20
"""Failed pods of a page, and pages of so many Jobs, that are read for an answer that is needed."""


async def list_failed_pods(client: Client, namespace: str, pod_query: PodQuery, *, page: int = PAGE) -> FailedPodsByJob:
    """The answer to a plan's query: every Job that it names, with its failed pods as far as they are known.

    If the answer is needed, it is read in pages of so many pods, and what the client raises is raised.
    """
    found: dict[str, list[FailedPod]] = {uid: [] for _, uid in pod_query.jobs}
    try:
        async for pod in _pods(client, namespace, pod_query, page):
            found.get(pod.metadata.labels.job_uid, []).append(summary(pod))
    except (KubeError, TimeoutError) as error:
        if pod_query.needed:
            raise
        log.info("pods of Job %s/%s are not known: %s", namespace, pod_query.jobs[0][0], error)
    return {uid: tuple(pods) for uid, pods in found.items()}


async def _pods(client: Client, namespace: str, pod_query: PodQuery, page: int) -> AsyncIterator[DetailedPod]:
    """What is listed for a query: one page if the answer is not needed, else all within reason."""
    for start in range(0, len(pod_query.jobs), JOBS_AT_ONCE):
        options: ListOptions = {
            "namespace": namespace,
            "label_selector": one_of(keys.JOB_UID, [uid for _, uid in pod_query.jobs[start : start + JOBS_AT_ONCE]]),
            "field_selector": "status.phase=Failed",
            "limit": MOST_PODS,
        }
        if not pod_query.needed:
            options["timeout"] = ANSWER_TIMEOUT
            for pod in (await client.list(PODS, type=DetailedPod, **options)).items or ():
                yield pod
            return
        options["limit"] = page
        for _ in range(MOST_PAGES):
            found = await client.list(PODS, type=DetailedPod, **options)
            for pod in found.items or ():
                yield pod
            options["continue_token"] = found.metadata.continue_token
            if not found.metadata.continue_token:
                break


def summary(pod: DetailedPod) -> FailedPod:
    """What decisions need of a failed pod. One none of whose containers ran ended when it was said not to be ready."""
    status = pod.status
    done = [(c.name, c.state.terminated) for c in (*status.container_statuses, *status.init_container_statuses)]
    ended = [(name, end) for name, end in done if end is not None]
    not_ready = [c.since for c in status.conditions if c.type == "Ready" and c.status == "False"]
    return FailedPod(
        name=pod.metadata.name,
        node=pod.spec.node_name,
        ends=tuple(Ended(name, end.exit_code, end.finished_at or "") for name, end in ended if end.exit_code),
        ended_at=max((end.finished_at or "" for _, end in ended), default="") or max(not_ready, default=""),
        conditions=frozenset((c.type, c.status) for c in status.conditions),
        deleting=pod.metadata.deletion_timestamp is not None,
        index_failures=integer(pod.metadata.annotations.index_failures) or 0,
    )
