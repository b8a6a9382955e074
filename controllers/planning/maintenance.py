"""Reads which nodes in maintenance a set leaves, and which restarts this move causes, from the status.

A node is in maintenance if it has a taint that `failurePolicy.maintenance` names, or if pods on it are evicted. A set
leaves such a node by a restart that is planned and no failure: its pods move to other nodes. See
docs/concepts/node-maintenance.md.
"""

from api.jobset import JobSet
from api.jobset_status import JobSetStatus, LeftNode
from controllers.planning.attempts import uncounted_attempts

GATE = "JobSetNodeMaintenance"
REASON = "NodeMaintenance"
"""Reason of the restart, and of its event, when a set leaves nodes."""


def left_nodes(status: JobSetStatus) -> tuple[LeftNode, ...]:
    """The nodes in maintenance that the set leaves or has left."""
    return () if status.maintenance is None else status.maintenance.nodes


def uncounted_restarts(js: JobSet) -> int:
    """How many restarts of each container do not count towards maxRestarts.

    These are restarts because the set was resumed, or moved to other nodes by a restart in place. While the set is
    about to move because of an evicted pod, one more restart does not count: the workers in other pods may fail because
    the worker in the evicted pod is gone.
    """
    if js.failure_policy.maintenance is None:
        return 0
    return uncounted_attempts(js.status) + (1 if nodes_of_evictions(js.status) else 0)


def nodes_of_evictions(status: JobSetStatus) -> set[str]:
    """Names of the nodes that the set is about to leave because of evicted pods."""
    if status.maintenance is None or not status.maintenance.notice_time:
        return set()
    return {node.name for node in left_nodes(status) if not (node.taint or node.moved)}
