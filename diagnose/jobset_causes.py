"""Checks of the JobSet as a whole, such as its end, its suspension or its deadline. Pure."""

from collections.abc import Iterator

import msgspec

from api import keys, stored_defaults
from api.avoided_nodes import nodes_to_avoid, recent_failures
from api.jobset import JobSet
from api.spares import has_nodes_of, running_part, spares_of
from controllers.planning import finished
from controllers.planning.start_timeout import GATE as START_TIMEOUT_GATE
from controllers.planning.start_timeout import MAX_CHECKS
from diagnose import fixes
from diagnose.answers import Answer
from diagnose.case import LEASE_MARGIN_SECONDS, Case
from diagnose.disruptions import disruption_fix, disruption_in_history
from diagnose.ends import WAITS_FOR_NODE, deletion_delays
from diagnose.finding import WAIT_FOR_PODS, Finding, Level, pluralize
from diagnose.job_causes import holds_jobs_back
from diagnose.kubelet import kubelet_fix
from diagnose.restart_causes import attempt_finding, deadline_fix, decisive_container, why_it_failed
from diagnose.states import State
from diagnose.times import age, clock, seconds_since
from kube.model.field import join_names
from kube.model.jsontree import dig
from kube.model.meta import find
from manifests.installed.webhook_switch import State as Webhooks

_RESTART_WAITS_FOR_NODE = "RestartWaitsForNode"
_REASONS_WHILE_WAITING = {
    *(_RESTART_WAITS_FOR_NODE, "LostPodsReplaced", "PVCCreationFailed", "FailedResourcePropagation", "GangWaiting"),
    *("SchedulingObjectsFailed", "APIUnavailable", "CompositePodGroupUnavailable", "FieldDropped", "NameConflict"),
}
"""Reasons of Warnings that no longer hold when all Jobs are ready or done."""
_MAX_WARNINGS = 3
"""At most this many Warnings are listed, each with another reason."""
_WEBHOOK_FIXES = {
    Webhooks.ON: "",
    Webhooks.OFF: "first jobset webhooks on, for they are off; then ",
    Webhooks.MISSING: "first have the webhooks back, which are not there: jobset webhooks status says how; then ",
    None: "once jobset webhooks status says that they are on, ",
}
"""The beginning of the fix for a JobSet without defaults, by the state of the webhooks; None if it is not known."""
_FOREGROUND_FINALIZER = "foregroundDeletion"
_DEADLINE_FIX = "find out what took so long, delete the JobSet and create it again, if need be with more seconds"


