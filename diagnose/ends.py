"""Causes about disrupted pods, and about nodes that do not answer. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from api import keys
from api.event import SeenEvent
from controllers.planning.node_failure import GATE, OUT_OF_SERVICE, UNREACHABLE, policy_of
from diagnose.answers import Answer, KeyedFinding, about_jobs
from diagnose.case import Case
from diagnose.disruptions import not_counted
from diagnose.facts import SeenPod
from diagnose.finding import MAX_NAMES, Finding, Level
from diagnose.nodes import SeenNode
from diagnose.states import RECENT
from diagnose.times import age, seconds_since

WAITS_FOR_NODE = "restart-waits-for-node"
"""Cause of a finding about deleted pods whose node does not end them."""
_OVERDUE = 10.0
"""Seconds that a kubelet may take after the grace period of a pod until the pod is gone."""
_OF_JOBS = "batch.kubernetes.io/"
"""Prefix of the finalizer of the Job controller, which removes it itself."""
_HELD_BY_FINALIZER = "look at the controller that the finalizer is named after: it has to remove it"
_MARGIN = 60.0
"""Seconds that the manager may take to act on a failed node after the policy's time."""
_WITH_GATE = f"start the manager with --feature-gates={GATE}=true"
_STATES = {
    UNREACHABLE: "unreachable",
    OUT_OF_SERVICE: "out of service",
    "node.kubernetes.io/not-ready": "not ready",
}


def end_words(event: SeenEvent) -> str:
    """`preempted by pod team-b/urgent-0`, behind `was`."""
    match event.reason:
        case "Preempted":
            preemptor = event.related
            return (
                f"preempted by pod {preemptor.namespace}/{preemptor.name}"
                if preemptor and preemptor.name
                else _note("preempted", event)
            )
        case "TaintManagerEviction":
            return "evicted, because its node got a taint with the effect NoExecute"
        case "NodeNotReady":
            return "marked as not ready, because its node is not ready"
        case _:
            return _note("evicted", event)


def _note(word: str, event: SeenEvent) -> str:
    return f"{word}: {event.note.rstrip('. ')}" if event.note else word


def ended_from_outside(case: Case, left: frozenset[str]) -> list[Answer]:
    """Pods that were preempted or evicted within the last hour, of Jobs that are not ready."""
    found: dict[str, list[SeenEvent]] = {}
    seen: set[str] = set()
    for event in case.ends:
        since = seconds_since(event.last, case.facts.now)
        name = event.regarding.name
        mine = name.rsplit("-", 2)[0] in left or name.rsplit("-", 1)[0] in left  # of an Indexed or a NonIndexed Job
        if mine and since is not None and since <= RECENT:
            if name not in seen:
                found.setdefault(end_words(event), []).append(event)
            seen.add(name)
    return [Answer(_ended_pods(case, words, events)) for words, events in found.items()]


def _ended_pods(case: Case, words: str, events: list[SeenEvent]) -> Finding:
    first = events[0]
    more = f" and {len(events) - 1} more were" if len(events) > 1 else " was"
    fix = "a higher priorityClassName keeps pods from being preempted; kubectl get priorityclass lists those there are"
    names = {first.regarding.name.rsplit("-", parts)[0] for parts in (1, 2)}
    job = next((job for job in case.facts.jobs or () if job.metadata.name in names), None)
    if job is not None and job.spec.backoff_limit == 0:  # else its Job creates another pod, and no restart counts
        fix = "; ".join(filter(None, [fix, not_counted(case.facts.jobset, job.metadata.name)]))
    if first.reason != "Preempted":
        fix = f"kubectl describe pod -n {first.regarding.namespace} {first.regarding.name}; kubectl describe node NODE"
    message = f"pod {first.regarding.name}{more} {words}"
    return Finding(Level.WAITS, first.reason.lower(), message, fix=fix, since=first.first)


@about_jobs
def node_fails(case: Case, left: frozenset[str]) -> Iterator[KeyedFinding]:
    """Pods with status Running on nodes that are gone, unreachable, out of service or not ready."""
    for child in case.unready_jobs(left):
        for pod in case.pods_of(child):
            if pod.silent and (node := pod.spec.node_name) in case.facts.nodes_by_name:
                state, since = _state(case.facts.nodes_by_name[node])
                if state:
                    message = f"Job {child.name}: pod {pod.name} is on node {node}, {state}"
                    fix = f"if the node is off for good: {_end_pods_on(case, node)}"
                    finding = Finding(Level.FAULT, "node-failed", message, _handling(case, since), fix, since)
                    yield KeyedFinding(child.name, (node, state), finding)
                    break


