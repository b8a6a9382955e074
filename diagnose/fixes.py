"""Fixes for pods that kube-scheduler does not schedule or admission refuses, and commands that fixes use. Pure.

A fix tells the user what to do about a problem. Its text has no full stop, and `it` in the text is the pod. The tables
below have fixes by regular expressions for messages. The templates of a JobSet are immutable, so many fixes delete the
JobSet and create it again with a change.
"""

import re
from collections.abc import Mapping

from api import keys
from api.jobset import JobSet
from diagnose.facts import SeenPod
from diagnose.wording import ANTI_AFFINITY
from kube.resources import KUEUE_WORKLOADS
from policy.recorded import policy_that_set

_DEFAULT_SCHEDULING_FIX = (
    "the scheduler's reason counts the nodes by what is wrong with them (kubectl describe node NODE shows one of them):"
    " ask for something else in a new JobSet, or have an administrator of the cluster change the nodes"
)
"""The fix for an unscheduled pod if no pattern of `_SCHEDULING_FIXES` matches the message of kube-scheduler."""
_NODE_CHECKERS = "jobset validate FILE --server and the warnings when a JobSet is created"
"""What compares a JobSet with the nodes for a user who may not list nodes."""
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
        f"{_NODE_CHECKERS} say whether any node offers {{name}}, and that much: if one does, wait for other pods to end"
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
        f"{_NODE_CHECKERS} say which label no node has: write another one in a new JobSet, or have an administrator of"
        " the cluster label a node"
    ),
    "untolerated taint": (
        "ask an administrator of the cluster which taints the nodes have, and add a toleration for one to the pod"
        " template in a new JobSet"
    ),
    "unschedulable": "all nodes that fit are cordoned: have an administrator of the cluster run kubectl uncordon NODE",
}
"""Fixes by a pattern for the message of kube-scheduler about a pod. The first pattern that matches counts.

`{namespace}` is the namespace of the pod. `{port}` and `{port_field}` describe the ports that it takes on a node.

Patterns about claims come first, since kube-scheduler checks no node for a pod with a missing claim. The other patterns
are in the reverse order of kube-scheduler's checks. A node that fails a late check has passed all earlier checks, so it
needs the fewest changes.
"""
_RETRIES = "the Job controller tries again"
_REFUSAL_FIXES: dict[str, str] = {
    r'serviceaccount "([^"]+)" not found': f"kubectl create serviceaccount {{name}} -n {{namespace}}: {_RETRIES}",
    r"no PriorityClass with name (\S+) was found": (
        "{by_policy}kubectl get priorityclass lists those there are; to use one of them, {recreate}; or have an"
        f" administrator of the cluster run kubectl create priorityclass {{name}} --value=0: {_RETRIES}"
    ),
    r'RuntimeClass "([^"]+)" not found': (
        f"create RuntimeClass {{name}}: {_RETRIES}; or use another runtimeClassName (kubectl get runtimeclass):"
        " {recreate}"
    ),
    r'violates PodSecurity "([^":]+)': (
        "change what the message names: {recreate}; or kubectl label ns {namespace}"
        f" pod-security.kubernetes.io/enforce-: {_RETRIES}"
    ),
    r"(m(?:ax|in)imum \S+ usage|limit to request ratio) per ": (
        "kubectl describe limitrange -n {namespace} shows the limits: request as much as they allow: {recreate}"
    ),
    r"failed quota: \S+: must specify (\S+)": (
        "set resources.requests and resources.limits of each container that the message names: {recreate}"
    ),
}
"""Fixes by a pattern for the message with which admission refuses a pod. The first pattern that matches counts.

`{recreate}` stands for the commands that create the JobSet again. `{by_policy}` says which JobSetPolicy has chosen the
PriorityClass; it is empty if the user has chosen it.
"""


