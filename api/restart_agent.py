"""Adds the agent for restarts in place to the pods of a JobSet that has `failurePolicy.agent`. Pure.

See docs/reference/in-place-restart.md#the-agent-in-every-pod.
"""

from typing import Any, Final

from api import keys
from api.jobset import JobSet, ReplicatedJob
from api.policies import RestartAgent
from kube.model.meta import JSON

NAME: Final = "jobset-agent"
"""The name of the container and volume that are added."""

DEFAULT_PORT: Final = 8081
FOLDER: Final = "/jobset-agent"
EXIT_CODE: Final = 1
"""The exit code by which the agent makes the kubelet restart all containers, unless its environment sets another."""

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
"""Variables of the agent: whether it starts its worker again when a worker of another pod, or its own, has failed."""

_LOGS: Final = {"terminationMessagePolicy": "FallbackToLogsOnError"}
"""A field of containers, by which the kubelet keeps the last lines of a failed container's log as its message."""

LISTS: Final = ("containers", "initContainers", "volumes")

_IDENTITY_VARIABLES: Final[list[JSON]] = [
    {"name": "JOBSET_NAME", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{keys.JOBSET_NAME}']"}}},
    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
]


def agent_of(js: JobSet) -> RestartAgent | None:
    """The agent's settings; None if there are none, or the pods of the JobSet do not restart in place."""
    policy = js.spec.failure_policy
    return policy.agent if policy is not None and js.restarts_in_place else None


def jobs_without_agent(js: JobSet) -> frozenset[str]:
    """Names of the ReplicatedJobs without an agent: spares, and those that must complete before others start."""
    return _jobs_to_complete(js).union(rjob.name for rjob in js.spec.replicated_jobs if rjob.spare_for)


def _jobs_to_complete(js: JobSet) -> frozenset[str]:
    """Names of the ReplicatedJobs that must complete before other ReplicatedJobs start."""
    dependencies = (dep for rjob in js.spec.replicated_jobs for dep in rjob.depends_on or ())
    return frozenset(dep.name for dep in dependencies if dep.status == "Complete")


def reporting_container(js: JobSet, rjob: ReplicatedJob) -> str:
    """The name of the container whose agent runs on and reports how its worker failed; empty if no agent does."""
    if not js.restarts_in_place:
        return ""
    containers = with_agent(js, rjob, rjob.pod_spec).get("containers") or []
    reporting = (container for container in containers if _environment(container).get(RESTART_FAILED) == "true")
    return next((str(container.get("name") or "") for container in reporting), "")


def _environment(container: JSON) -> dict[str, Any]:
    """The values of a container's variables by name; None for a variable with another source."""
    env = container.get("env")
    variables = env if isinstance(env, list) else []
    return {str(variable.get("name")): variable.get("value") for variable in variables if isinstance(variable, dict)}


def with_agent(js: JobSet, rjob: ReplicatedJob, pod: JSON) -> JSON:
    """The pod spec with the agent; unchanged if the ReplicatedJob has no agent, or a container of the agent's name.

    Pods of spares do not run the agent. They pull its image and request its resources.
    """
    agent = agent_of(js)
    if agent is None or rjob.name in _jobs_to_complete(js) or _has_agent_name(pod):
        return pod
    if rjob.spare_for:
        return _with_held_sidecar_for(agent, pod)
    return _with_agent_in_main_container(agent, pod) if agent.mode == "MainContainer" else _with_sidecar(agent, pod)


def _with_held_sidecar_for(agent: RestartAgent, pod: JSON) -> JSON:
    """The pod of a spare with the image and resources of the agent.

    Its containers are not changed. In mode Sidecar, another container that only waits has the agent's resources.
    """
    if agent.mode == "MainContainer":
        return {**_with_agent_in_main_container(agent, pod), "containers": pod.get("containers") or []}
    [*init_containers, sidecar] = _with_sidecar(agent, pod)["initContainers"]
    return with_held_sidecar({**pod, "initContainers": init_containers}, sidecar)


def with_held_sidecar(pod: JSON, sidecar: JSON) -> JSON:
    """The pod, whose containers only wait, with one more container that waits in place of the agent's sidecar.

    The agent's image may have no shell, so the new container has the image and command of the first container. A volume
    that nothing mounts makes the kubelet pull the agent's image. Kubelets that support this mode know such volumes.
    """
    container: JSON = next(iter(pod.get("containers") or []), {})
    fields: JSON = {key: sidecar[key] for key in ("name", "resources", "securityContext") if key in sidecar}
    image, command = container.get("image"), container.get("command")
    held_sidecar: JSON = {**fields, "image": image, "command": command, "restartPolicy": "Always"}
    volumes: list[JSON] = pod.get("volumes") or []
    if all(volume.get("name") != NAME for volume in volumes):  # the user may have added an agent with this volume
        volumes = [*volumes, {"name": NAME, "image": {"reference": sidecar.get("image")}}]
    return {**pod, "initContainers": [*(pod.get("initContainers") or []), held_sidecar], "volumes": volumes}


def _has_agent_name(pod: JSON) -> bool:
    """Whether a container or volume has the agent's name already.

    Admission refuses such a pod template. A second item of that name would add an error of the API server.
    """
    return any(item.get("name") == NAME for field in LISTS for item in pod.get(field) or [])


def _with_sidecar(agent: RestartAgent, pod: JSON) -> JSON:
    """The pod with the agent as its last init container, which starts after the user's init containers have ended."""
    port = agent.probe_port or DEFAULT_PORT
    sidecar: JSON = {
        "name": NAME,
        "image": agent.image,
        "restartPolicy": "Always",
        "restartPolicyRules": [_restart_all_rule("In", EXIT_CODE)],
        "env": [*_IDENTITY_VARIABLES, {"name": "STARTUP_PROBE_PORT", "value": str(port)}],
        # The agent waits for the last pod of the set, which may be scheduled hours later.
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
    """The container with a rule that restarts all containers of the pod if it fails, unless it has rules already."""
    if container.get("restartPolicyRules"):
        return {**_LOGS, **container}
    return {"restartPolicy": "Never", **_LOGS, **container, "restartPolicyRules": [_restart_all_rule("NotIn", 0)]}


def _restart_all_rule(operator: str, code: int) -> JSON:
    return {"action": "RestartAllContainers", "exitCodes": {"operator": operator, "values": [code]}}


def _with_agent_in_main_container(agent: RestartAgent, pod: JSON) -> JSON:
    """The pod whose first container runs the agent from a volume. The agent runs the container's command."""
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
    install_container: JSON = {
        "name": NAME,
        "image": agent.image,
        "command": ["cp", "/agent.pyz", f"{FOLDER}/"],
        "volumeMounts": [mount],
        "resources": RESOURCES,
        "securityContext": _SECURITY,
    }
    return {**result, "initContainers": [*(pod.get("initContainers") or []), install_container]}


def _run_by_agent(container: JSON, mount: dict[str, Any]) -> JSON:
    """The container with the agent, which runs the command, and restarts it if it fails unless the container says how.

    A container says how it restarts by the agent's variables or by restart rules.
    """
    says_how = {RESTART_FAILED, RESTART_WORKER} & _environment(container).keys() or container.get("restartPolicyRules")
    restarts: list[JSON] = [] if says_how else [{"name": RESTART_FAILED, "value": "true"}]
    return {
        **_LOGS,
        **container,
        "command": ["python3", "-IBS", f"{FOLDER}/agent.pyz", "--", *(container.get("command") or [])],
        "env": [*(container.get("env") or []), *_IDENTITY_VARIABLES, *restarts],
        "volumeMounts": [*(container.get("volumeMounts") or []), {**mount, "readOnly": True}],
    }