def _state(node: SeenNode | None) -> tuple[str, str]:
    """The fault of a node, as a relative clause, and its time; both empty if it has none."""
    if node is None:
        return "which does not exist any more", ""
    times = {taint.key: taint.time_added or "" for taint in node.spec.taints}
    return next(((f"which is {word}", times[key]) for key, word in _STATES.items() if key in times), ("", ""))


def _end_pods_on(case: Case, node: str) -> str:
    """The command that ends all pods of the set on a node: a Job may have more than one there."""
    meta = case.facts.jobset.metadata
    return (
        f"kubectl delete pods -n {meta.namespace} -l {keys.JOBSET_NAME}={meta.name}"
        f" --field-selector spec.nodeName={node} --force"
    )


def _handling(case: Case, since: str) -> tuple[Finding, ...]:
    """How the failure policy handles it."""
    policy, fix = policy_of(case.facts.jobset), ""
    left = _time_left(case, since)
    limit = f"spec.failurePolicy.nodeFailure.afterSeconds is {policy.after_seconds if policy else 0}"
    if policy is None:
        message = "spec.failurePolicy.nodeFailure is not set: nothing is done about it"
    elif case.without_effect(GATE):
        message, fix = f"nothing is done about it: the manager runs without the feature gate {GATE}", _WITH_GATE
    elif left is None:
        message, fix = f"no manager has acted on it: {limit}", _WITH_GATE
    elif left > 0:
        in_place = case.facts.jobset.restarts_in_place
        ends = "its Job fails, or in place the pod is replaced," if in_place else "its Job fails"
        message = f"{ends} in {age(left)}: {limit}"
    else:
        message = f"the failure policy decides: {limit}"
    return (Finding(Level.NOTE, "node-failure-policy", message, fix=fix),)


def _time_left(case: Case, since: str) -> float | None:
    """Seconds until the policy acts on a node that has failed since then; 0: it acts now; None: it should have acted.

    Also None if it is not known since when the node has failed.
    """
    policy, waited = policy_of(case.facts.jobset), seconds_since(since, case.facts.now)
    if policy is None or waited is None or waited >= policy.after_seconds + _MARGIN:
        return None
    return max(policy.after_seconds - waited, 0)


def held_up(case: Case) -> tuple[Finding, ...]:
    """Why a restart is delayed: nodes that do not end pods of an earlier attempt, and pods that take long to end."""
    return (*_nodes_of(case, case.facts.ending), *_ending(case, case.facts.ending))


def _ending(case: Case, pods: Iterable[SeenPod]) -> Iterator[Finding]:
    """Pods that are being deleted on working nodes: how long that may take, or how overdue they are."""
    nodes, now = case.facts.nodes_by_name, case.facts.now
    on_nodes = [pod for pod in pods if (name := pod.spec.node_name) not in nodes or _may_end(case, nodes[name], pod)]
    seconds_over = {pod.name: seconds_since(pod.metadata.deletion_timestamp or "", now) or 0.0 for pod in on_nodes}
    overdue = [pod for pod in on_nodes if seconds_over[pod.name] > _OVERDUE]
    for found in (overdue, [pod for pod in on_nodes if seconds_over[pod.name] <= _OVERDUE]):
        if not found:
            continue
        pod = min(found, key=lambda pod: (-seconds_over[pod.name], pod.name))
        one, meta = len(found) == 1, pod.metadata
        subject = f"pod {pod.name} on node {pod.spec.node_name} is" if one else _several(found, pod)
        grace = f"{'its' if one else 'the'} grace period of {meta.deletion_grace_period_seconds or 0} s"
        holders = [name for name in meta.finalizers if not name.startswith(_OF_JOBS)]
        if found is not overdue:
            message = f"{subject} being deleted: {grace} ends in {age(-seconds_over[pod.name])}"
            yield Finding(Level.WAITS, "pod-ending", message, fix="wait until then")
        else:
            finalizer_text = f": finalizer {holders[0]} holds it" if holders else ""
            message = (
                f"{subject} being deleted, overdue by {age(seconds_over[pod.name])}: {grace} is over{finalizer_text}"
            )
            fix = _HELD_BY_FINALIZER if holders else _overdue_fix(pod)
            yield Finding(Level.FAULT, "pod-overdue", message, fix=fix, since=meta.deletion_timestamp or "")


