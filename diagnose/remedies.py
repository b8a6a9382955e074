"""Fixes for pods that are refused or get no node, by the messages of kube-scheduler and of admission. Pure.

The module also has commands that many fixes share, such as the command that creates a set again.
"""

import re
from collections.abc import Mapping

from api import keys
from api.jobset import JobSet
from api.pod import DEFAULT_SCHEDULER
from diagnose.facts import SeenPod
from diagnose.wording import ANTI_AFFINITY
from kube.resources import KUEUE_WORKLOADS
from policy.recorded import policy_that_set

_DEFAULT_FIX = (
    "the scheduler's reason counts the nodes by what is wrong with them (kubectl describe node NODE shows one of them):"
    " ask for something else in a new JobSet, or have an administrator of the cluster change the nodes"
)
"""The fix for a pod that is not scheduled for a reason that `_SCHEDULING_FIXES` does not have."""
_NODE_CHECKS = "jobset validate FILE --server and the warnings when a JobSet is created"
"""The checks that compare a JobSet with the nodes, for fixes for a user without the right to list nodes."""
_SCHEDULING_FIXES: dict[str, str] = {
    r'storageclass\S* "([^"]+)" not found': (
        "there is no StorageClass {name}: make the claim again with one that there is (kubectl get storageclass), or"
        " have an administrator of the cluster create {name}"
    ),
    r'persistentvolumeclaim "([^"]+)" not found': (
        "create PersistentVolumeClaim {name}: kubectl get pvc -n {namespace} lists those there are"
    ),
    "unbound immediate PersistentVolumeClaims": (
        "a claim has no volume: kubectl describe pvc -n {namespace} says why: make it again with a StorageClass that"
        " makes volumes (kubectl get storageclass), or have an administrator create a volume"
    ),
    "cannot allocate all claims|resourceclaim": (
        "it asks for devices by a ResourceClaim: kubectl get resourceclaims -n {namespace} shows which are allocated,"
        " kubectl get resourceslices what the nodes offer: wait until one is free, or ask for other devices in a new"
        " JobSet"
    ),
    ANTI_AFFINITY.pattern: (
        "pods that run there keep it out by their podAntiAffinity: wait until they end, or add nodes; kubectl get pods"
        " -A -o wide shows what runs on which node"
    ),
    "pod anti-affinity": (
        "its podAntiAffinity keeps it away from pods that run there: wait until they end, or add nodes; kubectl get"
        " pods -A -o wide shows what runs on which node"
    ),
    "pod affinity": (
        "its podAffinity wants it beside pods that it names, and no node has them and room: kubectl get pods -n"
        " {namespace} -o wide --show-labels shows what runs where: start those, or change the podAffinity in a new"
        " JobSet"
    ),
    "topology spread constraints .missing required label": (
        "no node has the topologyKey of its topologySpreadConstraints: write one that nodes have (kubectl get nodes"
        " --show-labels) in a new JobSet"
    ),
    "topology spread constraints": (
        "its topologySpreadConstraints allow no node now: add nodes where they want more pods, or write"
        " whenUnsatisfiable: ScheduleAnyway in a new JobSet"
    ),
    "volume node affinity|PersistentVolume's node affinity|volume zone": (
        "its volume is tied to other nodes or another zone: kubectl get pvc -n {namespace} names the volume, kubectl"
        " describe pv VOLUME its Node Affinity: wait for room there, let its pods go there (their nodeSelector in a new"
        " JobSet), or make the claim again where they are to run"
    ),
    "persistent volumes to bind|enough free storage": (
        "no PersistentVolume is free and fits its claim on a node that fits (kubectl get pv; kubectl describe pvc -n"
        " {namespace}): have an administrator of the cluster create one, or ask for less storage"
    ),
    "bound to non-existent pv": (
        "its claim is bound to a volume that is gone: kubectl get pvc -n {namespace} names both: restore the volume, or"
        " delete the claim and create it again without what was on it"
    ),
    "had no available disk": (
        "pods that run there have the disk of its volume: wait until they end, or use a disk of its own"
    ),
    "ReadWriteOncePod": (
        "its claim allows one pod at a time (ReadWriteOncePod), and another has it: wait until that one ends, or use a"
        " claim with ReadWriteMany, or an ephemeral volume for each pod, in a new JobSet"
    ),
    "max volume count": "the nodes hold as many volumes as they can: wait for other pods to end, or add nodes",
    "Too many pods": (
        "the nodes run as many pods as they may (kubectl get nodes -o"
        " custom-columns='NODE:.metadata.name,PODS:.status.allocatable.pods'): wait for others to end, or add nodes"
    ),
    r"Insufficient ([^\s,.]+(?:\.[^\s,.]+)*)": (
        f"{_NODE_CHECKS} say whether any node offers {{name}}, and that much: if one does, wait for other pods to end"
        " or request less in a new JobSet; else ask an administrator of the cluster"
    ),
    "required features": (
        "it needs features of Kubernetes that the nodes do not declare (kubectl get nodes -o"
        " custom-columns='NODE:.metadata.name,FEATURES:.status.declaredFeatures'): have an administrator of the"
        " cluster add nodes with a newer kubelet, or do without in a new JobSet"
    ),
    "scheduler-enforced node affinity": (
        "the configuration of kube-scheduler keeps its pods away from these nodes (addedAffinity): use another"
        " schedulerName in a new JobSet, or ask an administrator of the cluster"
    ),
    "free ports": (
        "another pod has its {port} on each node, and a node takes one pod of its kind: wait until one ends, add nodes,"
        " run fewer of its pods at once, or do without {port_field} in a new JobSet"
    ),
    "node affinity/selector": (
        f"{_NODE_CHECKS} say which label no node has: write another one in a new JobSet, or have an administrator of"
        " the cluster label a node"
    ),
    "untolerated taint": (
        "ask an administrator of the cluster which taints the nodes have, and add a toleration for one to the pod"
        " template in a new JobSet"
    ),
    "unschedulable": "all nodes that fit are cordoned: have an administrator of the cluster run kubectl uncordon NODE",
}
"""Patterns of messages of the scheduler, each with its fix. The first match counts.

Claims come first, since the scheduler checks no node for a pod with a missing claim. The other patterns follow in the
reverse order of the scheduler's checks, since nodes that fail a late check have passed all earlier checks.
"""
_RETRIED = "the Job controller tries again"
_REFUSAL_FIXES: dict[str, str] = {
    r'serviceaccount "([^"]+)" not found': f"kubectl create serviceaccount {{name}} -n {{namespace}}: {_RETRIED}",
    r"no PriorityClass with name (\S+) was found": (
        "{by_policy}kubectl get priorityclass lists those there are; to use one of them, {again}; or have an"
        f" administrator of the cluster run kubectl create priorityclass {{name}} --value=0: {_RETRIED}"
    ),
    r'RuntimeClass "([^"]+)" not found': (
        f"create RuntimeClass {{name}}: {_RETRIED}; or use another runtimeClassName (kubectl get runtimeclass):"
        " {again}"
    ),
    r'violates PodSecurity "([^":]+)': (
        "change what the message names: {again}; or kubectl label ns {namespace}"
        f" pod-security.kubernetes.io/enforce-: {_RETRIED}"
    ),
    r"(m(?:ax|in)imum \S+ usage|limit to request ratio) per ": (
        "kubectl describe limitrange -n {namespace} shows the limits: request as much as they allow: {again}"
    ),
    r"failed quota: \S+: must specify (\S+)": (
        "set resources.requests and resources.limits of each container that the message names: {again}"
    ),
}
"""Patterns of messages of admission about pods, each with its fix. The first match counts.

`again` is a command that creates the set again. `by_policy` names the policy that has set the value, if there is one.
"""


