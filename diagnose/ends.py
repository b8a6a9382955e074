"""Checks of pods that were preempted or evicted, are on nodes that do not work, or take long to end. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from api import keys
from api.event import SeenEvent
from controllers.planning.node_failure import GATE, OUT_OF_SERVICE, UNREACHABLE
from diagnose.answers import Answer, KeyedFinding, one_answer_per_key
from diagnose.case import Case
from diagnose.disruptions import disruption_fix
from diagnose.facts import SeenPod
from diagnose.finding import Finding, Level
from diagnose.nodes import SeenNode
from diagnose.states import RECENT_SECONDS
from diagnose.times import age, seconds_since
from kube.model.field import MAX_NAMES

WAITS_FOR_NODE = "restart-waits-for-node"
"""The cause of findings about pods that are being deleted and that their node does not end."""
_OVERDUE_SECONDS = 10.0
"""A pod that still exists is overdue this number of seconds after the end of its grace period."""
_JOB_CONTROLLER_PREFIX = "batch.kubernetes.io/"
"""Prefix of the finalizer of the Job controller. It needs no fix, since the Job controller removes it by itself."""
_POLICY_MARGIN_SECONDS = 60.0
"""Seconds that the manager may take to act on a failed node once `afterSeconds` of the policy are over."""
_GATE_FIX = f"start the manager with --feature-gates={GATE}=true"
_FAULTS_BY_TAINT = {
    UNREACHABLE: "unreachable",
    OUT_OF_SERVICE: "out of service",
    "node.kubernetes.io/not-ready": "not ready",
}
"""What is wrong with a node, by the key of the taint that Kubernetes or an administrator sets."""


def describe_disruption(event: SeenEvent) -> str:
    """What happened to the pod of the event, as the end of `the pod was …`: `preempted by pod team-b/urgent-0`."""
    match event.reason:
        case "Preempted":
            if event.related and event.related.name:
                return f"preempted by pod {event.related.namespace}/{event.related.name}"
            return _with_note("preempted", event)
        case "TaintManagerEviction":
            return "evicted, because its node got a taint with the effect NoExecute"
        case "NodeNotReady":
            return "marked as not ready, because its node is not ready"
        case _:
            return _with_note("evicted", event)


def _with_note(word: str, event: SeenEvent) -> str:
    return f"{word}: {event.note.rstrip('. ')}" if event.note else word


def disrupted_pods(case: Case, unexplained_jobs: frozenset[str]) -> list[Answer]:
    """Pods of unexplained Jobs that were preempted or evicted in the last hour: one finding for each disruption."""
    events_by_disruption: dict[str, list[SeenEvent]] = {}
    pod_names: set[str] = set()
    for event in case.disruptions:
        is_recent, name = seconds_since(event.last_time, case.facts.now) <= RECENT_SECONDS, event.regarding.name
        indexed_job, non_indexed_job = name.rsplit("-", 2)[0], name.rsplit("-", 1)[0]
        is_unexplained = indexed_job in unexplained_jobs or non_indexed_job in unexplained_jobs
        if is_unexplained and is_recent and name not in pod_names:
            events_by_disruption.setdefault(describe_disruption(event), []).append(event)
            pod_names.add(name)
    return [Answer(_disruption_finding(case, text, events)) for text, events in events_by_disruption.items()]


def _disruption_finding(case: Case, disruption: str, events: list[SeenEvent]) -> Finding:
    first = events[0]
    predicate = f" and {len(events) - 1} more were" if len(events) > 1 else " was"
    fix = "a higher priorityClassName keeps pods from being preempted; kubectl get priorityclass lists those there are"
    names = {first.regarding.name.rsplit("-", parts)[0] for parts in (1, 2)}
    job = next((job for job in case.facts.jobs or () if job.metadata.name in names), None)
    if job is not None and job.spec.backoff_limit == 0:  # else its Job creates another pod, and no restart counts
        fix = "; ".join(filter(None, [fix, disruption_fix(case.facts.jobset, job.metadata.name)]))
    if first.reason != "Preempted":
        fix = f"kubectl describe pod -n {first.regarding.namespace} {first.regarding.name}; kubectl describe node NODE"
    message = f"pod {first.regarding.name}{predicate} {disruption}"
    return Finding(Level.WAITS, first.reason.lower(), message, fix=fix, since=first.first_time)


@one_answer_per_key
def failed_nodes(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """Pods with status Running on nodes that are gone, unreachable, out of service or not ready."""
    for child in case.unready_jobs(unexplained_jobs):
        for pod in case.pods_of(child):
            if pod.is_unready_without_reason and (node := pod.spec.node_name) in case.facts.nodes_by_name:
                fault, since = _node_fault(case.facts.nodes_by_name[node])
                if fault:
                    message = f"Job {child.name}: pod {pod.name} is on node {node}, {fault}"
                    fix = f"if the node is off for good: {_pod_deletion_command(case, node)}"
                    finding = Finding(Level.FAULT, "node-failed", message, _policy_findings(case, since), fix, since)
                    yield KeyedFinding(child.name, (node, fault), finding)
                    break


def _node_fault(node: SeenNode | None) -> tuple[str, str]:
    """The fault of a node, as a relative clause, and since when; both empty if the node has no fault."""
    if node is None:
        return "which does not exist any more", ""
    times = {taint.key: taint.time_added or "" for taint in node.spec.taints}
    return next(((f"which is {word}", times[key]) for key, word in _FAULTS_BY_TAINT.items() if key in times), ("", ""))


def _pod_deletion_command(case: Case, node: str) -> str:
    """The command that deletes all pods of the JobSet on a node."""
    meta = case.facts.jobset.metadata
    return (
        f"kubectl delete pods -n {meta.namespace} -l {keys.JOBSET_NAME}={meta.name}"
        f" --field-selector spec.nodeName={node} --force"
    )


def _policy_findings(case: Case, since: str) -> tuple[Finding, ...]:
    """The finding about when the failure policy acts on a node that has failed at `since`."""
    policy, fix = case.facts.jobset.failure_policy.node_failure, ""
    seconds_left = _time_left(case, since)
    limit = f"spec.failurePolicy.nodeFailure.afterSeconds is {policy.after_seconds if policy else 0}"
    if policy is None:
        message = "spec.failurePolicy.nodeFailure is not set: nothing is done about it"
    elif case.has_gate_warning(GATE):
        message, fix = f"nothing is done about it: the manager runs without the feature gate {GATE}", _GATE_FIX
    elif seconds_left is None:
        message, fix = f"no manager has acted on it: {limit}", _GATE_FIX
    elif seconds_left > 0:
        in_place = case.facts.jobset.restarts_in_place
        ends = "its Job fails, or in place the pod is replaced," if in_place else "its Job fails"
        message = f"{ends} in {age(seconds_left)}: {limit}"
    else:
        message = f"the failure policy decides: {limit}"
    return (Finding(Level.NOTE, "node-failure-policy", message, fix=fix),)


def _time_left(case: Case, since: str) -> float | None:
    """Seconds until the failure policy acts on a node that has failed at `since`; 0 if the policy acts now.

    None if the policy should have acted, or there is no policy, or `since` is not known.
    """
    policy, waited = case.facts.jobset.failure_policy.node_failure, seconds_since(since, case.facts.now)
    if policy is None or waited >= policy.after_seconds + _POLICY_MARGIN_SECONDS:
        return None
    return max(policy.after_seconds - waited, 0)


def deletion_delays(case: Case) -> tuple[Finding, ...]:
    """Findings about pods that delay a restart, because their node does not end them, or because they take long."""
    return (*_node_findings(case, case.facts.ending_pods), *_ending_pod_findings(case, case.facts.ending_pods))


def _ending_pod_findings(case: Case, pods: Iterable[SeenPod]) -> Iterator[Finding]:
    """Up to two findings about pods that working nodes end: the overdue pods, and the pods that still have time."""
    nodes, now = case.facts.nodes_by_name, case.facts.now
    ending = [pod for pod in pods if (name := pod.spec.node_name) not in nodes or _may_end(case, nodes[name], pod)]
    seconds_over = {pod.name: seconds_since(pod.metadata.deletion_timestamp, now, unknown=0) for pod in ending}
    overdue = [pod for pod in ending if seconds_over[pod.name] > _OVERDUE_SECONDS]
    in_time = [pod for pod in ending if seconds_over[pod.name] <= _OVERDUE_SECONDS]
    for group in filter(None, (overdue, in_time)):
        pod = min(group, key=lambda pod: (-seconds_over[pod.name], pod.name))
        is_single, meta = len(group) == 1, pod.metadata
        subject = f"pod {pod.name} on node {pod.spec.node_name} is" if is_single else _several_pods_are(group, pod)
        grace = f"{'its' if is_single else 'the'} grace period of {meta.deletion_grace_period_seconds or 0} s"
        finalizers = [name for name in meta.finalizers if not name.startswith(_JOB_CONTROLLER_PREFIX)]
        if group is in_time:
            message = f"{subject} being deleted: {grace} ends in {age(-seconds_over[pod.name])}"
            yield Finding(Level.WAITS, "pod-ending", message, fix="wait until then")
        else:
            message = f"{subject} being deleted, overdue by {age(seconds_over[pod.name])}: {grace} is over"
            fix = _overdue_fix(pod)
            if finalizers:
                message = f"{message}: finalizer {finalizers[0]} holds it"
                fix = "look at the controller that the finalizer is named after: it has to remove it"
            yield Finding(Level.FAULT, "pod-overdue", message, fix=fix, since=meta.deletion_timestamp or "")


def _may_end(case: Case, node: SeenNode | None, pod: SeenPod) -> bool:
    """Whether the node may still end the pod."""
    return node is not None and not _dead_node_taint(case, node, pod)[0]


def _several_pods_are(pods: list[SeenPod], first: SeenPod) -> str:
    nodes = {pod.spec.node_name for pod in pods}
    location = "there" if len(nodes) == 1 else f"on {len(nodes)} nodes"
    return f"pod {first.name} on node {first.spec.node_name} and {len(pods) - 1} more {location} are"


def _overdue_fix(pod: SeenPod) -> str:
    pod_arguments = f"-n {pod.metadata.namespace} {pod.name}"
    return (
        f"kubectl describe pod {pod_arguments} and kubectl describe node {pod.spec.node_name} show what keeps it: a"
        " process that hangs in a driver or in the kernel ends with a restart of the node; once nothing of it runs"
        f" there: kubectl delete pod {pod_arguments} --grace-period=0 --force"
    )


def earlier_deletion_delays(case: Case, job: str) -> Iterator[Finding]:
    """Findings about pods that delay the deletion of a Job of an earlier JobSet, whose failure policy is not known."""
    owners = ((pod, pod.metadata.controller()) for pod in case.facts.namesake_pods)
    for finding in _node_findings(case, [pod for pod, owner in owners if owner is not None and owner.name == job]):
        level = Level.FAULT if finding.because else finding.level
        yield replace(finding, cause="earlier-waits-for-node", level=level, because=())


def _node_findings(case: Case, pods: Iterable[SeenPod]) -> tuple[Finding, ...]:
    """Findings about nodes that do not end these pods, one for each node."""
    by_node: dict[str, list[SeenPod]] = {}
    for pod in pods:
        if pod.spec.node_name in case.facts.nodes_by_name:
            by_node.setdefault(pod.spec.node_name, []).append(pod)
    nodes = case.facts.nodes_by_name
    findings = (_node_finding(case, name, nodes[name], pods_there) for name, pods_there in by_node.items())
    return tuple(finding for finding in findings if finding is not None)


def _node_finding(case: Case, name: str, node: SeenNode | None, pods: list[SeenPod]) -> Finding | None:
    """The finding about pods that are being deleted on one node; None if the node may still end them."""
    subject = f"pod {pods[0].name} is" if len(pods) == 1 else f"pod {pods[0].name} and {len(pods) - 1} more are"
    names = " ".join(pod.name for pod in pods[:MAX_NAMES])
    force = f"kubectl delete pod -n {pods[0].metadata.namespace} {names} --grace-period=0 --force"
    level, because = Level.WAITS, tuple[Finding, ...]()
    if node is None:
        fault, since = "which does not exist any more", ""
        fix = f"wait: Kubernetes deletes such pods within two minutes; or {force}"
    else:
        taint, since = _dead_node_taint(case, node, pods[0])
        if not taint:
            return None
        fault = f"which has the taint {taint}"
        fix = "wait: Kubernetes deletes the pods of a node with this taint while the node is not ready"
        if taint != OUT_OF_SERVICE:
            fence = f"kubectl taint nodes {name} {OUT_OF_SERVICE}=nodeshutdown:NoExecute"
            risk = "which risks two processes for one rank if the node is only cut off"
            fix = f"once the machine is off or fenced: {fence}; or {force}, {risk}"
            level, because = _forced_deletion(case, since)
    message = f"{subject} being deleted on node {name}, {fault}"
    return Finding(level, WAITS_FOR_NODE, message, because=because, fix=fix, since=since)


def _dead_node_taint(case: Case, node: SeenNode, pod: SeenPod) -> tuple[str, str]:
    """The key of the taint that shows that the node does not end the pod, and when it was added; else both are empty.

    The kubelet of a node that is not ready, or that has any other taint with the effect NoExecute, may still end pods.
    So these taints count only once the grace period of the pod is over.
    """
    is_overdue = seconds_since(pod.metadata.deletion_timestamp, case.facts.now, unknown=0) > 0
    times = {taint.key: taint.time_added or "" for taint in node.spec.taints}
    evicting_keys = [taint.key for taint in node.spec.taints if taint.effect == "NoExecute" and is_overdue]
    return next(((key, times[key]) for key in (OUT_OF_SERVICE, UNREACHABLE, *evicting_keys) if key in times), ("", ""))


def _forced_deletion(case: Case, since: str) -> tuple[Level, tuple[Finding, ...]]:
    """Whether the manager deletes the pods of a node that has failed at `since`: one finding, and the level for it."""
    policy, seconds_left = case.facts.jobset.failure_policy.node_failure, _time_left(case, since)
    field, level, fix = "spec.failurePolicy.nodeFailure.forceDeletePods", Level.FAULT, ""
    if policy is None or not policy.force_delete_pods:
        message = f"{field} is not set: the manager does not delete it"
    elif case.has_gate_warning(GATE):
        message, fix = f"the manager does not delete it: it runs without the feature gate {GATE}", _GATE_FIX
    elif seconds_left is None:
        message, fix = f"no manager has deleted it: {field} is true", _GATE_FIX
    else:
        level, when = Level.WAITS, f"in {age(seconds_left)}" if seconds_left else "now"
        message = f"the manager deletes it {when}: {field} is true"
    return level, (Finding(Level.NOTE, "node-failure-policy", message, fix=fix),)
