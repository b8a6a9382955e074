"""The agent that the controller adds to the pods of a set that restarts in place (spec.failurePolicy.agent).

See docs/reference/validation.md#agent-for-restarts-in-place.
"""

from collections.abc import Iterator

from api.policies import RestartAgent
from api.restart_agent import DEFAULT_PORT, NAME, agent_of
from kube.model.field import SPEC, ErrorType, FieldError
from webhooks.jobset.rules import Source
from webhooks.jobset.subject import Entry, Subject
from webhooks.jobset.templates import Container

_SOURCE = Source("docs/reference/validation.md#agent-for-restarts-in-place")
_AGENT = SPEC.at("failurePolicy", "agent")

NO_STRATEGY = _SOURCE.error(
    "restart-agent-strategy",
    "is only for restartStrategy InPlaceRestart: with another one, pods are created again",
    "set restartStrategy: InPlaceRestart, or remove the field",
    ErrorType.FORBIDDEN,
)
NEVER_READY = _SOURCE.error(
    "restart-agent-never-ready",
    "no pod of {name} is ready before all pods of the set run, and {who} only once it is ready: nothing starts",
    "set mode: MainContainer, whose pods are ready while they wait, or remove the order of start",
)
PORT = _SOURCE.error(
    "restart-agent-port",
    "replicatedJob {name}: container {container} has this port, too",
    "set probePort to a port that no container of these pods uses",
)
NAME_TAKEN = _SOURCE.error(
    "restart-agent-name",
    "replicatedJob {name}: the agent is added by this name",
    "use another name, or remove failurePolicy.agent if the template has the agent already",
)
NO_TOKEN = _SOURCE.error(
    "restart-agent-token",
    "replicatedJob {name}: the agent asks the API server, and needs the token of the pod's ServiceAccount",
    "remove the field, or set true; the rights are in docs/reference/in-place-restart.md#what-a-jobset-needs",
)
NO_COMMAND = _SOURCE.error(
    "restart-agent-command",
    "replicatedJob {name}: in mode MainContainer the agent runs the command, and cannot see that of the image",
    "write the command of the image (its ENTRYPOINT) here, or set mode: Sidecar",
    ErrorType.REQUIRED,
)
NOT_RESTARTED = _SOURCE.error(
    "restart-agent-restart-policy",
    "replicatedJob {name}: in mode MainContainer the kubelet has to start the container again",
    "set restartPolicy: OnFailure",
)

NO_AGENT = _SOURCE.warning(
    "in-place-restart-no-agent",
    "replicatedJob {name}: nothing in its pods can be the agent: they never restart in place",
    "set failurePolicy.agent, which adds it",
)
NO_RIGHTS = Source("docs/reference/in-place-restart.md#what-a-jobset-needs").warning(
    "in-place-restart-no-rights",
    "the agent in {name} patches its pod, and {why}",
    "{how}",
)
WATCHDOG = "PROGRESS_DEADLINE_SECONDS"
"""The variable that gives an agent a watchdog."""
UNREAD_WATCHDOG = _SOURCE.warning(
    "watchdog-unread",
    "no agent reads it: {why}",
    "{how}",
)
_DEFAULT_ACCOUNTS = (None, "", "default")


def check_strategy(subject: Subject) -> Iterator[FieldError]:
    """Check that a set with the agent restarts in place."""
    policy = subject.failure_policy
    if policy.agent is not None and policy.restart_strategy != "InPlaceRestart":
        yield NO_STRATEGY.at(_AGENT)