def find_fix(fixes_by_pattern: Mapping[str, str], message: str, **texts: str) -> str:
    """The fix of the first pattern that matches the message; empty if no pattern matches.

    In a fix, `{name}` stands for the text that the last group of the pattern matches, and `{kind}` for the text of the
    first group. `texts` has the texts for all other placeholders.
    """
    for pattern, fix in fixes_by_pattern.items():
        if match := re.search(pattern, message):
            return fix.format(name=match[match.lastindex or 0], kind=match[1 if match.lastindex else 0], **texts)
    return ""


def refusal_fix(js: JobSet, message: str) -> str:
    """The fix if admission refuses pods of the JobSet. `message`: the message of the API server."""
    recreate, policy = recreation_commands(js), policy_that_set(js.metadata.annotations, "priorityClassName")
    by_policy = f"policy {policy} has set it, where the author names none; " if policy else ""
    texts = {"namespace": js.metadata.namespace, "recreate": recreate, "by_policy": by_policy}
    general_fix = "fix what the message names (quota, policy, webhook, service account)"
    general_fix = f"{general_fix}: {_RETRIES}; if it is the pod template: {recreate}"
    return find_fix(_REFUSAL_FIXES, message, **texts) or general_fix


def scheduling_fix(pod: SeenPod, message: str) -> str:
    """The fix for an unscheduled pod. `message`: the message of its condition PodScheduled.

    If the user may list nodes, `diagnose/nodes.py` has better fixes for labels, taints and resources of nodes.
    """
    port, port_field = "hostPort", "hostPort"
    if pod.spec.host_network:
        port, port_field = "containerPort, which is a port of the node with hostNetwork: true,", "hostNetwork"
    texts = {"namespace": pod.metadata.namespace, "port": port, "port_field": port_field}
    return find_fix(_SCHEDULING_FIXES, message, **texts) or _DEFAULT_SCHEDULING_FIX


IN_NEW_JOBSET = "in a new JobSet"
"""Words of each fix that changes a template. The end of an explanation says once how to create the new JobSet."""


def recreation_commands(js: JobSet) -> str:
    """The commands with which a user changes the manifest of a JobSet, deletes the JobSet, and creates it again."""
    file = f"{js.metadata.name}-new.yaml"  # the user may have a file with the name of the JobSet
    replace = f"kubectl replace --force -f {file} deletes the JobSet and creates it again"
    return f"{manifest_command(js)} > {file}, change {file}, and {replace}"


def recreation_command(js: JobSet, pattern: str = "", replacement: str = "") -> str:
    """The command that creates a JobSet again, with each match of the regular expression `pattern` replaced."""
    edit = f"; s#{pattern}#{replacement}#" if pattern else ""
    return f"{manifest_command(js, edit)} | kubectl replace --force -f -"


def manifest_command(js: JobSet, edit: str = "") -> str:
    """The command that prints the manifest of a JobSet without its resourceVersion. `edit`: more commands for sed.

    `kubectl replace` would store the resourceVersion in the annotation by which a later `kubectl apply` decides which
    fields to remove.
    """
    get = f"kubectl get jobset {js.metadata.name} -n {js.metadata.namespace} -o yaml"
    return f"{get} | sed '/^  resourceVersion:/d{edit}'"


def logs_command(js: JobSet, job: str = "", container: str = "") -> str:
    """The command that prints the logs of a JobSet, or only those of a Job or of containers of this name."""
    selection = (f" --job {job}" if job else "") + (f" -c {container}" if container else "")
    return f"jobset logs {js.metadata.name} -n {js.metadata.namespace}{selection}"


def workloads_command(js: JobSet) -> str:
    """The command that gets the Workload of Kueue for a JobSet. Its API group tells it from Workloads of Kubernetes."""
    selector = f"-l {keys.KUEUE_JOB_UID}={js.metadata.uid}"
    return f"kubectl get workloads.{KUEUE_WORKLOADS.group} -n {js.metadata.namespace} {selector}"
