"""What to do about a pod that finds no node or whose container does not start, by the scheduler's and kubelet's words.

The texts that are looked for are those of kube-scheduler's plug-ins and of the kubelet's image manager. Pure.
"""

import re
from collections.abc import Callable

from api.jobset import JobSet
from api.pod import DEFAULT_SCHEDULER
from diagnose.facts import SeenPod
from policy.defaults import set_by

SCHEDULER_SAYS = (
    "the scheduler's reason counts the nodes by what is wrong with them (kubectl describe node NODE shows one of them):"
    " ask for something else in a new JobSet, or have an administrator of the cluster change the nodes"
)
"""For a reason that is not known here."""

MISFIT = re.compile("Insufficient|node affinity/selector|untolerated taint|were unschedulable|required features")
"""What the scheduler says if nodes lack what a pod asks for."""

ANTI_AFFINITY = re.compile("existing pods anti-affinity")
"""What it says if pods that run keep a pod away by their own anti-affinity."""

CLAIMS = re.compile(
    r"unbound immediate PersistentVolumeClaims|persistentvolumeclaim \"|storageclass\S* \"|persistent volumes to bind"
)
"""What it says if a claim of the pod has no volume."""

_IMAGE = re.compile(r": (?:ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull)\b")
_CONFIG = re.compile(r": CreateContainerConfigError\b")
_WARNED = "jobset validate FILE --server and the warnings when a JobSet is created"
"""What says to somebody without rights on nodes what the nodes do not have."""


def _host_port(pod: SeenPod) -> str:
    """What takes a port of the node."""
    return "containerPort, which is a port of the node with hostNetwork: true," if pod.spec.host_network else "hostPort"


