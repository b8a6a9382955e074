"""Messages about pods of exclusive Jobs that cannot be created. Pure.

See docs/reference/pod-webhooks.md#what-is-refused.

Messages begin with the sentences of the Go JobSet, which clients may match; pod, leader, reason and fix follow.
"""

from api import keys
from api.exclusive import MADE_BY_HAND, WITHOUT_INDEX, Domain, NoDomain
from webhooks.pod.subject import Pod

_TRANSIENT = "this is an expected, transient error"


def impossible_reason(pod: Pod) -> str | None:
    """Why this pod of an exclusive Job can never run; None for every other pod."""
    if pod.topology is None:
        return None
    if keys.JOB_KEY not in pod.metadata.labels:
        return f"pod missing label: {keys.JOB_KEY}: nobody can say which Job pod {pod.name} belongs to; {MADE_BY_HAND}"
    if pod.is_leader:
        return None
    if keys.COMPLETION_INDEX not in pod.metadata.annotations:
        return (
            f"pod {pod.name} has no completion index: its Job is not Indexed, none of its pods leads, and exclusive"
            f" placement by {pod.topology} never has a domain to give; {WITHOUT_INDEX}"
        )
    if not pod.job_uid:
        return (
            f"follower pod has no owner reference: nobody can say which Job pod {pod.name} belongs to; {MADE_BY_HAND}"
        )
    return None


def is_stranded(pod: Pod) -> bool:
    """Whether a pod is a follower with neither a domain nor the gate, which could be scheduled to any node."""
    return pod.is_follower and not pod.is_gated and pod.topology not in pod.spec.node_selector


def stranded_message(pod: Pod, domain: Domain | NoDomain) -> str:
    """The message about a stranded pod. `domain` is the domain of its Job."""
    fault = "follower pod node selector not set"
    if isinstance(domain, NoDomain) and domain.leader and not domain.node:
        fault = f"leader pod not yet scheduled, not creating follower pod. {_TRANSIENT}"
    elif pod.spec.node_selector:
        fault = f"follower pod node selector for topology domain not found. missing selector: {pod.topology}"
    fix = (
        "the Job controller tries again; should it go on, see whether another webhook takes away the node selector or"
        f" the scheduling gate {keys.PLACEMENT_GATE}, or the pod template sets nodeName"
    )
    return f"{fault}: pod {pod.name} {_reason(pod, domain)}; {fix}"


def _reason(pod: Pod, domain: Domain | NoDomain) -> str:
    if isinstance(domain, Domain):
        return (
            f"belongs on {pod.topology}={domain.value}, where its leader pod {domain.leader} is (node {domain.node}),"
            " and nothing holds it there"
        )
    if domain.leader:
        return f"has to wait: {domain.reason}"
    labels = pod.metadata.labels
    label_keys = (keys.JOBSET_NAME, keys.REPLICATED_JOB_NAME, keys.JOB_INDEX)
    leader_name = "-".join([*(labels.get(key, "?") for key in label_keys), "0"])
    return f"has to wait: {domain.reason}: expected 1 leader pod ({leader_name}), but got 0. {_TRANSIENT}"
