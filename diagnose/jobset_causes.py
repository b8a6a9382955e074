"""Causes about the JobSet as a whole. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import itemgetter

import msgspec

from api import keys, stored_defaults
from api.avoided_nodes import nodes_to_avoid, policy_of, recent_failures
from api.jobset import JobSet
from api.spares import has_nodes_of, running_part, spares_of
from controllers.planning import finished
from controllers.planning.maintenance import REASON as MAINTENANCE
from controllers.planning.start_timeout import GATE as START_TIMEOUT_GATE
from controllers.planning.start_timeout import LOOKS
from diagnose.answers import Answer
from diagnose.case import LEASE_MARGIN, Case
from diagnose.disruptions import disruption_in_history, not_counted
from diagnose.ends import WAITS_FOR_NODE, held_up
from diagnose.facts import SeenPod
from diagnose.finding import WAIT_FOR_PODS, Finding, Level, join_names, pluralize
from diagnose.job_causes import holds_back
from diagnose.kubelet import known_remedy
from diagnose.kueue import workloads_of
from diagnose.remedies import UNVERSIONED, logs_of, make_again
from diagnose.restart_causes import attempt, decisive_container, too_slow, why_it_failed
from diagnose.states import State
from diagnose.times import age, clock, seconds_since
from kube.model.jsontree import dig
from kube.model.meta import Condition, find
from manifests.installed.webhook_switch import State as Webhooks

_DECISION = "FailurePolicy"
"""Part of the reasons of Warnings about a restart."""
_WAITS_FOR_NODE = "RestartWaitsForNode"
_WHILE_WAITING = {
    *(_WAITS_FOR_NODE, "LostPodsReplaced", "PVCCreationFailed", "FailedResourcePropagation", "GangWaiting"),
    *("SchedulingObjectsFailed", "APIUnavailable", "CompositePodGroupUnavailable", "FieldDropped", "NameConflict"),
}
"""Reasons of Warnings that no longer hold when all Jobs are ready or done."""
_MAX_WARNINGS = 3
_WEBHOOKS = {
    Webhooks.ON: "",
    Webhooks.OFF: "first jobset webhooks on, for they are off; then ",
    Webhooks.MISSING: "first have the webhooks back, which are not there: jobset webhooks status says how; then ",
    None: "once jobset webhooks status says that they are on, ",
}
"""What to do before a set is created again with defaults, by the state of the webhooks; None: not known."""
FOREGROUND = "foregroundDeletion"
_FIX_DEADLINE = "find out what took so long, delete the JobSet and create it again, if need be with more seconds"


def final_state(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """Completed or Failed: why, by which Job, and after which attempts."""
    js, status = case.facts.jobset, case.facts.jobset.status
    if not status.terminal_state:
        return
    condition = find(status.conditions, status.terminal_state)
    since = condition.last_transition_time if condition else ""
    reason = f"{condition.reason}: {condition.message}" if condition else status.terminal_state
    if status.terminal_state == keys.COMPLETED:
        yield Answer(Finding(Level.FINE, "completed", reason, since=since), state=State.COMPLETED, ends=True)
        return
    too_long = condition is not None and condition.reason == finished.EXCEEDED
    message = ": ".join(filter(None, [reason, decisive_container(status, reason)]))
    because = tuple(attempt(js, failed) for failed in reversed(status.attempt_history))
    fix = _FIX_DEADLINE if too_long else _failure_remedy(js, reason)
    yield Answer(Finding(Level.FAULT, "failed", message, because, fix, since), state=State.FAILED, ends=True)


def _failure_remedy(js: JobSet, message: str) -> str:
    """Where to see why it failed, and how to run it again or allow more restarts. `message`: its message."""
    last = js.status.attempt_history[-1] if js.status.attempt_history else None
    most = js.spec.failure_policy.max_restarts if js.spec.failure_policy is not None else 0
    logs = f"{logs_of(js, last.failed_job if last else '')} shows what the failed pod wrote"
    if last and (remedy := known_remedy(why_it_failed(last), js.metadata.namespace, last.pod, last.node)):
        logs = f"{remedy}; {logs}"
    if last and (slow := too_slow(js, last)):
        return f"{slow}; {logs}; to run it again: {make_again(js)}"
    retries = "" if most else "spec.failurePolicy.maxRestarts allows retries"
    if most and message.startswith("ReachedMaxRestarts"):
        retries = f"a spec.failurePolicy.maxRestarts above {most} allows more retries"
    rule = not_counted(js, last.failed_job, "") if last and disruption_in_history(js, last) else ""
    return "; ".join(filter(None, [logs, f"fix it and run it again: {make_again(js)}", retries, rule]))


def deletion(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """It is being deleted: why that takes long."""
    meta, jobs = case.facts.jobset.metadata, case.facts.jobs
    if meta.deletion_timestamp is None:
        return
    because = []
    if FOREGROUND in meta.finalizers:
        number = "its Jobs" if jobs is None else pluralize(len(jobs), "Job")
        names = f" ({join_names([job.metadata.name for job in jobs])})" if jobs else ""
        message = f"{number}{names} and all pods of them have to go first"
        delays = held_up(case)
        because.append(Finding(Level.WAITS, "foreground-deletion", message, delays, "" if delays else WAIT_FOR_PODS))
    for name in meta.finalizers:
        if name != FOREGROUND:
            message = f"finalizer {name} holds it: whoever set it has to remove it"
            fix = "look at the controller that the finalizer is named after"
            because.append(Finding(Level.WAITS, "finalizer", message, fix=fix))
    message = "it has been deleted, and stays until nothing holds it any more"
    found = Finding(Level.WAITS, "deleted", message, tuple(because), since=meta.deletion_timestamp)
    yield Answer(found, state=State.DELETED, ends=True)


def namespace_deleted(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """Its namespace is being deleted: nothing can be created there, and it is deleted as well."""
    meta, namespace = case.facts.jobset.metadata, case.facts.namespace
    name = meta.namespace
    if namespace is None or namespace.metadata.deletion_timestamp is None:
        return
    keeps = (condition for condition in namespace.status.conditions if condition.status == "True" and condition.message)
    found = Finding(
        Level.WAITS,
        "namespace-deleted",
        f"its namespace {name} is being deleted with all that is in it, and nothing can be created there",
        because=tuple(Finding(Level.NOTE, "namespace-condition", condition.message) for condition in keeps),
        fix=f"to run it later, keep it: kubectl get jobset {meta.name} -n {name} -o yaml | sed '{UNVERSIONED}' >"
        f" {meta.name}.yaml; once the namespace is gone, kubectl create namespace {name} and kubectl create -f"
        f" {meta.name}.yaml",
        since=namespace.metadata.deletion_timestamp,
    )
    yield Answer(found, state=State.DELETED, ends=True)


def managed_elsewhere(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """Another controller manages it."""
    js = case.facts.jobset
    if not js.is_ours:
        message = f"spec.managedBy is {js.spec.managed_by}: that controller creates its Jobs, this one leaves it alone"
        fix = "ask that controller; for kueue.x-k8s.io/multikueue the Jobs run in a worker cluster"
        yield Answer(Finding(Level.NOTE, "managed-by", message, fix=fix), state=State.ELSEWHERE, ends=True)


def missing_defaults(js: JobSet) -> list[tuple[str, str]]:
    """The fields that lack the defaults of the webhooks, each with the effect on the set."""
    return [(str(path), means) for path, means in stored_defaults.missing_defaults(msgspec.to_builtins(js.spec))]


def without_defaults(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """It was stored while no webhook was called, so it runs without defaults that it needs."""
    meta = case.facts.jobset.metadata
    if missing := missing_defaults(case.facts.jobset):
        meanings = " and ".join(dict.fromkeys(means for _, means in missing))
        paths = join_names([path for path, _ in missing])
        message = f"stored without defaults, as no webhook was called: {meanings} ({paths})"
        get = f"kubectl get jobset {meta.name} -n {meta.namespace} -o yaml"
        again = f"{get} | sed '{UNVERSIONED}' | kubectl replace --force -f -"
        fix = f"{_WEBHOOKS[case.facts.webhooks]}make it again: {again}"
        yield Answer(Finding(Level.NOTE, "without-defaults", message, fix=fix))


def suspension(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """The user, or a queue, has suspended it."""
    js = case.facts.jobset
    if not js.spec.suspend:
        return
    queue = js.metadata.labels.get(keys.QUEUE_NAME)
    condition = find(js.status.conditions, keys.SUSPENDED)
    because: tuple[Finding, ...] = ()
    if ending := [job.metadata.name for job in case.facts.jobs or () if job.status.active > 0]:
        number = pluralize(len(ending), "Job", "still has", "still have")
        message = f"{number} pods that are ending: {join_names(ending)}"
        because = (Finding(Level.NOTE, "ending", message, held_up(case)),)
    message = "spec.suspend is true: its Jobs run no pods"
    fix = f"jobset resume {js.metadata.name} -n {js.metadata.namespace}"
    if queue:
        message += f"; it is in the Kueue queue {queue}" + ("" if case.facts.kueue else ", and there is no Kueue here")
    if queue and case.facts.kueue:
        fix = f"Kueue resumes it when queue {queue} admits it: {workloads_of(js)} says when"
    elif not queue and (misplaced := _queue_of_template(js)):
        name, label = misplaced
        message += f"; the label {keys.QUEUE_NAME} is on the template of {name}: Kueue looks for it on the JobSet"
        fix = f"kubectl label jobset {js.metadata.name} -n {js.metadata.namespace} {keys.QUEUE_NAME}={label}; or {fix}"
    since = condition.last_transition_time if condition and condition.status == "True" else ""
    cause = "suspended"
    if admitted := _admission(case):
        cause, since = "admitted-not-resumed", admitted.last_transition_time
        message += "; Kueue has admitted it and holds quota for it, but has not resumed it"
        fix = f"if this lasts, Kueue's log says what refuses its update; {workloads_of(js)} -o yaml shows the admission"
    yield Answer(Finding(Level.WAITS, cause, message, because, fix, since), state=State.SUSPENDED, ends=True)


def _admission(case: Case) -> Condition | None:
    """The condition by which Kueue reports that it has admitted the set."""
    conditions = (find(workload.status.conditions, "Admitted") for workload in case.facts.workloads)
    return next((condition for condition in conditions if condition and condition.status == "True"), None)


def _queue_of_template(js: JobSet) -> tuple[str, str] | None:
    """The first ReplicatedJob with a label of a queue on its Job or pod template, and the queue."""
    for rjob in js.spec.replicated_jobs:
        for template in (rjob.template, rjob.job_spec.get("template")):
            if queue := dig(template, "metadata", "labels", keys.QUEUE_NAME):
                return rjob.name, str(queue)
    return None


def active_deadline(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """How long it may still run, or that its deadline has no effect."""
    js, now = case.facts.jobset, case.facts.now
    seconds = js.spec.active_deadline_seconds
    if seconds is None or not js.status.replicated_jobs_status or case.without_effect(finished.GATE):
        return
    start = js.status.start_time
    left = finished.time_left(seconds, start, now.isoformat())
    fix = ""
    if left is None:
        message = f"spec.activeDeadlineSeconds is {seconds}, and no manager counts them"
        fix = f"start the manager with --feature-gates={finished.GATE}=true"
    elif left > 0:
        message = f"it fails in {age(left)} unless it completes before: spec.activeDeadlineSeconds is {seconds}"
    else:
        message = f"it has run for longer than spec.activeDeadlineSeconds, which is {seconds}: the manager ends it"
    yield Answer(Finding(Level.NOTE, "active-deadline", message, fix=fix, since=start))


def start_timeout(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """How long the first pending pod may still take; or that no manager enforces the time limit."""
    policy, now = case.facts.jobset.spec.failure_policy, case.facts.now
    seconds = policy.start_timeout_seconds if policy is not None else None
    pods = [] if seconds is None else case.facts.pods or ()
    waits = ((pod, seconds_since(pod.metadata.creation_timestamp or "", now)) for pod in pods if _pending(pod))
    found = max(((pod, waited) for pod, waited in waits if waited is not None), key=itemgetter(1), default=None)
    if seconds is None or found is None or case.without_effect(START_TIMEOUT_GATE):
        return
    pod, waited = found
    limit, fix = f"spec.failurePolicy.startTimeoutSeconds is {seconds}", ""
    if waited < seconds:
        message = f"pod {pod.name} fails its Job in {age(seconds - waited)} unless it runs before: {limit}"
    elif waited < seconds + seconds / LOOKS + LEASE_MARGIN:
        message = f"pod {pod.name} has not run in time, and the failure policy decides: {limit}"
    else:
        message = f"pod {pod.name} has not run in time, and no manager acts on that: {limit}"
        fix = f"start the manager with --feature-gates={START_TIMEOUT_GATE}=true"
    since = pod.metadata.creation_timestamp or ""
    yield Answer(Finding(Level.NOTE, "start-timeout", message, fix=fix, since=since))


def _pending(pod: SeenPod) -> bool:
    return pod.status.phase == "Pending" and not pod.gated and pod.metadata.deletion_timestamp is None


def avoided_nodes(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """The nodes that failed the set: which of them its new pods keep away from, and for how long."""
    js, now = case.facts.jobset, case.facts.now.isoformat()
    policy, away = policy_of(js), {node.name for node in nodes_to_avoid(js, now)}
    if policy is None:
        return
    because = []
    for node in reversed(recent_failures(js, now)):
        left = age(policy.for_seconds - (seconds_since(node.last_time, case.facts.now) or 0))
        domain = f" and its domain {node.domain}" if node.domain else ""
        state = f"avoided for {left} more" if node.name in away else "not avoided"
        message = f"node {node.name}{domain}: {state}, failed {pluralize(node.failures, 'time')}; {node.reason}"
        because.append(Finding(Level.NOTE, "failed-node", message, since=node.last_time))
    if not because:
        return
    message = f"{pluralize(len(away), 'node', 'is', 'are')} avoided by pods of Jobs that are created now"
    yield Answer(Finding(Level.NOTE, "avoided-nodes", message, because=tuple(because)))


def maintenance_notice(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """The nodes that the set will leave, and when."""
    status = case.facts.jobset.status
    notice = status.maintenance
    if notice is None or not notice.move_time or status.terminal_state:
        return
    nodes = [f"{node.name} ({node.taint or 'evicted pods'})" for node in notice.nodes if not node.moved]
    message = (
        f"it leaves {pluralize(len(nodes), 'node')} at {clock(notice.move_time, case.facts.now)} at the latest, by a"
        f" planned restart that does not count: {join_names(nodes)}"
    )
    yield Answer(Finding(Level.NOTE, "maintenance-notice", message, since=notice.notice_time))


def reduced_replicas(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """The ReplicatedJobs that run with fewer Jobs than wanted until there is room for more."""
    js = case.facts.jobset
    if js.status.terminal_state:
        return
    wanted = {rjob.name: rjob.replicas for rjob in js.spec.replicated_jobs}
    for entry in js.status.reduced_replicas:
        message = (
            f"ReplicatedJob {entry.name} runs with {entry.replicas} of {pluralize(wanted.get(entry.name, 0), 'Job')}"
            f" since {clock(entry.since, case.facts.now)}: the others wait for room"
        )
        if entry.held:
            message += f"; placeholders hold it for {entry.held} of them, and the set restarts with these soon"
        yield Answer(Finding(Level.NOTE, "reduced-replicas", message, since=entry.since))


def missing_spares(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """The groups of spares in which some spare is not ready."""
    js = case.facts.jobset
    groups = {rjob.name: rjob for rjob in spares_of(js)}
    for entry in js.status.spares:
        group = groups.get(entry.name)
        if group is not None and not has_nodes_of(group, js):
            message = (
                f"spares of ReplicatedJob {entry.name} hold no places for {group.spare_for}: their nodeSelector or"
                " tolerations are others, as where a queue has given them another ResourceFlavor"
            )
            yield Answer(Finding(Level.NOTE, "missing-spares", message))
        elif group is not None and entry.missing:
            used = f"; {pluralize(entry.used, 'place')} given so far" if entry.used else ""
            message = (
                f"{entry.ready} of {pluralize(entry.ready + entry.missing, 'spare')} of ReplicatedJob {entry.name} for"
                f" {group.spare_for} are ready: the next pod of {group.spare_for} that finds no node may have to wait"
                f"{used}"
            )
            yield Answer(Finding(Level.NOTE, "missing-spares", message))


def unreadable_jobs(case: Case, _left: frozenset[str]) -> Iterator[Answer]:
    """The Jobs may not be read: what the status says about them."""
    if case.facts.jobs is not None:
        return
    js = running_part(case.facts.jobset).with_current_replicas
    counts = {count.name: count for count in js.status.replicated_jobs_status}
    for rjob in js.spec.replicated_jobs:
        settled, numbers = 0, ""
        if count := counts.get(rjob.name):
            settled = count.ready + count.succeeded
            numbers = f"; {count.active} active, {count.failed} failed, {count.suspended} suspended"
        total = pluralize(rjob.replicas, "Job")
        message = f"ReplicatedJob {rjob.name}: {settled} of {total} ready or done, says the status{numbers}"
        yield Answer(Finding(Level.WAITS if settled < rjob.replicas else Level.FINE, "status", message))


def restarting(case: Case, left: frozenset[str]) -> Iterator[Answer]:
    """Jobs of an earlier attempt have to be deleted before those of this one are created."""
    js, old = case.facts.jobset, case.survey.previous
    if old:
        policy, names = js.spec.failure_policy, [child.name for child in old]
        limit = f" of at most {policy.max_restarts}" if policy is not None else ""
        going = sum(child.deleting for child in old)
        last = js.status.last_restart
        planned = last is not None and last.reason == MAINTENANCE
        message = (
            f"it {'leaves nodes, as planned,' if planned else 'restarts'}"
            f" ({js.status.restarts_count_towards_max}{limit} restarts counted):"
            f" {pluralize(len(old), 'Job')} of an earlier attempt still {'exists' if len(old) == 1 else 'exist'},"
            f" {going} in deletion ({join_names(names)})"
        )
        fix = WAIT_FOR_PODS if going else "the manager deletes them"
        yield _restart_waits(case, left, Finding(Level.WAITS, "restarting", message, fix=fix), names, "has to go first")


def old_pods(case: Case, left: frozenset[str]) -> Iterator[Answer]:
    """Pods of an earlier attempt have outlived their Jobs: a Job is created again when its leftover pods are gone."""
    if old := case.facts.leftover_pods:
        names = sorted(name for pods in old.values() for name in pods)
        message = (
            f"{pluralize(len(names), 'pod')} of an earlier attempt {'is' if len(names) == 1 else 'are'} still ending"
            f" ({join_names(names)}), and {pluralize(len(old), 'Job')} cannot be created again yet"
        )
        found = Finding(Level.WAITS, "old-pods", message, fix=WAIT_FOR_PODS)
        yield _restart_waits(case, left, found, old, "waits for its own")


def _restart_waits(case: Case, left: frozenset[str], found: Finding, old: Iterable[str], each: str) -> Answer:
    """The finding about a restart that waits for the Jobs `old`: for what each of them waits, and on which node.

    With BlockingRecreate all missing Jobs wait for all old ones; else each Job waits for its own.
    """
    policy, last = case.facts.jobset.spec.failure_policy, case.facts.jobset.status.last_restart
    wait = f"each {each}"
    if policy is not None and policy.restart_strategy == "BlockingRecreate":
        old = [position.name for position in case.survey.missing]
        wait = "none is created before all of those are gone (BlockingRecreate)"
    delays, since = held_up(case), last.start_time if last else ""
    message, fix = f"{found.message}; {wait}", "" if delays else found.fix
    found = replace(found, message=message, because=delays, fix=fix, since=since)
    return Answer(found, left.intersection(old), state=State.RESTARTING)


def warnings(case: Case, _left: frozenset[str]) -> list[Answer]:
    """Recent Warnings of the controller that no earlier cause explains."""
    blind = case.facts.jobs is None or (bool(case.survey.unready) and case.facts.pods is None)
    about_pods = set() if blind else {keys.PLACEMENT_PENDING, keys.PODS_UNSCHEDULABLE}
    nodes = {_WAITS_FOR_NODE} if any(delay.cause == WAITS_FOR_NODE for delay in held_up(case)) else set()
    over = set() if blind or case.survey.waiting else _WHILE_WAITING
    halted = {keys.JOBS_SUSPENDED_AGAIN} if case.survey.halted else set()
    elsewhere = {keys.JOB_CREATION_FAILED, *about_pods, *nodes, *over, *halted}
    absent = any(
        position.name not in case.facts.foreign and position.replicated_job.name not in case.survey.stages
        for position in case.survey.missing
    )
    by_reason: dict[str, Finding] = {}
    for event in case.recent_warnings:
        if event.reason in elsewhere or _DECISION in event.reason or (absent and holds_back(event)):
            continue
        text = f"Warning {event.reason}, last at {clock(event.last, case.facts.now)}: {event.note}"
        by_reason.setdefault(event.reason, Finding(Level.NOTE, "warning", text))
    return [Answer(finding) for finding in list(by_reason.values())[:_MAX_WARNINGS]]
