"""Finds out which pod of a failed Job failed, where, and with which exit code: one list call for each failed attempt.

Never holds up or fails a restart: without an answer in time the history says less.
"""

import logging

from api import keys
from api.meta import Base
from api.pod import ContainerStatus, Pod, Terminated
from controllers.jobset.actions import Evidence, Question
from kube.client import Client
from kube.errors import KubeError
from kube.resources import PODS

log = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds for the answer: a restart waits for it."""

MOST_PODS = 100
"""Failed pods that are looked at."""


class _Page(Base, frozen=True, kw_only=True):
    items: tuple[Pod, ...] = ()


async def look_up(client: Client, namespace: str, question: Question) -> Evidence:
    """The answer to a plan's question; empty when there is none."""
    try:
        page = await client.list_page(
            PODS,
            _Page,
            namespace=namespace,
            label_selector=f"{keys.JOB_UID}={question.uid}",
            field_selector="status.phase=Failed",
            limit=MOST_PODS,
            timeout=PATIENCE,
        )
    except (KubeError, TimeoutError) as error:
        log.info("pods of Job %s/%s are not known: %s", namespace, question.job, error)
        return Evidence()
    return first_failed(page.items)


def first_failed(pods: tuple[Pod, ...]) -> Evidence:
    """The pod whose container ended first with a code other than 0; ties go to the lower name."""
    ended = [(end.finished_at or "", pod.metadata.name, pod, end) for pod in pods if (end := _first_end(pod))]
    if not ended:
        return Evidence()
    _, name, pod, end = min(ended, key=lambda found: found[:2])
    return Evidence(name, pod.spec.node_name, end.exit_code)


def _first_end(pod: Pod) -> Terminated | None:
    """How the first of its containers failed, init containers included."""
    containers: tuple[ContainerStatus, ...] = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ends = [c.state.terminated for c in containers if c.state.terminated and c.state.terminated.exit_code]
    return min(ends, key=lambda end: end.finished_at or "", default=None)
