"""Decides which pods of a Job with exclusive placement are misplaced, and what is reported about waiting pods. Pure.

In exclusive placement, all pods of a Job run in one topology domain: the nodes with one value of a node label. The
domain is the domain of the leader, which is the pod with completion index 0. All other pods are followers.
See docs/concepts/exclusive-placement.md#what-is-a-valid-leader-and-what-is-repaired.
"""

from collections.abc import Callable

from api.exclusive import Domain
from api.pod import DetailedPod
from api.topology import Leader

REPORT_AFTER = 5.0
"""Seconds that a Job may wait for its domain before the wait is reported."""

NODE_PAUSE = 0.5
"""Seconds until the next check for a node or its label, which the watch is expected to deliver soon."""

REPORT_EVERY = 60.0
"""Seconds between two reports about one JobSet while it waits. All reports are counted in one Event."""

NodeLabel = Callable[[str], str | None]
"""Gives the value of the topology label of a node; None if the node has no such label or is not known."""


def is_misplaced(pod: DetailedPod, domain: Domain, topology: str, label: NodeLabel) -> bool:
    """Whether a pod is a follower that runs or will run outside `domain`, which is the domain of its leader.

    `topology`: the key of the node label. A follower that waits for its domain with a scheduling gate is not misplaced.
    """
    if not pod.follows or pod.awaits_leader:
        return False
    if pod.spec.node_name:
        value = label(pod.spec.node_name)
        return value is not None and value != domain.value
    selected_value = pod.spec.node_selector.get(topology)
    if selected_value is None:
        return not pod.finds_leader_by_itself(topology)
    return selected_value != domain.value


def pending_note(leaders: list[Leader]) -> str:
    """The report about a JobSet whose leaders wait for nodes, with the message of kube-scheduler about one of them.

    This is the leader that has waited longest.
    """
    first = min(leaders, key=lambda leader: (leader.since or leader.created, leader.name))
    count = len(leaders) - 1
    more = f" ({count} more of its Jobs {'waits' if count == 1 else 'wait'} likewise)" if count else ""
    since = first.since or first.created
    return (
        f"leader pod {first.name} of Job {first.job} has waited since {since} for a domain of its own"
        f" ({first.topology}){more}: {first.reason or 'the scheduler has not said why'}"
    )