def find_fix(fixes: Mapping[str, str], message: str, **words: str) -> str:
    """The fix of the first pattern that matches the message; empty if no pattern matches.

    `{name}` in a fix is the last group of its pattern, `{kind}` the first group, and `words` are for all other names.
    """
    for pattern, fix in fixes.items():
        if match := re.search(pattern, message):
            return fix.format(name=match[match.lastindex or 0], kind=match[1 if match.lastindex else 0], **words)
    return ""


def refusal_remedy(js: JobSet, message: str) -> str:
    """The fix for refused pods of a set. `message`: the message of the API server."""
    again, policy = recreation_commands(js), policy_that_set(js.metadata.annotations, "priorityClassName")
    by_policy = f"policy {policy} has set it, where the author names none; " if policy else ""
    fix = find_fix(_REFUSAL_FIXES, message, namespace=js.metadata.namespace, again=again, by_policy=by_policy)
    general_fix = "fix what the message names (quota, policy, webhook, service account)"
    return fix or f"{general_fix}: {_RETRIED}; if it is the pod template: {again}"


def scheduling_remedy(pod: SeenPod, message: str) -> str:
    """The fix for a pod that is not scheduled. `message`: the message of its condition PodScheduled.

    Fixes about labels, taints and resources of nodes are for users who may not list nodes. For all other users,
    `diagnose/nodes.py` finds what the nodes lack.
    """
    port, field = "hostPort", "hostPort"
    if pod.spec.host_network:
        port, field = "containerPort, which is a port of the node with hostNetwork: true,", "hostNetwork"
    namespace = pod.metadata.namespace
    return find_fix(_SCHEDULING_FIXES, message, namespace=namespace, port=port, port_field=field) or _DEFAULT_FIX


