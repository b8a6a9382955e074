"""The agent for restarts in place, put into the pods of a JobSet that asks for it. Pure.

See docs/reference/in-place-restart.md#the-agent-in-every-pod.
"""

from typing import Any, Final

from api import keys
from api.jobset import JobSet, ReplicatedJob
from api.policies import RestartAgent
from kube.model.meta import JSON

NAME: Final = "jobset-agent"
"""Name of the container or volume that is added."""

DEFAULT_PORT: Final = 8081
FOLDER: Final = "/jobset-agent"
EXIT_CODE: Final = 1
"""Exit code by which the agent makes the kubelet restart all containers, unless its environment sets another one."""

RESOURCES: Final = {"requests": {"cpu": "10m", "memory": "32Mi"}}
_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""The security context that the Pod Security Standard "restricted" requires."""

RESTART_WORKER: Final = "RESTART_WORKER_ONLY"
RESTART_FAILED: Final = "RESTART_FAILED_WORKER"
"""Variables of the agent: whether it starts the worker again when another one, or its own, has failed."""

_LOGS: Final = {"terminationMessagePolicy": "FallbackToLogsOnError"}
"""Keeps the last lines of the log of a failed container, unless the container sets a policy of its own."""

LISTS: Final = ("containers", "initContainers", "volumes")

_IDENTITY_VARIABLES: Final[list[JSON]] = [
    {"name": "JOBSET_NAME", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{keys.JOBSET_NAME}']"}}},
    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
]


def agent_of(js: JobSet) -> RestartAgent | None:
    """The agent's settings, if the pods of the JobSet restart in place."""
    policy = js.spec.failure_policy
    return policy.agent if policy is not None and js.restarts_in_place else None


def jobs_without_agent(js: JobSet) -> frozenset[str]:
    """Names of the ReplicatedJobs without an agent: those that have to complete before others start, and spares."""
    return _jobs_to_complete(js).union(rjob.name for rjob in js.spec.replicated_jobs if rjob.spare_for)


def _jobs_to_complete(js: JobSet) -> frozenset[str]:
    """Names of the ReplicatedJobs that have to complete before others start."""
    waits = (wait for rjob in js.spec.replicated_jobs for wait in rjob.depends_on or ())
    return frozenset(wait.name for wait in waits if wait.status == "Complete")


def reporting_container(js: JobSet, rjob: ReplicatedJob) -> str:
    """Name of the container whose agent reports how its worker failed, and keeps running; empty if none does."""
    if not js.restarts_in_place:
        return ""
    containers = with_agent(js, rjob, rjob.pod_spec).get("containers") or []
    asking = (each for each in containers if _environment(each).get(RESTART_FAILED) == "true")
    return next((str(each.get("name") or "") for each in asking), "")


def _environment(container: JSON) -> dict[str, Any]:
    """The variables of a container that have a value, by name; others are None."""
    variables = container.get("env")
    found = variables if isinstance(variables, list) else []
    return {str(each.get("name")): each.get("value") for each in found if isinstance(each, dict)}


def with_agent(js: JobSet, rjob: ReplicatedJob, pod: JSON) -> JSON:
    """The pod spec with the agent; unchanged if this ReplicatedJob runs without one or has a container of that name.

    Spares get what a pod with the agent needs of a node: its image, and what it asks for.
    """
    agent = agent_of(js)
    if agent is None or rjob.name in _jobs_to_complete(js) or _has_one(pod):
        return pod
    if rjob.spare_for:
        return _with_held_sidecar_for(agent, pod)
    return _with_agent_in_main_container(agent, pod) if agent.mode == "MainContainer" else _with_sidecar(agent, pod)


def _with_held_sidecar_for(agent: RestartAgent, pod: JSON) -> JSON:
    """The pod of a spare, whose first container runs on as it is. In mode Sidecar another like it takes as much."""
    if agent.mode == "MainContainer":
        return {**_with_agent_in_main_container(agent, pod), "containers": pod.get("containers") or []}
    [*before, sidecar] = _with_sidecar(agent, pod)["initContainers"]
    return with_held_sidecar({**pod, "initContainers": before}, sidecar)