def final_state(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """The JobSet is Completed or Failed. The finding says why, by which Job, and after which attempts."""
    js, status = case.facts.jobset, case.facts.jobset.status
    if not status.terminal_state:
        return
    condition = find(status.conditions, status.terminal_state)
    since = condition.last_transition_time if condition else ""
    reason = f"{condition.reason}: {condition.message}" if condition else status.terminal_state
    if status.terminal_state == keys.COMPLETED:
        yield Answer(Finding(Level.FINE, "completed", reason, since=since), state=State.COMPLETED, is_final=True)
        return
    has_exceeded_deadline = condition is not None and condition.reason == finished.EXCEEDED
    message = ": ".join(filter(None, [reason, decisive_container(status, reason)]))
    because = tuple(attempt_finding(js, failed) for failed in reversed(status.attempt_history))
    fix = _DEADLINE_FIX if has_exceeded_deadline else _failure_fix(js, reason)
    yield Answer(Finding(Level.FAULT, "failed", message, because, fix, since), state=State.FAILED, is_final=True)


def _failure_fix(js: JobSet, message: str) -> str:
    """The fix that says how to see why the JobSet failed, and how to run it again or allow more restarts.

    `message`: reason and message of the condition Failed.
    """
    failed = js.status.attempt_history[-1] if js.status.attempt_history else None
    max_restarts = js.failure_policy.max_restarts
    logs = f"{fixes.logs_command(js, failed.failed_job if failed else '')} shows what the failed pod wrote"
    if failed and (reason_fix := kubelet_fix(why_it_failed(failed), js.metadata.namespace, failed.pod, failed.node)):
        logs = f"{reason_fix}; {logs}"
    if failed and (job_deadline_fix := deadline_fix(js, failed)):
        return f"{job_deadline_fix}; {logs}; to run it again: {fixes.recreation_commands(js)}"
    retries = "" if max_restarts else "spec.failurePolicy.maxRestarts allows retries"
    if max_restarts and message.startswith("ReachedMaxRestarts"):
        retries = f"a spec.failurePolicy.maxRestarts above {max_restarts} allows more retries"
    rule_fix = disruption_fix(js, failed.failed_job, "") if failed and disruption_in_history(js, failed) else ""
    rerun = f"fix it and run it again: {fixes.recreation_commands(js)}"
    return "; ".join(filter(None, [logs, rerun, retries, rule_fix]))


def deletion(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """The JobSet is being deleted. The finding says why its deletion takes long."""
    meta, jobs = case.facts.jobset.metadata, case.facts.jobs
    if meta.deletion_timestamp is None:
        return
    because = []
    if _FOREGROUND_FINALIZER in meta.finalizers:
        number = "its Jobs" if jobs is None else pluralize(len(jobs), "Job")
        names = f" ({join_names([job.metadata.name for job in jobs])})" if jobs else ""
        message = f"{number}{names} and all pods of them have to go first"
        delays = deletion_delays(case)
        because.append(Finding(Level.WAITS, "foreground-deletion", message, delays, "" if delays else WAIT_FOR_PODS))
    for name in meta.finalizers:
        if name != _FOREGROUND_FINALIZER:
            message = f"finalizer {name} holds it: whoever set it has to remove it"
            fix = "look at the controller that the finalizer is named after"
            because.append(Finding(Level.WAITS, "finalizer", message, fix=fix))
    message = "it has been deleted, and stays until nothing holds it any more"
    finding = Finding(Level.WAITS, "deleted", message, tuple(because), since=meta.deletion_timestamp)
    yield Answer(finding, state=State.DELETED, is_final=True)


def namespace_deleted(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """The namespace is being deleted. Nothing can be created there, and the JobSet is deleted, too."""
    js, namespace = case.facts.jobset, case.facts.namespace
    name, file = js.metadata.namespace, f"{js.metadata.name}.yaml"
    if namespace is None or namespace.metadata.deletion_timestamp is None:
        return
    messages = (condition.message for condition in namespace.status.conditions if condition.status == "True")
    finding = Finding(
        Level.WAITS,
        "namespace-deleted",
        f"its namespace {name} is being deleted with all that is in it, and nothing can be created there",
        because=tuple(Finding(Level.NOTE, "namespace-condition", message) for message in filter(None, messages)),
        fix=f"to run it later, keep it: {fixes.manifest_command(js)} > {file}; once the namespace is gone, kubectl"
        f" create namespace {name} and kubectl create -f {file}",
        since=namespace.metadata.deletion_timestamp,
    )
    yield Answer(finding, state=State.DELETED, is_final=True)


def managed_elsewhere(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Another controller manages the JobSet."""
    js = case.facts.jobset
    if not js.is_ours:
        message = f"spec.managedBy is {js.spec.managed_by}: that controller creates its Jobs, this one leaves it alone"
        fix = "ask that controller; for kueue.x-k8s.io/multikueue the Jobs run in a worker cluster"
        yield Answer(Finding(Level.NOTE, "managed-by", message, fix=fix), state=State.ELSEWHERE, is_final=True)


def missing_defaults(js: JobSet) -> list[tuple[str, str]]:
    """Paths of the fields that lack a default of the webhooks, each with the effect on the JobSet."""
    return [(str(path), effect) for path, effect in stored_defaults.missing_defaults(msgspec.to_builtins(js.spec))]


def without_defaults(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """The JobSet was stored while no webhook was called, so it lacks defaults."""
    js = case.facts.jobset
    if missing := missing_defaults(js):
        effects = " and ".join(dict.fromkeys(effect for _, effect in missing))
        paths = join_names([path for path, _ in missing])
        message = f"stored without defaults, as no webhook was called: {effects} ({paths})"
        fix = f"{_WEBHOOK_FIXES[case.facts.webhook_state]}make it again: {fixes.recreation_command(js)}"
        yield Answer(Finding(Level.NOTE, "without-defaults", message, fix=fix))


def suspension(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """The user, or a queue, has suspended the JobSet."""
    js = case.facts.jobset
    if not js.spec.suspend:
        return
    queue = js.metadata.labels.get(keys.QUEUE_NAME)
    condition = find(js.status.conditions, keys.SUSPENDED)
    because: tuple[Finding, ...] = ()
    if ending_names := [job.metadata.name for job in case.facts.jobs or () if job.status.active > 0]:
        number = pluralize(len(ending_names), "Job", "still has", "still have")
        message = f"{number} pods that are ending: {join_names(ending_names)}"
        because = (Finding(Level.NOTE, "ending", message, deletion_delays(case)),)
    message = "spec.suspend is true: its Jobs run no pods"
    fix = f"jobset resume {js.metadata.name} -n {js.metadata.namespace}"
    if queue:
        missing_kueue = "" if case.facts.has_kueue else ", and there is no Kueue here"
        message += f"; it is in the Kueue queue {queue}{missing_kueue}"
    if queue and case.facts.has_kueue:
        fix = f"Kueue resumes it when queue {queue} admits it: {fixes.workloads_command(js)} says when"
    elif not queue and (template_queue := _queue_of_template(js)):
        name, label = template_queue
        message += f"; the label {keys.QUEUE_NAME} is on the template of {name}: Kueue looks for it on the JobSet"
        fix = f"kubectl label jobset {js.metadata.name} -n {js.metadata.namespace} {keys.QUEUE_NAME}={label}; or {fix}"
    since = condition.last_transition_time if condition and condition.status == "True" else ""
    cause = "suspended"
    admissions = filter(None, (find(workload.status.conditions, "Admitted") for workload in case.facts.workloads))
    if admission := next((condition for condition in admissions if condition.status == "True"), None):
        cause, since = "admitted-not-resumed", admission.last_transition_time
        message += "; Kueue has admitted it and holds quota for it, but has not resumed it"
        show = f"{fixes.workloads_command(js)} -o yaml shows the admission"
        fix = f"if this lasts, Kueue's log says what refuses its update; {show}"
    yield Answer(Finding(Level.WAITS, cause, message, because, fix, since), state=State.SUSPENDED, is_final=True)


def _queue_of_template(js: JobSet) -> tuple[str, str] | None:
    """The name of the first ReplicatedJob whose Job or pod template has the label of a queue, and the queue."""
    for rjob in js.spec.replicated_jobs:
        for template in (rjob.template, rjob.job_spec.get("template")):
            if queue := dig(template, "metadata", "labels", keys.QUEUE_NAME):
                return rjob.name, str(queue)
    return None


def active_deadline(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """A note on how long the JobSet may still run, or that its deadline has no effect."""
    js, now = case.facts.jobset, case.facts.now
    seconds = js.spec.active_deadline_seconds
    if seconds is None or not js.status.replicated_jobs_status or case.has_gate_warning(finished.GATE):
        return
    start = js.status.start_time
    seconds_left = finished.time_left(seconds, start, now.isoformat())
    fix = ""
    if seconds_left is None:
        message = f"spec.activeDeadlineSeconds is {seconds}, and no manager counts them"
        fix = f"start the manager with --feature-gates={finished.GATE}=true"
    elif seconds_left > 0:
        message = f"it fails in {age(seconds_left)} unless it completes before: spec.activeDeadlineSeconds is {seconds}"
    else:
        message = f"it has run for longer than spec.activeDeadlineSeconds, which is {seconds}: the manager ends it"
    yield Answer(Finding(Level.NOTE, "active-deadline", message, fix=fix, since=start))


def start_timeout(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """A note on how long the oldest pending pod may still take, or that no manager enforces startTimeoutSeconds."""
    seconds, now = case.facts.jobset.failure_policy.start_timeout_seconds, case.facts.now
    if seconds is None or case.has_gate_warning(START_TIMEOUT_GATE):
        return
    pods = (pod for pod in case.facts.pods or () if pod.is_live and not pod.is_gated)
    pending_pods = (pod for pod in pods if pod.status.phase == "Pending")
    pod = min(pending_pods, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)
    if pod is None:
        return
    waited = seconds_since(pod.metadata.creation_timestamp, now)
    limit, fix = f"spec.failurePolicy.startTimeoutSeconds is {seconds}", ""
    if waited < seconds:
        message = f"pod {pod.name} fails its Job in {age(seconds - waited)} unless it runs before: {limit}"
    elif waited < seconds + seconds / MAX_CHECKS + LEASE_MARGIN_SECONDS:
        message = f"pod {pod.name} has not run in time, and the failure policy decides: {limit}"
    else:
        message = f"pod {pod.name} has not run in time, and no manager acts on that: {limit}"
        fix = f"start the manager with --feature-gates={START_TIMEOUT_GATE}=true"
    since = pod.metadata.creation_timestamp or ""
    yield Answer(Finding(Level.NOTE, "start-timeout", message, fix=fix, since=since))


def avoided_nodes(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """A note on nodes that failed the JobSet: whether new pods avoid them, and for how long."""
    js, now = case.facts.jobset, case.facts.now.isoformat()
    policy, avoided_names = js.failure_policy.avoid_nodes, {node.name for node in nodes_to_avoid(js, now)}
    if policy is None:
        return
    because = []
    for node in reversed(recent_failures(js, now)):
        time_left = age(policy.for_seconds - seconds_since(node.last_time, case.facts.now, unknown=0))
        domain = f" and its domain {node.domain}" if node.domain else ""
        state = f"avoided for {time_left} more" if node.name in avoided_names else "not avoided"
        message = f"node {node.name}{domain}: {state}, failed {pluralize(node.failures, 'time')}; {node.reason}"
        because.append(Finding(Level.NOTE, "failed-node", message, since=node.last_time))
    if not because:
        return
    message = f"{pluralize(len(avoided_names), 'node', 'is', 'are')} avoided by pods of Jobs that are created now"
    yield Answer(Finding(Level.NOTE, "avoided-nodes", message, because=tuple(because)))


def maintenance_notice(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """A note on nodes that the JobSet will leave for their maintenance, and when."""
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


def reduced_replicas(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Notes on ReplicatedJobs that run with fewer Jobs than the spec has, until there is room for more."""
    js = case.facts.jobset
    if js.status.terminal_state:
        return
    replicas = {rjob.name: rjob.replicas for rjob in js.spec.replicated_jobs}
    for entry in js.status.reduced_replicas:
        message = (
            f"ReplicatedJob {entry.name} runs with {entry.replicas} of {pluralize(replicas.get(entry.name, 0), 'Job')}"
            f" since {clock(entry.since, case.facts.now)}: the others wait for room"
        )
        if entry.held:
            message += f"; placeholders hold it for {entry.held} of them, and the set restarts with these soon"
        yield Answer(Finding(Level.NOTE, "reduced-replicas", message, since=entry.since))


def missing_spares(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Notes on ReplicatedJobs of spares that hold no places, or in which a spare is not ready."""
    js = case.facts.jobset
    spares = {rjob.name: rjob for rjob in spares_of(js)}
    for entry in js.status.spares:
        rjob = spares.get(entry.name)
        if rjob is not None and not has_nodes_of(rjob, js):
            message = (
                f"spares of ReplicatedJob {entry.name} hold no places for {rjob.spare_for}: their nodeSelector or"
                " tolerations are others, as where a queue has given them another ResourceFlavor"
            )
            yield Answer(Finding(Level.NOTE, "missing-spares", message))
        elif rjob is not None and entry.missing:
            used = f"; {pluralize(entry.used, 'place')} given so far" if entry.used else ""
            message = (
                f"{entry.ready} of {pluralize(entry.ready + entry.missing, 'spare')} of ReplicatedJob {entry.name} for"
                f" {rjob.spare_for} are ready: the next pod of {rjob.spare_for} that finds no node may have to wait"
                f"{used}"
            )
            yield Answer(Finding(Level.NOTE, "missing-spares", message))


def unreadable_jobs(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """The user may not list Jobs. The findings are what the status says about the Jobs."""
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


def warnings(case: Case, _unexplained_jobs: frozenset[str]) -> list[Answer]:
    """Recent Warnings of the manager that no other check explains, one for each reason."""
    are_pods_unknown = case.facts.jobs is None or (bool(case.survey.unready_jobs) and case.facts.pods is None)
    pod_reasons = set() if are_pods_unknown else {keys.PLACEMENT_PENDING, keys.PODS_UNSCHEDULABLE}
    has_dead_node = any(delay.cause == WAITS_FOR_NODE for delay in deletion_delays(case))
    node_reasons = {_RESTART_WAITS_FOR_NODE} if has_dead_node else set()
    obsolete_reasons = set() if are_pods_unknown or case.survey.unsettled_names else _REASONS_WHILE_WAITING
    halted_reasons = {keys.JOBS_SUSPENDED_AGAIN} if case.survey.halted_jobs else set()
    explained_reasons = {keys.JOB_CREATION_FAILED, *pod_reasons, *node_reasons, *obsolete_reasons, *halted_reasons}
    has_absent_jobs = any(position.name not in case.facts.foreign_owners for position in case.survey.startable_jobs)
    by_reason: dict[str, Finding] = {}
    for event in case.recent_warnings:
        if (
            event.reason in explained_reasons
            or "FailurePolicy" in event.reason  # about a restart: see diagnose/restart_causes.py
            or (has_absent_jobs and holds_jobs_back(event))
        ):
            continue
        text = f"Warning {event.reason}, last at {clock(event.last_time, case.facts.now)}: {event.note}"
        by_reason.setdefault(event.reason, Finding(Level.NOTE, "warning", text))
    return [Answer(finding) for finding in list(by_reason.values())[:_MAX_WARNINGS]]
