"""Decides which pods of a Job with exclusive placement are misplaced, and what is reported about waiting pods. Pure.

See docs/concepts/exclusive-placement.md#what-is-a-valid-leader-and-what-is-repaired.
"""

from collections.abc import Callable

from api.exclusive import Domain
from api.pod import DetailedPod
from api.topology import Leader

REPORT_AFTER = 5.0
"""Seconds that a Job may wait for its domain before that is reported."""

NODE_PAUSE = 0.5
"""Seconds until the next check for a node or its label, which the watch is expected to deliver soon."""

REPORT_EVERY = 60.0
"""Seconds between two reports about one JobSet while it waits. They are counted in one Event."""

NodeLabel = Callable[[str], str | None]
"""Gives the value of the topology label of a node; None if the node has no such label or is not known."""


def is_misplaced(pod: DetailedPod, domain: Domain, topology: str, label: NodeLabel) -> bool:
    """Whether a pod is a follower that is or will be in another domain than its leader, which is in `domain`."""
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
    """The report about a JobSet with waiting leaders, with the scheduler's message about the one that waits longest."""
    first = min(leaders, key=lambda leader: (leader.since or leader.created, leader.name))
    count = len(leaders) - 1
    more = f" ({count} more of its Jobs {'waits' if count == 1 else 'wait'} likewise)" if count else ""
    since = first.since or first.created
    return (
        f"leader pod {first.name} of Job {first.job} has waited since {since} for a domain of its own"
        f" ({first.topology}){more}: {first.reason or 'the scheduler has not said why'}"
    )