def _may_end(case: Case, node: SeenNode | None, pod: SeenPod) -> bool:
    return node is not None and not _taint(case, node, pod)[0]


def _several(pods: list[SeenPod], first: SeenPod) -> str:
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


def held_by_earlier(case: Case, job: str) -> tuple[Finding, ...]:
    """As `held_up`, for Jobs of an earlier JobSet of the same name, whose policy is unknown."""
    owners = ((pod, pod.metadata.controller()) for pod in case.facts.earlier)
    pods = [pod for pod, owner in owners if owner is not None and owner.name == job]
    found = _nodes_of(case, pods)
    return tuple(
        replace(
            finding, cause="earlier-waits-for-node", level=Level.FAULT if finding.because else finding.level, because=()
        )
        for finding in found
    )


def _nodes_of(case: Case, pods: Iterable[SeenPod]) -> tuple[Finding, ...]:
    by_node: dict[str, list[SeenPod]] = {}
    for pod in pods:
        if pod.spec.node_name in case.facts.nodes_by_name:
            by_node.setdefault(pod.spec.node_name, []).append(pod)
    found = (_held_up(case, name, case.facts.nodes_by_name[name], pods) for name, pods in by_node.items())
    return tuple(finding for finding in found if finding is not None)


def _held_up(case: Case, name: str, node: SeenNode | None, pods: list[SeenPod]) -> Finding | None:
    """The finding about pods on a node; None if the node may still end them."""
    subject = f"pod {pods[0].name} is" if len(pods) == 1 else f"pod {pods[0].name} and {len(pods) - 1} more are"
    names = " ".join(pod.name for pod in pods[:MAX_NAMES])
    force = f"kubectl delete pod -n {pods[0].metadata.namespace} {names} --grace-period=0 --force"
    level, because = Level.WAITS, tuple[Finding, ...]()
    if node is None:
        state, since = "which does not exist any more", ""
        fix = f"wait: Kubernetes deletes such pods within two minutes; or {force}"
    else:
        taint, since = _taint(case, node, pods[0])
        if not taint:
            return None
        state = f"which has the taint {taint}"
        fix = "wait: Kubernetes deletes the pods of a node with this taint while the node is not ready"
        if taint != OUT_OF_SERVICE:
            fence = f"kubectl taint nodes {name} {OUT_OF_SERVICE}=nodeshutdown:NoExecute"
            risk = "which risks two processes for one rank if the node is only cut off"
            fix = f"once the machine is off or fenced: {fence}; or {force}, {risk}"
            level, because = _forced_deletion(case, since)
    message = f"{subject} being deleted on node {name}, {state}"
    return Finding(level, WAITS_FOR_NODE, message, because=because, fix=fix, since=since)


def _taint(case: Case, node: SeenNode, pod: SeenPod) -> tuple[str, str]:
    """The taint that explains why the node does not end the pod, and its time; both may be empty.

    A kubelet may still end pods while its node is not ready, or has a taint set by others: such taints count only once
    the pod is overdue.
    """
    overdue = (seconds_since(pod.metadata.deletion_timestamp or "", case.facts.now) or 0) > 0
    times = {taint.key: taint.time_added or "" for taint in node.spec.taints}
    evicts = [taint.key for taint in node.spec.taints if taint.effect == "NoExecute" and overdue]
    return next(((key, times[key]) for key in (OUT_OF_SERVICE, UNREACHABLE, *evicts) if key in times), ("", ""))


def _forced_deletion(case: Case, since: str) -> tuple[Level, tuple[Finding, ...]]:
    """Whether the manager ends the pods of a node that has failed since then."""
    policy, left = policy_of(case.facts.jobset), _time_left(case, since)
    field, level, fix = "spec.failurePolicy.nodeFailure.forceDeletePods", Level.FAULT, ""
    if policy is None or not policy.force_delete_pods:
        message = f"{field} is not set: the manager does not delete it"
    elif case.without_effect(GATE):
        message, fix = f"the manager does not delete it: it runs without the feature gate {GATE}", _WITH_GATE
    elif left is None:
        message, fix = f"no manager has deleted it: {field} is true", _WITH_GATE
    else:
        level, when = Level.WAITS, f"in {age(left)}" if left else "now"
        message = f"the manager deletes it {when}: {field} is true"
    return level, (Finding(Level.NOTE, "node-failure-policy", message, fix=fix),)