def with_held_sidecar(pod: JSON, sidecar: JSON) -> JSON:
    """The pod of a process that waits, with what the agent beside it takes.

    Its image may have no shell, so the waiting process is that of the first container, and a volume that nothing mounts
    has the kubelet pull the image. Where this mode works, kubelets know such volumes.
    """
    first: JSON = next(iter(pod.get("containers") or []), {})
    fields: JSON = {key: sidecar[key] for key in ("name", "resources", "securityContext") if key in sidecar}
    waiting: JSON = {**fields, "image": first.get("image"), "command": first.get("command"), "restartPolicy": "Always"}
    volumes: list[JSON] = pod.get("volumes") or []
    if all(volume.get("name") != NAME for volume in volumes):  # an agent of the user's may have a volume of its name
        volumes = [*volumes, {"name": NAME, "image": {"reference": sidecar.get("image")}}]
    return {**pod, "initContainers": [*(pod.get("initContainers") or []), waiting], "volumes": volumes}


def _has_one(pod: JSON) -> bool:
    """Whether a part has the agent's name already.

    Admission refuses it; a second part of that name would add an error of the API server.
    """
    return any(part.get("name") == NAME for field in LISTS for part in pod.get(field) or [])


def _with_sidecar(agent: RestartAgent, pod: JSON) -> JSON:
    """The pod with the agent as its last init container, which starts after those of the user have ended."""
    port = agent.probe_port or DEFAULT_PORT
    sidecar: JSON = {
        "name": NAME,
        "image": agent.image,
        "restartPolicy": "Always",
        "restartPolicyRules": [_restart_all("In", EXIT_CODE)],
        "env": [*_IDENTITY_VARIABLES, {"name": "STARTUP_PROBE_PORT", "value": str(port)}],
        # Pods may be scheduled hours apart; the agent waits for the last of them.
        "startupProbe": {
            "httpGet": {"path": "/barrier-is-down", "port": port},
            "periodSeconds": 1,
            "failureThreshold": 86400,
        },
        "resources": RESOURCES,
        "securityContext": _SECURITY,
    }
    return {
        **pod,
        "initContainers": [*(pod.get("initContainers") or []), sidecar],
        "containers": [_with_restart_rule(container) for container in pod.get("containers") or []],
    }


def _with_restart_rule(container: JSON) -> JSON:
    """The container, which starts again with all others of its pod if it fails; rules of its own are kept."""
    if container.get("restartPolicyRules"):
        return {**_LOGS, **container}
    return {"restartPolicy": "Never", **_LOGS, **container, "restartPolicyRules": [_restart_all("NotIn", 0)]}


def _restart_all(operator: str, code: int) -> JSON:
    return {"action": "RestartAllContainers", "exitCodes": {"operator": operator, "values": [code]}}


def _with_agent_in_main_container(agent: RestartAgent, pod: JSON) -> JSON:
    """The pod whose first container runs the agent from a volume; the agent runs the command, without a shell."""
    mount = {"name": NAME, "mountPath": FOLDER}
    containers: list[JSON] = pod.get("containers") or []
    source: JSON = {"image": {"reference": agent.image}} if agent.image_volume else {"emptyDir": {}}
    result = {
        **pod,
        "containers": [_run_by_agent(containers[0], mount), *containers[1:]] if containers else containers,
        "volumes": [*(pod.get("volumes") or []), {"name": NAME, **source}],
    }
    if agent.image_volume:
        return result
    install: JSON = {
        "name": NAME,
        "image": agent.image,
        "command": ["cp", "/agent.pyz", f"{FOLDER}/"],
        "volumeMounts": [mount],
        "resources": RESOURCES,
        "securityContext": _SECURITY,
    }
    return {**result, "initContainers": [*(pod.get("initContainers") or []), install]}


def _run_by_agent(container: JSON, mount: dict[str, Any]) -> JSON:
    """The container, run by the agent, which restarts a failed worker unless the container has restart rules."""
    says = {RESTART_FAILED, RESTART_WORKER} & _environment(container).keys() or container.get("restartPolicyRules")
    restarts: list[JSON] = [] if says else [{"name": RESTART_FAILED, "value": "true"}]
    return {
        **_LOGS,
        **container,
        "command": ["python3", "-IBS", f"{FOLDER}/agent.pyz", "--", *(container.get("command") or [])],
        "env": [*(container.get("env") or []), *_IDENTITY_VARIABLES, *restarts],
        "volumeMounts": [*(container.get("volumeMounts") or []), {**mount, "readOnly": True}],
    }
