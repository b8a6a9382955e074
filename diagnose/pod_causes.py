"""Checks of pods: leaders without a domain, followers that wait for their leader, and pods that do not run. Pure.

The leader of a Job is its pod with index 0, and followers are its other pods. If the Job has exclusive placement, the
leader chooses the domain (such as a rack), and a scheduling gate holds the followers back until it has a node.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from api import keys
from api.names import namespaced_job
from api.pending import clean_words
from api.pod import DEFAULT_SCHEDULER, PodCondition
from controllers.planning.child_jobs import Child
from diagnose.answers import KeyedFinding, one_answer_per_key
from diagnose.back_off import earlier_failures_text, ready_count
from diagnose.case import Case
from diagnose.claims import unbound_claim
from diagnose.domains import GUIDE, article, domain_findings, domain_of_job, domain_word, excluded_by_jobs
from diagnose.facts import SeenPod
from diagnose.finding import Finding, Level, pluralize
from diagnose.fixes import logs_command, recreation_command, scheduling_fix
from diagnose.kubelet import Reason, crash_loop, why_unready
from diagnose.misfits import misfit_finding
from diagnose.nodes import FITS_NOWHERE
from diagnose.times import seconds_since

SCHEDULER_SECONDS = 30.0
"""Seconds after which a pod without any message of a scheduler is a fault."""
_CLAIM_NOT_MADE = "FailedResourceClaimCreation"
"""Reason of the Warning of kube-controller-manager about a pod for which it cannot create a ResourceClaim."""
_NO_CLAIM_TEMPLATE = re.compile(r'resourceclaimtemplate\S* "([^"]+)" not found')
_RETRIED = "Kubernetes tries again by itself"
_PLACED = "the leader is placed"
"""The state of a leader with a node, for messages about its followers."""


@one_answer_per_key
def leader_waits(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """The leader of an exclusive Job has no node: the scheduler's reason, and the Jobs that hold the domains."""
    for child, topology, leader in _exclusive_jobs(case, unexplained_jobs):
        if condition := leader.scheduling_failure:
            key = topology, _domain_of_followers(case, child, topology), condition.message, leader.spec.priority
            yield KeyedFinding(child.name, key, partial(_leader_waits, case, child, leader, condition))


def _domain_of_followers(case: Case, child: Child, topology: str) -> str:
    """The domain in which followers of this leader already have a node; empty if there is none."""
    return domain_of_job((pod for pod in case.pods_of(child) if pod.spec.node_name), topology)


def _leader_waits(case: Case, child: Child, leader: SeenPod, condition: PodCondition) -> Finding:
    """The finding about a leader without a node, for the Job `child`."""
    topology, gated = leader.metadata.topology or "", case.facts.gated_followers.get(child.job.metadata.uid, 0)
    problem = misfit_finding(case, leader)
    waiting_text = f"; {pluralize(gated, 'follower', 'waits', 'wait')} for it" if gated else ""
    domain_noun, followers_domain = domain_word(topology), _domain_of_followers(case, child, topology)
    fits_nowhere = problem is not None and problem.cause in FITS_NOWHERE
    holders = () if followers_domain or fits_nowhere else domain_findings(case, leader, topology)
    if fits_nowhere and gated:
        holders = (_pods_for_autoscaler(gated, topology),)
    pod = Finding(
        Level.WAITS,
        "leader-unscheduled",
        f"leader pod {leader.name}: not scheduled: {_scheduler_message(condition)}{waiting_text}",
        because=(*([problem] if problem else []), *holders),
        since=condition.since,
    )
    room = f"room in {followers_domain}" if followers_domain else f"{article(domain_noun)} {domain_noun} of its own"
    return Finding(Level.WAITS, "leader-waits", f"Job {child.name}: waits for {room}", because=(pod,))


def _pods_for_autoscaler(gated_count: int, topology: str) -> Finding:
    """The finding that an autoscaler ignores the followers because they have a scheduling gate."""
    message = f"an autoscaler sees 1 of its {gated_count + 1} pods: the followers are gated until the leader has a node"
    fix = (
        f"for nodes that are made on demand, leave out the annotation for {topology}, and choose the pool by"
        f" nodeSelector in a new JobSet: then it sees all pods ({GUIDE}#nodes-that-an-autoscaler-adds)"
    )
    return Finding(Level.NOTE, "autoscaler", message, fix=fix)


