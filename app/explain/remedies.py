"""What to do about a pod that finds no node or whose container does not start, by the scheduler's and kubelet's words.

The texts that are looked for are those of kube-scheduler's plug-ins and of the kubelet's image manager. Pure.
"""

import re
from collections.abc import Callable

from api.jobset import JobSet
from api.pod import DEFAULT_SCHEDULER
from app.explain.facts import SeenPod

SCHEDULER_SAYS = (
    "the scheduler's reason counts the nodes by what is wrong with them; kubectl describe node NODE shows one of them"
)
"""For a reason that is not known here."""

MISFIT = re.compile("Insufficient|node affinity/selector|untolerated taint|were unschedulable")
"""What the scheduler says if nodes lack what a pod asks for."""

KEPT_OUT = re.compile("existing pods anti-affinity")
"""What it says if pods that run keep a pod away by their own anti-affinity."""

CLAIMS = re.compile(
    r"unbound immediate PersistentVolumeClaims|persistentvolumeclaim \"|storageclass\S* \"|persistent volumes to bind"
)
"""What it says if a claim of the pod has no volume."""

_IMAGE = re.compile(r": (?:ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull)\b")
_CONFIG = re.compile(r": CreateContainerConfigError\b")


def _selector(pod: SeenPod) -> str:
    wanted = ",".join(f"{key}={value}" for key, value in sorted(pod.spec.node_selector.items()))
    return f"kubectl get nodes -l '{wanted}' lists the nodes of its nodeSelector" if wanted else "see its node affinity"


def _resource(name: str) -> str:
    """A misspelt resource and one in use have the same message: what the nodes offer tells them apart."""
    column = name.replace(".", "\\.")
    return (
        f"kubectl get nodes -o custom-columns='NODE:.metadata.name,OFFERS:.status.allocatable.{column}' shows what each"
        f" node offers: <none> everywhere means that no node offers {name} (is it spelt right, does its device plugin"
        " run?); less than one pod requests means that it never fits; else wait for other pods to end, or add nodes"
    )


_FIXES: tuple[tuple[re.Pattern[str], Callable[[SeenPod, str], str]], ...] = (
    (
        re.compile(r'storageclass\S* "([^"]+)" not found'),
        lambda _, name: f"there is no StorageClass {name}: kubectl get storageclass lists those that there are",
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
            f"a claim has no volume: kubectl describe pvc -n {pod.metadata.namespace} says why; kubectl get sc"
        ),
    ),
    (
        re.compile("cannot allocate all claims|resourceclaim"),
        lambda pod, _: (
            f"it asks for devices by a ResourceClaim: kubectl get resourceclaims -n {pod.metadata.namespace} shows"
            " which are allocated, kubectl get resourceslices what the nodes offer"
        ),
    ),
    (
        KEPT_OUT,
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
            f" kubectl get pods -n {pod.metadata.namespace} -o wide --show-labels shows what runs where"
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
            " volume, kubectl describe pv VOLUME its Node Affinity"
        ),
    ),
    (
        re.compile("persistent volumes to bind|enough free storage"),
        lambda pod, _: (
            "no PersistentVolume is free and fits its claim on a node that fits: kubectl get pv; kubectl describe pvc"
            f" -n {pod.metadata.namespace}"
        ),
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
    (re.compile(r"Insufficient ([^\s,.]+(?:\.[^\s,.]+)*)"), lambda _, name: _resource(name)),
    (
        re.compile("free ports"),
        lambda *_: (
            "another pod has its hostPort on each node: wait until one ends, add nodes, or do without hostPort in a new"
            " JobSet"
        ),
    ),
    (
        re.compile("node affinity/selector"),
        lambda pod, _: f"{_selector(pod)}; kubectl get nodes --show-labels shows the labels of the nodes",
    ),
    (
        re.compile("untolerated taint"),
        lambda *_: "kubectl describe nodes | grep Taints shows the taints: remove one, or add a toleration for it",
    ),
    (
        re.compile("unschedulable"),
        lambda *_: "kubectl uncordon NODE; kubectl get nodes shows which are cordoned (SchedulingDisabled)",
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
            "have an administrator of the cluster run kubectl create priorityclass {name} --value=0:"
            f" {_RETRIED}; or use another priorityClassName (kubectl get priorityclass): {{again}}"
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
"""What admission says about pods, and what to do. `again`: a command for what can only change in a new JobSet."""


def for_refusal(js: JobSet, message: str) -> str:
    """What to do about pods of a set that admission refuses. `message`: of the API server."""
    for pattern, fix in _REFUSALS:
        if found := pattern.search(message):
            return fix.format(name=found[1], namespace=js.metadata.namespace, again=make_again(js))
    return (
        f"fix what the message names (quota, policy, webhook, service account): {_RETRIED}; if it is the pod template:"
        f" {make_again(js)}"
    )


def for_scheduling(pod: SeenPod, message: str) -> str:
    """What to do about a pod that is not scheduled. `message`: of its condition PodScheduled."""
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


def recreate(js: JobSet) -> str:
    """A command that makes a set again with one text replaced: `{old}`, a regular expression, by `{new}`."""
    where = f"{js.metadata.name} -n {js.metadata.namespace}"
    return f"kubectl get jobset {where} -o yaml | sed 's#{{old}}#{{new}}#' | kubectl replace --force -f -"


IN_A_NEW = "in a new JobSet"
"""Stands in a fix that changes a template: the explanation says once how to make such a set."""


def make_again(js: JobSet) -> str:
    """Commands that make a set again with any change: the templates of one that is there never change."""
    meta = js.metadata
    file = f"{meta.name}.yaml"
    get = f"kubectl get jobset {meta.name} -n {meta.namespace} -o yaml > {file}"
    return f"{get}, change {file}, and kubectl replace --force -f {file} deletes the JobSet and creates it again"


def unknown_scheduler(pod: SeenPod) -> str:
    """Of a pod at which no scheduler has looked, the scheduler that it asks for; empty for the default one."""
    name = pod.spec.scheduler_name
    return "" if pod.spec.node_name or name == DEFAULT_SCHEDULER else name