def manifest_command(js: JobSet, edit: str = "") -> str:
    """The command that prints a set as a manifest to create it again. `edit`: a further command of sed.

    The manifest has no resourceVersion. `kubectl replace` would store it in the annotation by which a later
    `kubectl apply` decides which fields to remove.
    """
    get = f"kubectl get jobset {js.metadata.name} -n {js.metadata.namespace} -o yaml"
    return f"{get} | sed '/^  resourceVersion:/d{edit}'"


def recreation_command(js: JobSet, old: str = "", new: str = "") -> str:
    """The command that creates a set again, with all matches of the regular expression `old`, if any, replaced."""
    return f"{manifest_command(js, f'; s#{old}#{new}#' if old else '')} | kubectl replace --force -f -"


IN_NEW_JOBSET = "in a new JobSet"
"""Part of a fix that changes a template. The explanation says once how to create a set with the change."""


def recreation_commands(js: JobSet) -> str:
    """Commands that create a set again with a change. The templates of an existing set are immutable."""
    file = f"{js.metadata.name}-new.yaml"  # the author may have a file with the name of the set
    replace = f"kubectl replace --force -f {file} deletes the JobSet and creates it again"
    return f"{manifest_command(js)} > {file}, change {file}, and {replace}"


def other_scheduler(pod: SeenPod) -> str:
    """The scheduler of a pod without a node; empty for the default scheduler, or if the pod has a node."""
    name = pod.spec.scheduler_name
    return "" if pod.spec.node_name or name == DEFAULT_SCHEDULER else name


def logs_command(js: JobSet, job: str = "", container: str = "") -> str:
    """The command that shows the logs of a set, or of one of its Jobs or containers."""
    selection = (f" --job {job}" if job else "") + (f" -c {container}" if container else "")
    return f"jobset logs {js.metadata.name} -n {js.metadata.namespace}{selection}"


def workloads_command(js: JobSet) -> str:
    """The command that shows Kueue's Workload of a JobSet, with the API group, as Kubernetes has Workloads, too."""
    selector = f"-l {keys.KUEUE_JOB_UID}={js.metadata.uid}"
    return f"kubectl get workloads.{KUEUE_WORKLOADS.group} -n {js.metadata.namespace} {selector}"