@one_answer_per_key
def leader_without_domain(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """The leader is on a node without a domain, so its followers cannot be placed."""
    for child, topology, leader in _exclusive_jobs(case, unexplained_jobs):
        missing_domain_text = _missing_domain_text(case, topology, leader)
        if missing_domain_text and child.job.metadata.uid in case.facts.gated_followers:
            message = f"Job {child.name}: its followers do not know where to go: {missing_domain_text}"
            fix = f"kubectl label node NODE {topology}=VALUE, or delete the leader pod: its Job makes a new one"
            finding = Finding(Level.FAULT, "leader-without-domain", message, fix=fix)
            yield KeyedFinding(child.name, (topology, missing_domain_text.replace(leader.name, "")), finding)


def _missing_domain_text(case: Case, topology: str, leader: SeenPod) -> str:
    """Why the leader's node has no domain; empty if the node has a domain, or if this is not known."""
    node, nodes = leader.spec.node_name, case.facts.node_labels
    if not node or nodes is None or topology in nodes.get(node, {}):
        return ""
    if node not in nodes:
        return f"leader pod {leader.name} is bound to node {node}, which does not exist (any more)"
    return f"leader pod {leader.name} is on node {node}, which lacks the label {topology}"


@one_answer_per_key
def followers_wait(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """Followers are gated although their leader does not wait for the scheduler."""
    level, placed_fix = Level.WAITS, "the manager lifts the gate; if it does not, see its log"
    if case.is_manager_missing:
        level, placed_fix = Level.FAULT, "a manager lifts the gate"
    for child in case.unready_jobs(unexplained_jobs):
        if number := case.facts.gated_followers.get(child.job.metadata.uid):
            state = _leader_state(case, child)
            fix = placed_fix if state == _PLACED else "look again in a moment"
            message = f"Job {child.name}: {pluralize(number, 'follower', 'is', 'are')} gated: {state}"
            yield KeyedFinding(child.name, state, Finding(level, "followers-gated", message, fix=fix))


def _leader_state(case: Case, child: Child) -> str:
    """A clause about the leader of a Job with gated followers."""
    leader = case.leaders.get(child.job.metadata.uid)
    if case.facts.pods is None:
        return "leader is not known"
    if leader is None:
        return "there is no leader pod (yet)"
    if not leader.is_live:
        return "the leader pod is being deleted or has ended, and there is no new one yet"
    if leader.spec.node_name:
        return _PLACED
    scheduler = _named_scheduler(leader)
    return f"{f'scheduler {scheduler}' if scheduler else 'the scheduler'} has not looked at the leader pod yet"


def _named_scheduler(pod: SeenPod) -> str:
    """The schedulerName of a pod without a node; empty for the default scheduler, or if the pod has a node."""
    name = pod.spec.scheduler_name
    return "" if pod.spec.node_name or name == DEFAULT_SCHEDULER else name


_FIXES_BY_GATE = {
    keys.PLACEMENT_GATE: "admission sets this gate where it is needed: remove it from the pod template in a new JobSet",
    keys.SPARE_GATE: "the manager lifts it at once, if it runs with the feature gate JobSetSpares",
}


@one_answer_per_key
def gated_pods(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """Pods with scheduling gates other than the gate of followers."""
    for child, pods in case.pods_where(unexplained_jobs, lambda pod: pod.is_gated):
        gates = ", ".join(sorted({gate.name for pod in pods for gate in pod.spec.scheduling_gates}))
        fix = _FIXES_BY_GATE.get(gates, "the controller that the gate is named after has to lift it")
        message = f"Job {child.name}: {pods_are(pods)} held back by scheduling gate {gates}"
        yield KeyedFinding(child.name, gates, Finding(Level.WAITS, "gated", message, fix=fix))


@one_answer_per_key
def unscheduled_pods(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """Pods for which the scheduler finds no node."""
    for child, pods in case.pods_where(unexplained_jobs, lambda pod: pod.scheduling_failure is not None):
        if condition := pods[0].scheduling_failure:
            problem, domain = _why_no_node(case, pods[0]), domain_of_job([pods[0]], pods[0].metadata.topology or "")
            location = f" in {domain}" if domain else ""
            finding = _why_unscheduled(child, pods[0], problem, condition.message, _scheduler_message(condition))
            message = f"Job {child.name}: {pods_are(pods)} not scheduled{location}: {finding.message}"
            key = condition.message, problem.message if problem else "", location
            yield KeyedFinding(child.name, key, replace(finding, message=message, since=condition.since))


def _why_no_node(case: Case, pod: SeenPod) -> Finding | None:
    """The finding about an unbound claim, about what nodes lack, or about exclusive Jobs that keep the pod out.

    A fault comes before reasons that go away.
    """
    if (claim_finding := unbound_claim(case, pod)) is not None:
        return claim_finding
    problem = misfit_finding(case, pod)
    return problem if problem is not None and problem.level is Level.FAULT else excluded_by_jobs(case, pod) or problem


def _why_unscheduled(child: Child, pod: SeenPod, problem: Finding | None, message: str, scheduler_text: str) -> Finding:
    """The finding about a pod without a node. Its message is a clause about the pod."""
    meta = child.job.metadata
    if keys.NODE_SELECTOR_STRATEGY in meta.annotations:
        label = f"{keys.NAMESPACED_JOB}={namespaced_job(meta.namespace, meta.name)}"
        fix = f"by the node-selector strategy its nodes need the label {label}: has the script labelled them?"
        return Finding(Level.WAITS, "unscheduled", scheduler_text, fix=fix)
    if problem is not None:
        return replace(problem, because=(Finding(Level.NOTE, "scheduler", f"kube-scheduler: {scheduler_text}"),))
    return Finding(Level.WAITS, "unscheduled", scheduler_text, fix=scheduling_fix(pod, message))


@one_answer_per_key
def without_device_claim(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """Pods that the scheduler ignores because their ResourceClaim, or the template of the claim, is missing."""
    for child, pods in case.pods_where(unexplained_jobs, lambda pod: pod.has_no_scheduler and pod.spec.resource_claims):
        missing_text, fix = _missing_device_claim(case, pods[0])
        if missing_text:
            created = pods[0].metadata.creation_timestamp or ""
            is_late = seconds_since(created, case.facts.now, unknown=0) > SCHEDULER_SECONDS
            message = f"Job {child.name}: {pods_are(pods)} not scheduled: {missing_text}"
            level = Level.FAULT if is_late else Level.WAITS
            finding = Finding(level, "device-claim", message, fix=fix, since=created)
            yield KeyedFinding(child.name, missing_text.replace(pods[0].name, ""), finding)


def _missing_device_claim(case: Case, pod: SeenPod) -> tuple[str, str]:
    """The missing object in words, and the fix; both empty if it is not known."""
    namespace = pod.metadata.namespace
    names = (claim.resource_claim_name for claim in pod.spec.resource_claims)
    missing = next((name for name in names if case.facts.device_claim_exists.get(name) is False), "")
    if missing:
        return f"there is no ResourceClaim {missing}", _device_claim_fix("ResourceClaim", missing, namespace)
    note = next((event.note for event in case.pod_warnings.get(pod.name, ()) if event.reason == _CLAIM_NOT_MADE), "")
    if template := _NO_CLAIM_TEMPLATE.search(note):
        name = clean_words(template[1])
        return f"there is no ResourceClaimTemplate {name}", _device_claim_fix("ResourceClaimTemplate", name, namespace)
    describe = f"kubectl describe pod -n {namespace} {pod.name} says more: {_RETRIED}"
    return (f"{_CLAIM_NOT_MADE}: {clean_words(note)}", describe) if note else ("", "")


def _device_claim_fix(kind: str, name: str, namespace: str) -> str:
    listing = f"{_RETRIED}; kubectl get {kind.lower()}s -n {namespace} lists those there are"
    return f"create {kind} {name}, or see why what makes it, such as a ComputeDomain, has not: {listing}"


@one_answer_per_key
def pods_without_scheduler(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """Pods without a message of their scheduler, which does not run or does not exist."""
    for child, pods in case.pods_where(unexplained_jobs, lambda pod: pod.has_no_scheduler):
        scheduler, created = _named_scheduler(pods[0]), pods[0].metadata.creation_timestamp or ""
        is_late = seconds_since(created, case.facts.now, unknown=0) > SCHEDULER_SECONDS
        subject = "kube-scheduler has not looked at it"
        fix = "kubectl get pods -n kube-system -l component=kube-scheduler shows whether it runs"
        if scheduler:
            present, default = f"schedulerName: {scheduler}", f"schedulerName: {DEFAULT_SCHEDULER}"
            recreation = recreation_command(case.facts.jobset, present, default)
            subject, fix = f"no scheduler {scheduler} looks at it", f"start scheduler {scheduler}, or {recreation}"
        if scheduler or is_late:
            message = f"Job {child.name}: {pods_are(pods)} not scheduled: {subject}"
            level = Level.FAULT if is_late else Level.WAITS
            finding = Finding(level, "nobody-schedules", message, fix=fix, since=created)
            yield KeyedFinding(child.name, scheduler, finding)


@one_answer_per_key
def failing_containers(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """Pods with a container that cannot start or keeps failing: one finding for each Job and reason."""
    for child, pods in case.pods_where(
        unexplained_jobs, lambda pod: pod.is_live and pod.spec.node_name and not pod.is_ready
    ):
        pods_by_kind: dict[tuple[str, ...], list[tuple[SeenPod, Reason]]] = {}
        for pod in pods:
            reason = why_unready(pod, case.pod_warnings.get(pod.name, ()))
            if reason is not None and not reason.may_become_ready:
                pods_by_kind.setdefault(reason.kind, []).append((pod, reason))
        for kind, pods_and_reasons in pods_by_kind.items():
            pod, reason = pods_and_reasons[0]
            message = f"Job {child.name}: {pods_are([pod for pod, _ in pods_and_reasons])} not ready: {reason.text}"
            cause = "container" if pod.trouble else "pod-not-started"
            yield KeyedFinding(child.name, kind, Finding(Level.FAULT, cause, message, fix=reason.fix))


@one_answer_per_key
def unready_jobs(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """Jobs that no other check explains: their pods start, or run and are not ready."""
    for child in case.unready_jobs(unexplained_jobs):
        pods = [pod for pod in case.pods_of(child) if pod.is_live and not pod.is_ready]
        starting_pods = [pod for pod in pods if pod.status.phase == "Pending"]
        failures_text = earlier_failures_text(case, child)
        message, fix = f"Job {child.name}: {ready_count(child.job)}", ""
        if starting_pods:
            node, init_container = starting_pods[0].spec.node_name, starting_pods[0].running_init_container
            location = f" on node {node}" if node else ", not looked at by the scheduler"
            message += f"; {pods_are(starting_pods)} starting{location}"
            message += f": init container {init_container} runs" if init_container else ""
            logs = logs_command(case.facts.jobset, child.name, init_container)
            fix = logs if init_container else f"{logs} shows what the failed pod wrote" if failures_text else ""
        elif pods:
            reason = next(filter(None, (why_unready(pod, case.pod_warnings.get(pod.name, ())) for pod in pods)), None)
            message += f"; {pods_are(pods)} running, not ready" + (f": {reason.text}" if reason else "")
            fix = reason.fix if reason else _missing_for_readiness(pods[0])
        elif case.facts.pods is None:
            message += "; its pods are not known"
        elif last_failure := next(filter(None, map(crash_loop, case.pods_of(child))), None):
            message += f"; its pod is ready at this moment: {last_failure}"
            fix = f"{logs_command(case.facts.jobset, child.name, last_failure.container)} shows what its pods write"
        message += f"; {failures_text}" if failures_text else ""
        finding = Finding(Level.WAITS, "not-ready", message, fix=fix)
        yield KeyedFinding(child.name, (bool(starting_pods), bool(pods), bool(failures_text)), finding)


def _missing_for_readiness(pod: SeenPod) -> str:
    """The fix for a running pod that is not ready, if neither its kubelet nor its containers have a reason."""
    ready_names = {status.name for status in pod.status.container_statuses if status.ready}
    unready_containers = [container for container in pod.spec.containers if container.name not in ready_names]
    if starting := [container.name for container in unready_containers if container.startup_probe is not None]:
        return f"wait: the startup probe of container {starting[0]} has not succeeded yet"
    if any(container.readiness_probe is not None for container in unready_containers):
        return "see the readiness probes of its containers"
    gates = (gate.condition_type for gate in pod.spec.readiness_gates)
    conditions = {name: pod.status.condition(name) for name in gates}
    closed_gate = next((name for name, state in conditions.items() if state is None or state.status != "True"), "")
    if closed_gate:
        return f"its readinessGate {closed_gate} is not True: look at the controller that sets this condition of pods"
    return f"look again in a moment; kubectl describe pod -n {pod.metadata.namespace} {pod.name} shows its conditions"


def _exclusive_jobs(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[tuple[Child, str, SeenPod]]:
    """Jobs with exclusive placement that are not ready and have a live leader: Job, topology key, leader."""
    for child in case.unready_jobs(unexplained_jobs):
        leader = case.leaders.get(child.job.metadata.uid)
        topology = None if leader is None else leader.metadata.topology
        if leader is not None and topology is not None and leader.is_live:
            yield child, topology, leader


def _scheduler_message(condition: PodCondition) -> str:
    return (condition.message or condition.reason).rstrip(". ")


def pods_are(pods: Sequence[SeenPod]) -> str:
    """The subject and verb of a sentence about these pods, as in `pod a is` or `pod a and 3 more are`."""
    return f"pod {pods[0].name} is" if len(pods) == 1 else f"pod {pods[0].name} and {len(pods) - 1} more are"