_FIXES: tuple[tuple[re.Pattern[str], Callable[[SeenPod, str], str]], ...] = (
    (
        re.compile(r'storageclass\S* "([^"]+)" not found'),
        lambda _, name: (
            f"there is no StorageClass {name}: make the claim again with one that there is (kubectl get storageclass),"
            f" or have an administrator of the cluster create {name}"
        ),
    ),
    (
        re.compile(r'persistentvolumeclaim "([^"]+)" not found'),
        lambda pod, name: (
            f"create PersistentVolumeClaim {name}: kubectl get pvc -n {pod.metadata.namespace} lists those there are"
        ),
    ),
    (
        re.compile("unbound immediate PersistentVolumeClaims"),
        lambda pod, _: (
            f"a claim has no volume: kubectl describe pvc -n {pod.metadata.namespace} says why: make it again with a"
            " StorageClass that makes volumes (kubectl get storageclass), or have an administrator create a volume"
        ),
    ),
    (
        re.compile("cannot allocate all claims|resourceclaim"),
        lambda pod, _: (
            f"it asks for devices by a ResourceClaim: kubectl get resourceclaims -n {pod.metadata.namespace} shows"
            " which are allocated, kubectl get resourceslices what the nodes offer: wait until one is free, or ask for"
            " other devices in a new JobSet"
        ),
    ),
    (
        ANTI_AFFINITY,
        lambda *_: (
            "pods that run there keep it out by their podAntiAffinity: wait until they end, or add nodes;"
            " kubectl get pods -A -o wide shows what runs on which node"
        ),
    ),
    (
        re.compile("pod anti-affinity"),
        lambda *_: (
            "its podAntiAffinity keeps it away from pods that run there: wait until they end, or add nodes;"
            " kubectl get pods -A -o wide shows what runs on which node"
        ),
    ),
    (
        re.compile("pod affinity"),
        lambda pod, _: (
            "its podAffinity wants it beside pods that it names, and no node has them and room:"
            f" kubectl get pods -n {pod.metadata.namespace} -o wide --show-labels shows what runs where: start those,"
            " or change the podAffinity in a new JobSet"
        ),
    ),
    (
        re.compile("topology spread constraints .missing required label"),
        lambda *_: (
            "no node has the topologyKey of its topologySpreadConstraints: write one that nodes have (kubectl get nodes"
            " --show-labels) in a new JobSet"
        ),
    ),
    (
        re.compile("topology spread constraints"),
        lambda *_: (
            "its topologySpreadConstraints allow no node now: add nodes where they want more pods, or write"
            " whenUnsatisfiable: ScheduleAnyway in a new JobSet"
        ),
    ),
    (
        re.compile("volume node affinity|PersistentVolume's node affinity|volume zone"),
        lambda pod, _: (
            f"its volume is tied to other nodes or another zone: kubectl get pvc -n {pod.metadata.namespace} names the"
            " volume, kubectl describe pv VOLUME its Node Affinity: wait for room there, let its pods go there (their"
            " nodeSelector in a new JobSet), or make the claim again where they are to run"
        ),
    ),
    (
        re.compile("persistent volumes to bind|enough free storage"),
        lambda pod, _: (
            "no PersistentVolume is free and fits its claim on a node that fits (kubectl get pv; kubectl describe pvc"
            f" -n {pod.metadata.namespace}): have an administrator of the cluster create one, or ask for less storage"
        ),
    ),
    (
        re.compile("bound to non-existent pv"),
        lambda pod, _: (
            f"its claim is bound to a volume that is gone: kubectl get pvc -n {pod.metadata.namespace} names both:"
            " restore the volume, or delete the claim and create it again without what was on it"
        ),
    ),
    (
        re.compile("had no available disk"),
        lambda *_: "pods that run there have the disk of its volume: wait until they end, or use a disk of its own",
    ),
    (
        re.compile("ReadWriteOncePod"),
        lambda *_: (
            "its claim allows one pod at a time (ReadWriteOncePod), and another has it: wait until that one ends, or"
            " use a claim with ReadWriteMany, or an ephemeral volume for each pod, in a new JobSet"
        ),
    ),
    (
        re.compile("max volume count"),
        lambda *_: "the nodes hold as many volumes as they can: wait for other pods to end, or add nodes",
    ),
    (
        re.compile("Too many pods"),
        lambda *_: (
            "the nodes run as many pods as they may (kubectl get nodes -o"
            " custom-columns='NODE:.metadata.name,PODS:.status.allocatable.pods'): wait for others to end, or add nodes"
        ),
    ),
    (
        re.compile(r"Insufficient ([^\s,.]+(?:\.[^\s,.]+)*)"),
        lambda _, name: (
            f"{_WARNED} say whether any node offers {name}, and that much: if one does, wait for other pods to end or"
            " request less in a new JobSet; else ask an administrator of the cluster"
        ),
    ),
    (
        re.compile("required features"),
        lambda *_: (
            "it needs features of Kubernetes that the nodes do not declare (kubectl get nodes -o"
            " custom-columns='NODE:.metadata.name,FEATURES:.status.declaredFeatures'): have an administrator of the"
            " cluster add nodes with a newer kubelet, or do without in a new JobSet"
        ),
    ),
    (
        re.compile("scheduler-enforced node affinity"),
        lambda *_: (
            "the configuration of kube-scheduler keeps its pods away from these nodes (addedAffinity): use another"
            " schedulerName in a new JobSet, or ask an administrator of the cluster"
        ),
    ),
    (
        re.compile("free ports"),
        lambda pod, _: (
            f"another pod has its {_host_port(pod)} on each node, and a node takes one pod of its kind: wait until one"
            " ends, add nodes, run fewer of its pods at once, or do without"
            f" {'hostNetwork' if pod.spec.host_network else 'hostPort'} in a new JobSet"
        ),
    ),
    (
        re.compile("node affinity/selector"),
        lambda *_: (
            f"{_WARNED} say which label no node has: write another one in a new JobSet, or have an administrator of the"
            " cluster label a node"
        ),
    ),
    (
        re.compile("untolerated taint"),
        lambda *_: (
            "ask an administrator of the cluster which taints the nodes have, and add a toleration for one to the pod"
            " template in a new JobSet"
        ),
    ),
    (
        re.compile("unschedulable"),
        lambda *_: "all nodes that fit are cordoned: have an administrator of the cluster run kubectl uncordon NODE",
    ),
)
"""What the scheduler says, and what to do, by the pod and what it names. The first that is found counts.

Claims come first: without them the scheduler looks at no node. Of several reasons the one counts that the scheduler
looks for last, for those nodes have passed everything before: devices, other pods, volumes, resources, then ports,
affinity, taints and cordons.
"""


