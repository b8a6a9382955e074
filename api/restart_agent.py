"""Adds the restart agent to the pods of a JobSet that has `failurePolicy.agent`. Pure.

A restart in place starts the processes of all pods again and keeps the pods (restartStrategy InPlaceRestart). For this,
each pod runs an agent, which reports failures and starts the pod's program, its worker, together with those of all
other pods. The agent runs in a container of its own (mode Sidecar), or in the first container, whose command it runs
(mode MainContainer). See docs/reference/in-place-restart.md#the-agent-in-every-pod.
"""

from typing import Any, Final

from api import keys
from api.jobset import JobSet, ReplicatedJob
from api.policies import RestartAgent
from kube.model.meta import JSON

NAME: Final = "jobset-agent"
"""The name of the container and volume that are added."""

DEFAULT_PORT: Final = 8081
"""The port of the startup probe of the agent in mode Sidecar."""
FOLDER: Final = "/jobset-agent"
"""Where the first container mounts the volume with the agent in mode MainContainer."""
EXIT_CODE: Final = 1
"""The agent exits with this code to make the kubelet restart all containers of the pod."""

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
"""Variable of the agent. "true": after a failure in another pod, the agent starts its worker again and stays."""
RESTART_FAILED: Final = "RESTART_FAILED_WORKER"
"""Variable of the agent. "true": after a failure of its own worker, the agent starts the worker again and stays."""

_LOGS: Final = {"terminationMessagePolicy": "FallbackToLogsOnError"}
"""This field of a container makes the kubelet report the last log lines as the termination message of a failure."""

LISTS: Final = ("containers", "initContainers", "volumes")
"""Lists of a pod spec that the agent may be added to."""

_IDENTITY_VARIABLES: Final[list[JSON]] = [
    {"name": "JOBSET_NAME", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{keys.JOBSET_NAME}']"}}},
    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
]


def agent_of(js: JobSet) -> RestartAgent | None:
    """`failurePolicy.agent`; None if it is absent, or if the JobSet has another restartStrategy."""
    policy = js.spec.failure_policy
    return policy.agent if policy is not None and js.restarts_in_place else None


def jobs_without_agent(js: JobSet) -> frozenset[str]:
    """Names of the ReplicatedJobs whose pods run no agent.

    These are spares (`api.spares`), and ReplicatedJobs that must complete before other ReplicatedJobs start.
    """
    return _names_to_complete(js).union(rjob.name for rjob in js.spec.replicated_jobs if rjob.spare_for)


def _names_to_complete(js: JobSet) -> frozenset[str]:
    """Names of the ReplicatedJobs that must complete before other ReplicatedJobs start."""
    dependencies = (dep for rjob in js.spec.replicated_jobs for dep in rjob.depends_on or ())
    return frozenset(dep.name for dep in dependencies if dep.status == "Complete")


def reporting_container(js: JobSet, rjob: ReplicatedJob) -> str:
    """The name of the container whose agent reports how its worker failed; empty if no agent does.

    Such an agent keeps running when its worker fails.
    """
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
    """The pod spec of a ReplicatedJob with the agent added.

    It is not changed if the ReplicatedJob needs no agent, or if a container or volume already has the agent's name.
    Pods of spares do not run the agent, but pull its image and request its resources.
    """
    agent = agent_of(js)
    if agent is None or rjob.name in _names_to_complete(js) or _has_agent_name(pod):
        return pod
    if rjob.spare_for:
        return _with_agent_resources(agent, pod)
    return _with_agent_in_main_container(agent, pod) if agent.mode == "MainContainer" else _with_sidecar(agent, pod)


def _with_agent_resources(agent: RestartAgent, pod: JSON) -> JSON:
    """The pod spec of a spare, which pulls the image of the agent and requests its resources.

    The existing containers are not changed. In mode Sidecar, the spec gets a sidecar that only waits.
    """
    if agent.mode == "MainContainer":
        return {**_with_agent_in_main_container(agent, pod), "containers": pod.get("containers") or []}
    [*init_containers, sidecar] = _with_sidecar(agent, pod)["initContainers"]
    return with_waiting_sidecar({**pod, "initContainers": init_containers}, sidecar)


def with_waiting_sidecar(pod: JSON, sidecar: JSON) -> JSON:
    """The pod spec with a sidecar that only waits, and has the name and resources of the agent's `sidecar`.

    `pod`: a spec whose containers only wait. The agent's image may have no shell, so the new sidecar has the image and
    command of the first container. A volume with the agent's image, which no container mounts, makes the kubelet pull
    this image. All kubelets that support mode Sidecar support such volumes.
    """
    container: JSON = next(iter(pod.get("containers") or []), {})
    fields: JSON = {key: sidecar[key] for key in ("name", "resources", "securityContext") if key in sidecar}
    image, command = container.get("image"), container.get("command")
    waiting_sidecar: JSON = {**fields, "image": image, "command": command, "restartPolicy": "Always"}
    volumes: list[JSON] = pod.get("volumes") or []
    if all(volume.get("name") != NAME for volume in volumes):  # the user may have added an agent with this volume
        volumes = [*volumes, {"name": NAME, "image": {"reference": sidecar.get("image")}}]
    return {**pod, "initContainers": [*(pod.get("initContainers") or []), waiting_sidecar], "volumes": volumes}


def _has_agent_name(pod: JSON) -> bool:
    """Whether a container or volume already has the agent's name.

    Admission refuses such a pod template. With a second item of this name, the API server would report another error.
    """
    return any(item.get("name") == NAME for field in LISTS for item in pod.get(field) or [])


def _with_sidecar(agent: RestartAgent, pod: JSON) -> JSON:
    """The pod spec with the agent as its last init container. It starts after the user's init containers."""
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
    """The container with a rule: if it fails, all containers of the pod restart. Rules of the user stay as they are."""
    if container.get("restartPolicyRules"):
        return {**_LOGS, **container}
    return {"restartPolicy": "Never", **_LOGS, **container, "restartPolicyRules": [_restart_all_rule("NotIn", 0)]}


def _restart_all_rule(operator: str, code: int) -> JSON:
    return {"action": "RestartAllContainers", "exitCodes": {"operator": operator, "values": [code]}}


def _with_agent_in_main_container(agent: RestartAgent, pod: JSON) -> JSON:
    """The pod spec whose first container runs the agent from a volume. The agent runs the container's command."""
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
    """The container in which the agent runs the command.

    The agent starts the command again if it fails. The user can choose another behavior with a variable of the agent,
    or with restart rules of the container.
    """
    variables = _environment(container).keys()
    is_chosen_by_user = {RESTART_FAILED, RESTART_WORKER} & variables or container.get("restartPolicyRules")
    restart_variables: list[JSON] = [] if is_chosen_by_user else [{"name": RESTART_FAILED, "value": "true"}]
    return {
        **_LOGS,
        **container,
        "command": ["python3", "-IBS", f"{FOLDER}/agent.pyz", "--", *(container.get("command") or [])],
        "env": [*(container.get("env") or []), *_IDENTITY_VARIABLES, *restart_variables],
        "volumeMounts": [*(container.get("volumeMounts") or []), {**mount, "readOnly": True}],
    }
