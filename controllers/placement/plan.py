"""Decides what to do about the pods of one Job with exclusive placement. Pure.

See docs/concepts/exclusive-placement.md#what-is-a-valid-leader-and-what-is-repaired.

Gated followers are sent to the domain of their leader. Followers in another domain are marked and deleted, and their
Job creates them again. Followers are left alone while the leader's domain is not known.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from api.exclusive import Domain, NoDomain
from api.pod import DetailedPod
from api.topology import Follower, Leader

REPORT_AFTER = 5.0
"""Seconds that a Job may wait for its domain before that is reported."""

NODE_PAUSE = 0.5
"""Seconds until the next check for a node or its label, which the watch is expected to deliver soon."""

REPORT_EVERY = 60.0
"""Seconds between two reports about one JobSet while it waits. They are counted in one Event."""

NodeLabel = Callable[[str], str | None]
"""Gives the value of the topology label of a node; None if the node has no such label or is not known."""


@dataclass(frozen=True, slots=True)
class Lift:
    """Remove the scheduling gate of a follower, and select the domain with the label value `value`."""

    pod: Follower
    value: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Mark a misplaced follower with DisruptionTarget and delete it."""

    name: str
    uid: str


def lifts(domain: Domain | NoDomain, waiting: list[Follower]) -> list[Lift]:
    """The actions that send gated followers to the domain of their leader, by name of the pod."""
    if isinstance(domain, NoDomain):
        return []
    return [Lift(pod, domain.value) for pod in sorted(waiting, key=lambda pod: pod.name)]


def evictions(domain: Domain, topology: str, pods: Iterable[DetailedPod], label: NodeLabel) -> list[Evict]:
    """The followers among the pods of a Job that are or will be in another domain than their leader."""
    misplaced = [pod for pod in pods if pod.follows and _is_misplaced(pod, domain, topology, label)]
    return [Evict(pod.metadata.name, pod.metadata.uid) for pod in misplaced]


def _is_misplaced(pod: DetailedPod, domain: Domain, topology: str, label: NodeLabel) -> bool:
    if pod.spec.node_name:
        actual = label(pod.spec.node_name)
        return actual is not None and actual != domain.value
    if pod.awaits_leader:
        return False
    selected = pod.spec.node_selector.get(topology)
    return selected != domain.value and (selected is not None or not pod.finds_leader_by_itself(topology))


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
