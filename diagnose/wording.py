"""Patterns and parsers for messages of the API server, kube-scheduler and the Job controller. Pure.

Each constant and function names the component that writes the message. `diagnose/fixes.py` has fixes by message.
"""

import re
from typing import NamedTuple

MISFIT = re.compile("Insufficient|node affinity/selector|untolerated taint|were unschedulable|required features")
"""kube-scheduler: nodes lack something that the pod requires."""
ANTI_AFFINITY = re.compile("existing pods anti-affinity")
"""kube-scheduler: running pods keep the pod out by their anti-affinity."""
UNBOUND_CLAIM = re.compile(
    r"unbound immediate PersistentVolumeClaims|persistentvolumeclaim \"|storageclass\S* \"|persistent volumes to bind"
)
"""kube-scheduler: a claim of the pod has no volume."""
MISSING_FEATURE = re.compile("Pod's required features")
"""kube-scheduler: nodes lack a feature of Kubernetes."""
PREEMPTED = re.compile(r"Preempted by pod (\S+) on node (\S+)")
"""kube-scheduler, about a pod that it preempts: the UID of the preempting pod, and the node."""
NO_RIGHT = re.compile(r'User "[^"]+" cannot create resource')
"""API server: the sender of the request lacks the right to create an object."""
DISRUPTED = "has condition DisruptionTarget"
"""Job controller: a podFailurePolicy has matched the condition DisruptionTarget of a pod."""
BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
"""Job controller: too many pods have failed."""
DEADLINE_EXCEEDED = "DeadlineExceeded"
"""Job controller: the Job was active for longer than its spec.activeDeadlineSeconds."""
NO_PLACEMENT = "no feasible placements found"
"""kube-scheduler, about a group: no domain is possible."""
_INSUFFICIENT = re.compile(r"(\d+) Insufficient ([^\s,]*[^\s,.])")
_GROUP_UNSCHEDULABLE = "pod group is unschedulable, "
_PREEMPTION = ", pod group preemption:"
_SHORT = re.compile(r"(?:0/(\d+) placements are available.*?)?minCount \((\d+)\) cannot be satisfied: (\d+) scheduled")


def insufficient(message: str) -> list[tuple[int, str]]:
    """kube-scheduler: pairs of a number of nodes and the resource of which too little is free on these nodes."""
    return [(int(nodes), resource) for nodes, resource in _INSUFFICIENT.findall(message)]


def without_repetition(message: str) -> str:
    """kube-scheduler's message about a group, without the parts that it repeats for each level."""
    text = message.partition(_PREEMPTION)[0]
    while text.startswith(_GROUP_UNSCHEDULABLE * 2):
        text = text[len(_GROUP_UNSCHEDULABLE) :]
    return text.rstrip(". ")


def is_about_group(text: str) -> bool:
    """Whether kube-scheduler only says that the group of the pod does not fit."""
    return text.startswith(_GROUP_UNSCHEDULABLE.rstrip(", "))


class Shortfall(NamedTuple):
    """kube-scheduler: a group needs `wanted` members, and only `fit` of them had room in the first placement.

    `placements`: the number of placements that were tried; empty if not reported.
    """

    placements: str
    wanted: str
    fit: str


def shortfall(text: str) -> Shortfall | None:
    """kube-scheduler: the shortfall of a group; None if the message has another reason."""
    match = _SHORT.search(text)
    return None if match is None else Shortfall(match[1] or "", match[2], match[3])
