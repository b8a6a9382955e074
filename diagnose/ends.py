"""Causes that are about pods that somebody has ended, and about nodes that no longer answer. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from api import keys
from controllers.planning.child_jobs import Child
from controllers.planning.node_failure import GATE, OUT_OF_SERVICE, UNREACHABLE, policy_of
from diagnose.case import Case
from diagnose.disruptions import not_counted
from diagnose.facts import SeenEvent, SeenPod
from diagnose.finding import NAMED, Answer, Finding, KeyedFinding, Level, job_findings
from diagnose.nodes import SeenNode
from diagnose.states import RECENT
from diagnose.times import age, seconds_since

_MARGIN = 60.0
"""Seconds after its time by which the manager has acted on a failed node."""
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
    """Pods of Jobs that are not ready that were preempted or evicted within the last hour."""
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
    fix = "; ".join(filter(None, [fix, not_counted(case.facts.jobset)]))
    if first.reason != "Preempted":
        fix = f"kubectl describe pod -n {first.regarding.namespace} {first.regarding.name}; kubectl describe node NODE"
    message = f"pod {first.regarding.name}{more} {words}"
    return Finding(Level.WAITS, first.reason.lower(), message, fix=fix, since=first.first)


def node_fails(case: Case, left: frozenset[str]) -> list[Answer]:
    """Pods that run by their status, on nodes that are gone, unreachable, out of service or not ready."""
    return job_findings(
        KeyedFinding(child.name, (pod.spec.node_name, state), partial(_node_fails, case, child, pod, state, since))
        for child, pod, state, since in _on_failed_nodes(case, left)
    )


def _on_failed_nodes(case: Case, left: frozenset[str]) -> Iterator[tuple[Child, SeenPod, str, str]]:
    """Jobs with their first such pod, the state of its node, and since when."""
    for child in case.unready_jobs(left):
        pods = (pod for pod in case.pods_of(child) if pod.silent and pod.spec.node_name in case.facts.nodes_by_name)
        states = ((pod, *_state(case.facts.nodes_by_name[pod.spec.node_name])) for pod in pods)
        failed = next((found for found in states if found[1]), None)
        if failed is not None:
            yield (child, *failed)


def _state(node: SeenNode | None) -> tuple[str, str]:
    """What is wrong with a node and since when; empty if nothing is."""
    if node is None:
        return "which does not exist any more", ""
    times = {taint.key: taint.time_added or "" for taint in node.spec.taints}
    return next(((f"which is {word}", times[key]) for key, word in _STATES.items() if key in times), ("", ""))


def _node_fails(case: Case, child: Child, pod: SeenPod, state: str, since: str) -> Finding:
    return Finding(
        Level.FAULT,
        "node-failed",
        f"Job {child.name}: pod {pod.name} is on node {pod.spec.node_name}, {state}",
        because=_handling(case, since),
        fix=f"if the node is off for good: {_end_pods_on(case, pod)}",
        since=since,
    )


def _end_pods_on(case: Case, pod: SeenPod) -> str:
    """The command that ends all pods of the set on the node of this one: a Job may have more than one there."""
    meta = case.facts.jobset.metadata
    return (
        f"kubectl delete pods -n {meta.namespace} -l {keys.JOBSET_NAME}={meta.name}"
        f" --field-selector spec.nodeName={pod.spec.node_name} --force"
    )


def _handling(case: Case, since: str) -> tuple[Finding, ...]:
    """What the failure policy does about it."""
    policy = policy_of(case.facts.jobset)
    if policy is None:
        message, fix = "spec.failurePolicy.nodeFailure is not set: nothing is done about it", ""
    elif case.without_effect(GATE):
        message, fix = f"nothing is done about it: the manager runs without the feature gate {GATE}", _WITH_GATE
    else:
        waited = seconds_since(since, case.facts.now)
        limit = f"spec.failurePolicy.nodeFailure.afterSeconds is {policy.after_seconds}"
        if waited is not None and waited < policy.after_seconds:
            ends = (
                "its Job fails, or in place the pod is replaced,"
                if case.facts.jobset.restarts_in_place
                else "its Job fails"
            )
            message, fix = f"{ends} in {age(policy.after_seconds - waited)}: {limit}", ""
        elif waited is not None and waited < policy.after_seconds + _MARGIN:
            message, fix = f"the failure policy decides: {limit}", ""
        else:
            message = f"no manager has acted on it: {limit}"
            fix = _WITH_GATE
    return (Finding(Level.NOTE, "node-failure-policy", message, fix=fix),)


def held_up(case: Case) -> tuple[Finding, ...]:
    """The nodes that hold up a restart: pods of an earlier attempt are being deleted there, and nothing ends them."""
    return _nodes_of(case, case.facts.ending)


def held_by_earlier(case: Case, job: str) -> tuple[Finding, ...]:
    """The nodes that hold up a Job of an earlier JobSet of the same name, as `held_up`; its policy is not known."""
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
    """None if the node may end these pods by itself."""
    who = f"pod {pods[0].name} is" if len(pods) == 1 else f"pod {pods[0].name} and {len(pods) - 1} more are"
    names = " ".join(pod.name for pod in pods[:NAMED])
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
    message = f"{who} being deleted on node {name}, {state}"
    return Finding(level, "restart-waits-for-node", message, because=because, fix=fix, since=since)


def _taint(case: Case, node: SeenNode, pod: SeenPod) -> tuple[str, str]:
    """The taint that says why the node does not end the pod, and since when; both may be empty.

    A kubelet works that is not ready, or whose node was tainted by others. So those count once the pod should be gone.
    """
    overdue = (seconds_since(pod.metadata.deletion_timestamp or "", case.facts.now) or 0) > 0
    times = {taint.key: taint.time_added or "" for taint in node.spec.taints}
    evicts = [taint.key for taint in node.spec.taints if taint.effect == "NoExecute" and overdue]
    return next(((key, times[key]) for key in (OUT_OF_SERVICE, UNREACHABLE, *evicts) if key in times), ("", ""))


def _forced_deletion(case: Case, since: str) -> tuple[Level, tuple[Finding, ...]]:
    """Whether the manager ends the pods of a node that has failed since then."""
    policy, waited = policy_of(case.facts.jobset), seconds_since(since, case.facts.now)
    field, level = "spec.failurePolicy.nodeFailure.forceDeletePods", Level.WAITS
    if policy is None or not policy.force_delete_pods:
        level, message, fix = Level.FAULT, f"{field} is not set: the manager does not delete it", ""
    elif case.without_effect(GATE):
        level, fix = Level.FAULT, _WITH_GATE
        message = f"the manager does not delete it: it runs without the feature gate {GATE}"
    elif waited is not None and waited < policy.after_seconds:
        message, fix = f"the manager deletes it in {age(policy.after_seconds - waited)}: {field} is true", ""
    elif waited is not None and waited < policy.after_seconds + _MARGIN:
        message, fix = f"the manager deletes it now: {field} is true", ""
    else:
        level, message = Level.FAULT, f"no manager has deleted it: {field} is true"
        fix = _WITH_GATE
    return level, (Finding(Level.NOTE, "node-failure-policy", message, fix=fix),)