def check_pods(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Findings about pods that get the agent."""
    agent = agent_of(subject.js)
    if agent is None or entry.rjob.name in subject.names_without_agent:
        return
    path, pod, name = entry.pod_path.at("spec"), entry.job.template.spec, entry.rjob.name
    if pod.automount_service_account_token is False:
        yield NO_TOKEN.at(path.at("automountServiceAccountToken"), False, name=name)
    for item_path, container in entry.each_container():
        if container.name == NAME:
            yield NAME_TAKEN.at(item_path.at("name"), NAME, name=name)
    if agent.mode == "MainContainer":
        yield from _check_main_container(entry)
    else:
        yield from _check_sidecar(subject, entry, agent)


def check_rights(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Check that pods that restart in place have an agent, and that the agent has an account with rights."""
    restarts_in_place = subject.js.restarts_in_place and subject.gates["InPlaceRestart"]
    if not restarts_in_place or entry.rjob.name in subject.names_without_agent:
        return
    pod, path, name = entry.job.template.spec, entry.pod_path.at("spec"), entry.rjob.name
    is_added = agent_of(subject.js) is not None
    if not is_added and not _may_have_agent(entry):
        yield NO_AGENT.at(path, name=name)
    elif pod.service_account_name in _DEFAULT_ACCOUNTS:
        reason = "the account default may not, unless all pods may"
        yield NO_RIGHTS.at(path, name=name, why=reason, how="name an account that may in serviceAccountName")
    elif not is_added and pod.automount_service_account_token is False:
        reason = "has no token for that"
        how = "remove automountServiceAccountToken"
        yield NO_RIGHTS.at(path.at("automountServiceAccountToken"), False, name=name, why=reason, how=how)


def _may_have_agent(entry: Entry) -> bool:
    """Whether a container may be an agent: it gets the pod's name by a variable or a file, or is called an agent."""
    if any((volume.downward_api or volume.projected) is not None for _, volume in entry.each_volume()):
        return True
    containers = entry.job.template.spec.all_containers
    return any(variable.field == "metadata.name" for each in containers for variable in each.env) or any(
        map(_names_agent, containers)
    )


def _names_agent(container: Container) -> bool:
    texts = (container.name, container.image, *container.command, *container.args)
    return any(isinstance(text, str) and "agent" in text for text in texts)


def check_watchdog(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Check that a container with a watchdog runs its worker by an agent, since only an agent reads the variable."""
    for item_path, container in entry.each_container() if WATCHDOG in entry.variable_names else ():
        index = next((i for i, variable in enumerate(container.env) if variable.name == WATCHDOG), None)
        if (
            index is not None
            and not _names_agent(container)
            and (reason_and_fix := _unread_reason_and_fix(subject, entry, container))
        ):
            yield UNREAD_WATCHDOG.at(
                item_path.at("env", index, "name"), WATCHDOG, why=reason_and_fix[0], how=reason_and_fix[1]
            )


def _unread_reason_and_fix(subject: Subject, entry: Entry, container: Container) -> tuple[str, str] | None:
    """Why no agent reads the variables of this container, and the remedy; None if an agent may read them."""
    agent = agent_of(subject.js)
    if agent is None or entry.rjob.name in subject.names_without_agent:
        if not container.command:
            return None  # the entry point of the image may be an agent
        return "nothing in this container is one", "start the worker by the agent, or remove the variable"
    if agent.mode != "MainContainer":
        return "one that runs beside a worker cannot end it", "set failurePolicy.agent.mode: MainContainer"
    if container is entry.job.template.spec.containers[0]:
        return None
    return "it runs the first container only", "set the variable there"


def _check_main_container(entry: Entry) -> Iterator[FieldError]:
    path, pod, name = entry.pod_path.at("spec"), entry.job.template.spec, entry.rjob.name
    for item_path, volume in entry.each_volume():
        if volume.name == NAME:
            yield NAME_TAKEN.at(item_path.at("name"), NAME, name=name)
    for worker in pod.containers[:1]:
        if not worker.command:
            yield NO_COMMAND.at(path.at("containers", 0, "command"), name=name)
        if not worker.restart_policy_rules and (worker.restart_policy or pod.restart_policy) == "Never":
            yield NOT_RESTARTED.at(path.at("restartPolicy"), "Never", name=name)


def _check_sidecar(subject: Subject, entry: Entry, agent: RestartAgent) -> Iterator[FieldError]:
    pod, name = entry.job.template.spec, entry.rjob.name
    port = agent.probe_port or DEFAULT_PORT
    for container in pod.all_containers:
        if any(each.container_port == port for each in container.ports):
            yield PORT.at(_AGENT.at("probePort"), port, name=name, container=container.name)
    if clause := _dependent_clause(subject, entry):
        yield NEVER_READY.at(_AGENT.at("mode"), agent.mode or "Sidecar", name=name, who=clause)


def _dependent_clause(subject: Subject, entry: Entry) -> str:
    """A clause about a ReplicatedJob that starts only once this one is ready; empty if there is none."""
    startup = subject.js.spec.startup_policy
    if startup is not None and startup.startup_policy_order == "InOrder" and entry is not subject.entries[-1]:
        return "startupPolicy InOrder starts the next"
    dependent = subject.dependents_on_ready.get(entry.rjob.name)
    return "" if dependent is None else f"{dependent} starts"