_RETRIED = "the Job controller tries again"
_REFUSALS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r'serviceaccount "([^"]+)" not found'),
        f"kubectl create serviceaccount {{name}} -n {{namespace}}: {_RETRIED}",
    ),
    (
        re.compile(r"no PriorityClass with name (\S+) was found"),
        (
            "{whose}kubectl get priorityclass lists those there are; to use one of them, {again}; or have an"
            f" administrator of the cluster run kubectl create priorityclass {{name}} --value=0: {_RETRIED}"
        ),
    ),
    (
        re.compile(r'RuntimeClass "([^"]+)" not found'),
        (
            f"create RuntimeClass {{name}}: {_RETRIED}; or use another runtimeClassName (kubectl get runtimeclass):"
            " {again}"
        ),
    ),
    (
        re.compile(r'violates PodSecurity "([^":]+)'),
        (
            "change what the message names: {again}; or kubectl label ns {namespace}"
            f" pod-security.kubernetes.io/enforce-: {_RETRIED}"
        ),
    ),
    (
        re.compile(r"(m(?:ax|in)imum \S+ usage|limit to request ratio) per "),
        "kubectl describe limitrange -n {namespace} shows the limits: request as much as they allow: {again}",
    ),
    (
        re.compile(r"failed quota: \S+: must specify (\S+)"),
        "set resources.requests and resources.limits of each container that the message names: {again}",
    ),
)
"""What admission says about pods, and what to do. `again`: a command for what can only change in a new JobSet.

`whose`: the policy that has set what is named, if one has.
"""


def for_refusal(js: JobSet, message: str) -> str:
    """What to do about pods of a set that admission refuses. `message`: of the API server."""
    for pattern, fix in _REFUSALS:
        if found := pattern.search(message):
            policy = set_by(js.metadata.annotations, "priorityClassName")
            set_by_policy = f"policy {policy} has set it, where the author names none; " if policy else ""
            return fix.format(name=found[1], namespace=js.metadata.namespace, again=make_again(js), whose=set_by_policy)
    return (
        f"fix what the message names (quota, policy, webhook, service account): {_RETRIED}; if it is the pod template:"
        f" {make_again(js)}"
    )


def for_scheduling(pod: SeenPod, message: str) -> str:
    """What to do about a pod that is not scheduled. `message`: of its condition PodScheduled.

    What is about labels, taints and resources of nodes is for somebody who may not list them: else they are known.
    """
    for pattern, fix in _FIXES:
        if found := pattern.search(message):
            return fix(pod, found[found.lastindex or 0])
    return SCHEDULER_SAYS


def for_container(pod: SeenPod, trouble: str) -> str:
    """What to do about a container that does not run. `trouble`: as by `api.pending.trouble`."""
    describe = f"kubectl describe pod -n {pod.metadata.namespace} {pod.name}"
    if _IMAGE.search(trouble):
        return f"{describe} says more: correct the image or, for a private registry, imagePullSecrets {IN_A_NEW}"
    if _CONFIG.search(trouble):
        return f"create what the message names: a ConfigMap, a Secret, or a key of one; {describe}"
    container = trouble.removeprefix("container ").partition(":")[0]
    return f"kubectl logs -n {pod.metadata.namespace} {pod.name} -c {container} --previous, {describe}"


UNVERSIONED = "/^  resourceVersion:/d"
"""For sed. `kubectl replace` keeps what it sends for a later `kubectl apply`, which may not take a version away."""


def recreate(js: JobSet) -> str:
    """A command that makes a set again with one text replaced: `{old}`, a regular expression, by `{new}`."""
    where = f"{js.metadata.name} -n {js.metadata.namespace}"
    return (
        f"kubectl get jobset {where} -o yaml | sed '{UNVERSIONED}; s#{{old}}#{{new}}#' | kubectl replace --force -f -"
    )


IN_A_NEW = "in a new JobSet"
"""Stands in a fix that changes a template: the explanation says once how to make such a set."""


def make_again(js: JobSet) -> str:
    """Commands that make a set again with any change: the templates of one that is there never change."""
    meta = js.metadata
    file = f"{meta.name}-new.yaml"  # the author may have one with the name of the set
    get = f"kubectl get jobset {meta.name} -n {meta.namespace} -o yaml | sed '{UNVERSIONED}' > {file}"
    return f"{get}, change {file}, and kubectl replace --force -f {file} deletes the JobSet and creates it again"


def unknown_scheduler(pod: SeenPod) -> str:
    """Of a pod at which no scheduler has looked, the scheduler that it asks for; empty for the default one."""
    name = pod.spec.scheduler_name
    return "" if pod.spec.node_name or name == DEFAULT_SCHEDULER else name
