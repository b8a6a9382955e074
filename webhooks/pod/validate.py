"""Why a pod of an exclusive Job cannot be created, in words. Pure.

See docs/reference/pod-webhooks.md#what-is-refused.

Messages begin with the sentences of the Go JobSet, which clients may match; pod, leader, reason and fix follow.
"""

from api import keys
from api.exclusive import MADE_BY_HAND, WITHOUT_INDEX, Domain, NoDomain
from webhooks.pod.subject import Pod

_TRANSIENT = "this is an expected, transient error"


def impossible(pod: Pod) -> str | None:
    """Why this pod of an exclusive Job can never run; None for every other pod."""
    if pod.topology is None:
        return None
    if keys.JOB_KEY not in pod.metadata.labels:
        return f"pod missing label: {keys.JOB_KEY}: nobody can say which Job pod {pod.name} belongs to; {MADE_BY_HAND}"
    if pod.leads:
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
    """Whether a pod would be scheduled anywhere: a follower that has neither a domain nor the gate."""
    return pod.follows and not pod.is_gated and pod.topology not in pod.spec.node_selector


def refusal(pod: Pod, answer: Domain | NoDomain) -> str:
    """The message about a stranded pod."""
    missing = "follower pod node selector not set"
    if isinstance(answer, NoDomain) and answer.leader and not answer.node:
        missing = f"leader pod not yet scheduled, not creating follower pod. {_TRANSIENT}"
    elif pod.spec.node_selector:
        missing = f"follower pod node selector for topology domain not found. missing selector: {pod.topology}"
    fix = (
        "the Job controller tries again; should it go on, see whether another webhook takes away the node selector or"
        f" the scheduling gate {keys.PLACEMENT_GATE}, or the pod template sets nodeName"
    )
    return f"{missing}: pod {pod.name} {_reason_of(pod, answer)}; {fix}"


def _reason_of(pod: Pod, answer: Domain | NoDomain) -> str:
    if isinstance(answer, Domain):
        return (
            f"belongs on {pod.topology}={answer.value}, where its leader pod {answer.leader} is (node {answer.node}),"
            " and nothing holds it there"
        )
    if answer.leader:
        return f"has to wait: {answer.why}"
    labels = pod.metadata.labels
    name = (keys.JOBSET_NAME, keys.REPLICATED_JOB_NAME, keys.JOB_INDEX)
    base = "-".join([*(labels.get(key, "?") for key in name), "0"])
    return f"has to wait: {answer.why}: expected 1 leader pod ({base}), but got 0. {_TRANSIENT}"
