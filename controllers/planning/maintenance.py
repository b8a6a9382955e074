"""Nodes that a set leaves before they go (`failurePolicy.maintenance`). See docs/concepts/node-maintenance.md."""

from api.jobset import JobSet
from api.jobset_status import JobSetStatus, LeftNode
from api.maintenance import Maintenance
from controllers.planning.attempts import uncounted_attempts

GATE = "JobSetNodeMaintenance"
REASON = "NodeMaintenance"
"""Reason of the restart, and of the event, by which a set leaves nodes."""


def policy_of(js: JobSet) -> Maintenance | None:
    """The set's policy about nodes with a taint of maintenance; None if it has none."""
    policy = js.spec.failure_policy
    return policy.maintenance if policy is not None else None


def left_nodes(status: JobSetStatus) -> tuple[LeftNode, ...]:
    """The nodes that the set leaves, or has left, and that still have one of the taints."""
    return () if status.maintenance is None else status.maintenance.nodes


def uncounted_restarts(js: JobSet) -> int:
    """Restarts of a container that do not count, because the set moved in place. Resumes may be among them.

    One more while the set is about to move because of an evicted pod: the other workers have lost it, and may fail.
    """
    if policy_of(js) is None:
        return 0
    return uncounted_attempts(js.status) + (1 if nodes_of_evictions(js.status) else 0)


def nodes_of_evictions(status: JobSetStatus) -> set[str]:
    """Names of the nodes that the set is about to leave because of evicted pods."""
    if status.maintenance is None or not status.maintenance.notice_time:
        return set()
    return {node.name for node in left_nodes(status) if not (node.taint or node.moved)}
