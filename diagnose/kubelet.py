"""Why a pod that has a node does not run, is not ready, or has failed. Pure.

The functions match messages of the kubelet and of container runtimes in the status of the pod and in its events.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from api.event import SeenEvent
from api.pending import Trouble, clean_words, trouble_of
from diagnose.facts import SeenPod
from diagnose.fixes import find_fix

_SIGKILL_CODE = 137
_EXIT_CODES = {
    128: "the container could not be started",
    126: "the command may not be executed",
    127: "the command was not found",
    134: "aborted, SIGABRT",
    _SIGKILL_CODE: "killed, SIGKILL: often for lack of memory",
    139: "crashed, SIGSEGV",
    143: "ended from outside, SIGTERM",
}
"""Meanings of exit codes of shells and container runtimes."""
_FAILED_PROBE = re.compile("(Startup|Liveness|Readiness) probe (failed|errored)")
_ENDING_WARNINGS = re.compile("^Unhealthy: (Startup|Liveness) probe|^FailedPostStartHook")
"""Reasons and notes of Warnings about probes and hooks that made a kubelet end a container."""
_CONTAINER_PATH = re.compile(r"spec\.\w+\{(.+)\}")
_START_FAILURES = re.compile("^Failed(Mount|AttachVolume|MapVolume|CreatePod)|^NetworkNotReady|^HostPortConflict")
"""Reasons of Warnings about pods whose containers the kubelet cannot create yet."""
_RETRIED = "the kubelet tries again by itself"
_REFUSED_FIX = (
    "the kubelet of node {node} refused it after it was bound: kubectl describe node {node} shows what the node has"
    " left, and its labels; a device plugin there may have to be restarted"
)
_FIXES: dict[str, str] = {
    "ErrImage|ImagePullBackOff|InvalidImageName|ImageInspectError": (
        "{describe} says more: correct the image or, for a private registry, imagePullSecrets in a new JobSet"
    ),
    "runAsNonRoot": (
        "its image runs as root, and securityContext.runAsNonRoot forbids that: write runAsUser with another user than"
        " 0, take an image that has one, or leave out runAsNonRoot, in a new JobSet"
    ),
    r'(?:MountVolume|MapVolume).*(secret|configmap) "([^"]+)" not found': (
        f"kubectl create {{kind}} {{name}} -n {{namespace}}, with what the pod reads there: {_RETRIED}"
    ),
    "MountVolume.*references non-existent (?:secret|config) key": (
        f"add the key to what the message names, or correct the items of the volume in a new JobSet: {_RETRIED}"
    ),
    "CreateContainerConfigError.*(?:not found|couldn't find key)": (
        "create what the message names: a ConfigMap, a Secret, or a key of one; {describe}"
    ),
    "Multi-Attach error|already exclusively attached": (
        "a pod on another node has its volume: wait until that one has ended, or use a claim with"
        " ReadWriteMany in a new JobSet"
    ),
    "hostPath type check failed": (
        "node {node} has no such path, or one of another type: correct the hostPath in a new JobSet, or have an"
        " administrator make it"
    ),
    "^Failed(?:Mount|AttachVolume|MapVolume)": (
        f"{{describe}} says more about the volume, kubectl get pvc -n {{namespace}} about claims: {_RETRIED}"
    ),
    "^FailedCreatePod|^NetworkNotReady": (
        "the container runtime or the network plug-in of node {node} does not work: have an administrator"
        f" look at it (kubectl describe node {{node}}): {_RETRIED}"
    ),
    "Startup probe": (
        "allow it more time (startupProbe: failureThreshold times periodSeconds), or correct what the probe asks,"
        " in a new JobSet; {logs}"
    ),
    "Liveness probe": (
        "correct livenessProbe, or allow more time (failureThreshold, timeoutSeconds), in a new JobSet; {logs}"
    ),
    "Readiness probe": "{logs} shows why it does not answer, else correct readinessProbe in a new JobSet",
    "OOMKilled": (
        "it needs more memory than resources.limits.memory of its container: raise that, or let it need less,"
        " in a new JobSet; {logs}"
    ),
    r"exec: |executable file not found|exec format error|StartError|ContainerCannotRun": (
        "correct command, args, workingDir or the image in a new JobSet: the program is not there, may not be executed,"
        " or is for other machines; {describe}"
    ),
    "PostStartHook": "correct lifecycle.postStart in a new JobSet; {logs}",
    "ephemeral local storage|local ephemeral storage": (
        "it writes more than its limit allows: raise resources.limits.ephemeral-storage, or use a volume, in a new"
        " JobSet"
    ),
    "Usage of EmptyDir volume": (
        "it writes more than its emptyDir may hold: raise sizeLimit, or use a claim, in a new JobSet"
    ),
    "node was low on resource|node had condition": (
        "the node had too little left: request as much as the pod uses in a new JobSet, since pods that use more than"
        " they request go first; kubectl describe node {node}"
    ),
    "SysctlForbidden": (
        "leave out the sysctl in a new JobSet, or have an administrator allow it (kubelet --allowed-unsafe-sysctls)"
    ),
    r"^(Terminated|NodeShutdown): .*shut": (
        "nothing is wrong with its program: node {node} is shut down; a rule of the failure policy with onPodReasons:"
        " [{name}] decides about such pods in a new JobSet"
    ),
    r"^(OutOf\w+|NodeAffinity|UnexpectedAdmissionError|PodFitsOn\w+)": (
        f"{_REFUSED_FIX}; a rule of the failure policy with onPodReasons: [{{name}}] decides about such pods in a new"
        " JobSet"
    ),
    "Pod was rejected|Predicate .* failed": _REFUSED_FIX,
}
"""Fixes by a pattern for the message of a kubelet. The first pattern that matches counts. `it` is the pod."""


class Reason(NamedTuple):
    """Why a pod is not ready.

    - `kind`: a key that is equal for pods with the same problem. `text`: a clause for the user.
    - `may_become_ready`: the pod may become ready without a correction.
    """

    kind: tuple[str, ...]
    text: str
    fix: str
    may_become_ready: bool = False


def why_unready(pod: SeenPod, warnings: Sequence[SeenEvent]) -> Reason | None:
    """Why a live pod is not ready, by its containers and the newest Warnings about it; None if unknown."""
    trouble, probe_warning = pod.trouble, next((event for event in warnings if _FAILED_PROBE.search(event.note)), None)
    if trouble is not None:
        ending_warnings = (event for event in warnings if _ENDING_WARNINGS.search(f"{event.reason}: {event.note}"))
        ending_warning = next(ending_warnings, None) if trouble.last_end else None
        cause_text = _warning_text(ending_warning) if ending_warning else str(trouble)
        text = f"{trouble}; {cause_text}" if ending_warning else cause_text
        kind = (trouble.container, trouble.reason, trouble.last_end)
        return Reason(kind, text, _pod_fix(pod, cause_text, trouble.container))
    start_warning = next((event for event in warnings if _START_FAILURES.search(event.reason)), None)
    if pod.status.phase == "Pending" and start_warning is not None:
        text = f"{start_warning.reason}: {clean_words(start_warning.note)}"
        return Reason((start_warning.reason, text.replace(pod.name, "")), text, _pod_fix(pod, text))
    if probe_warning is not None:
        text = _warning_text(probe_warning)
        return Reason((text,), text, _pod_fix(pod, text), may_become_ready=True)
    return None


def crash_loop(pod: SeenPod) -> Trouble | None:
    """The last failure of a container of a ready pod; None without a failure, or if the pod is not ready."""
    statuses = (replace(status, ready=False) for status in pod.status.container_statuses if status.restart_count)
    return next(filter(None, map(trouble_of, statuses)), None) if pod.is_ready else None


def _warning_text(event: SeenEvent) -> str:
    container = _CONTAINER_PATH.fullmatch(event.regarding.field_path)
    note = event.note.rstrip(": \n")
    return clean_words(f"{note} (container {container[1]})" if container else note)


def _pod_fix(pod: SeenPod, message: str, container: str = "") -> str:
    """The fix for a message of the kubelet about a live pod, or about a container of the pod."""
    pod_arguments = f"-n {pod.metadata.namespace} {pod.name}"
    logs = f"kubectl logs {pod_arguments}" + (f" -c {container} --previous" if container else "")
    fix = kubelet_fix(message, pod.metadata.namespace, pod.name, pod.spec.node_name, logs)
    return fix or f"{logs}, kubectl describe pod {pod_arguments}"


def kubelet_fix(message: str, namespace: str, pod: str, node: str, logs: str = "") -> str:
    """The fix for a message of the kubelet about a pod; empty for unknown messages.

    `logs`: a command that shows the logs of the pod.
    """
    describe = f"kubectl describe pod -n {namespace} {pod}"
    values = {"namespace": namespace, "node": node or "NODE", "describe": describe}
    return find_fix(_FIXES, message, logs=logs, **values).removesuffix("; ")


def meaning_of(code: int | None, *, is_from_kubelet: bool) -> str:
    """The meaning of an exit code; empty if the code has no general meaning.

    `is_from_kubelet`: the kubelet reported the end of the container, so it would have said OOMKilled.
    """
    if is_from_kubelet and code == _SIGKILL_CODE:
        return "killed, SIGKILL; the kubelet does not say OOMKilled"
    return _EXIT_CODES.get(code or 0, "")


def how_it_failed(pod: SeenPod) -> str:
    """How a pod failed, such as `container main, exit code 137 (OOMKilled)`, or the kubelet's message about the pod."""
    status, disruption = pod.status, pod.status.condition("DisruptionTarget")
    if status.reason:
        return clean_words(": ".join(filter(None, [status.reason, status.message]))).rstrip(". ")
    if disruption is not None and disruption.status == "True":
        return clean_words("ended from outside: " + ": ".join(filter(None, [disruption.reason, disruption.message])))
    if pod.failed_container is None:
        return "no container of it says why"
    name, end = pod.failed_container
    reason = meaning_of(end.exit_code, is_from_kubelet=bool(end.reason)) if end.reason in {"", "Error"} else end.reason
    message = f": {clean_words(end.message)}" if end.message.strip() else ""
    return f"container {name}, exit code {end.exit_code}" + (f" ({reason})" if reason else "") + message
