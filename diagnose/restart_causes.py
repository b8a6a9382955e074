"""Checks of restarts: restarts that are under way, repeated failures, and the last recovery. Pure.

An attempt is the time between two restarts. In a restart in place, pods stay and an agent in each pod restarts workers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from api.jobset import JobSet
from api.jobset_status import FailedAttempt, JobSetStatus, RuleStep
from api.pending import clean_words
from api.policies import FailurePolicyRule
from api.recovery_times import AttemptTimes, Recovery
from controllers.planning import escalation
from controllers.planning.maintenance import REASON as MAINTENANCE
from controllers.planning.recovery import goodput
from diagnose import states
from diagnose.answers import Answer
from diagnose.case import Case
from diagnose.disruptions import disruption_fix, disruption_in_history, rjob_of
from diagnose.ends import deletion_delays, describe_disruption
from diagnose.finding import WAIT_FOR_PODS, Finding, Level, pluralize
from diagnose.fixes import IN_NEW_JOBSET, logs_command
from diagnose.kubelet import kubelet_fix, meaning_of
from diagnose.states import State, recently_failed_attempts
from diagnose.times import seconds_since
from diagnose.wording import DEADLINE_EXCEEDED
from kube.model.field import join_names

_MAX_ATTEMPTS = 3
"""At most this many failed attempts are listed."""


def attempt_text(failed: FailedAttempt) -> str:
    """How an attempt ended: its Job, container, pod, node and exit code, and the message or the reason."""
    location, reason = _failure_location(failed), failed.message or failed.reason
    return f"{location}: {reason}" if location else reason


def _failure_location(failed: FailedAttempt) -> str:
    pod = f", {_describe_pod(failed)}" if failed.pod else ""
    return f"Job {failed.failed_job}{pod}" if failed.failed_job else ""


def _describe_pod(failed: FailedAttempt) -> str:
    container = f"container {failed.container} of " if failed.container else ""
    node = f" on node {failed.node}" if failed.node else ""
    code = "" if failed.exit_code is None else f", exit code {failed.exit_code}"
    reason = why_it_failed(failed)
    return f"{container}pod {failed.pod}{node}{code}" + (f" ({reason})" if reason else "")


def why_it_failed(failed: FailedAttempt) -> str:
    """The kubelet's reason and the last line of the container's message, as in `OOMKilled` or `ValueError: no data`."""
    lines = failed.termination_message.strip().splitlines()
    return ": ".join(filter(None, [failed.pod_reason, clean_words(lines[-1]) if lines else ""]))


def decisive_container(status: JobSetStatus, message: str) -> str:
    """The container and the exit code that failed a JobSet; empty if `message`, of the condition Failed, has them."""
    failed = status.attempt_history[-1] if status.attempt_history else FailedAttempt()
    if not failed.pod or failed.pod in message or f"(first failed job: {failed.failed_job})" not in message:
        return ""
    meaning = "" if why_it_failed(failed) else meaning_of(failed.exit_code, is_from_kubelet=bool(failed.node))
    return _describe_pod(failed) + (f" ({meaning})" if meaning else "")


def attempt_finding(js: JobSet, failed: FailedAttempt) -> Finding:
    """A note on how an attempt failed."""
    disruption = disruption_in_history(js, failed)
    message = f"attempt {failed.attempt}: {attempt_text(failed)}" + (f"; {disruption}" if disruption else "")
    return Finding(Level.NOTE, "attempt", message, since=failed.time)


def deadline_fix(js: JobSet, failed: FailedAttempt) -> str:
    """The fix if the attempt ended as a Job was active for longer than its activeDeadlineSeconds; else empty."""
    rjob = rjob_of(js, failed.failed_job)
    seconds = None if rjob is None else rjob.job_spec.get("activeDeadlineSeconds")
    if rjob is None or seconds is None or not failed.message.startswith(DEADLINE_EXCEEDED):
        return ""
    return (
        f"Jobs of {rjob.name} may be active for {seconds} s, by activeDeadlineSeconds in the spec of their template:"
        " find out what takes so long, or write more seconds"
    )


def late_agents(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """All pods are ready, and the workers wait until the agents of all pods have reported the attempt."""
    if pods := case.facts.pods_without_agent_report:
        meta, names = case.facts.jobset.metadata, [pod.metadata.name for pod in pods]
        message = (
            f"{pluralize(len(pods), 'pod', 'has', 'have')} not reported the attempt in place ({join_names(names)}):"
            " the workers of all pods wait for that"
        )
        fix = (
            f"kubectl logs -n {meta.namespace} {names[0]} shows what its agent says; its ServiceAccount needs patch on"
            " pods, and get, list and watch on jobsets.jobset.x-k8s.io"
        )
        yield Answer(Finding(Level.WAITS, "agent-late", message, fix=fix), state=State.WAITING)


def restarting(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Jobs of an earlier attempt have to be deleted before Jobs of this attempt are created."""
    js, previous = case.facts.jobset, case.survey.previous_jobs
    if previous:
        policy, names = js.spec.failure_policy, [child.name for child in previous]
        limit = f" of at most {policy.max_restarts}" if policy is not None else ""
        jobs, deleting = pluralize(len(previous), "Job"), sum(child.deleting for child in previous)
        last_restart = js.status.last_restart
        is_planned = last_restart is not None and last_restart.reason == MAINTENANCE
        message = (
            f"it {'leaves nodes, as planned,' if is_planned else 'restarts'}"
            f" ({js.status.restarts_count_towards_max}{limit} restarts counted):"
            f" {jobs} of an earlier attempt still {'exists' if len(previous) == 1 else 'exist'},"
            f" {deleting} in deletion ({join_names(names)})"
        )
        fix = WAIT_FOR_PODS if deleting else "the manager deletes them"
        finding = Finding(Level.WAITS, "restarting", message, fix=fix)
        yield _restart_answer(case, unexplained_jobs, finding, names, "has to go first")


def old_pods(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Pods of an earlier attempt have outlived their Jobs. A Job is created again when its leftover pods are gone."""
    if leftover_pods := case.facts.leftover_pods:
        names = sorted(name for pods in leftover_pods.values() for name in pods)
        message = (
            f"{pluralize(len(names), 'pod')} of an earlier attempt {'is' if len(names) == 1 else 'are'} still ending"
            f" ({join_names(names)}), and {pluralize(len(leftover_pods), 'Job')} cannot be created again yet"
        )
        finding = Finding(Level.WAITS, "old-pods", message, fix=WAIT_FOR_PODS)
        yield _restart_answer(case, unexplained_jobs, finding, leftover_pods, "waits for its own")


def _restart_answer(
    case: Case, unexplained_jobs: frozenset[str], finding: Finding, job_names: Iterable[str], wait_predicate: str
) -> Answer:
    """The answer with a finding about a restart, to which the reasons for its delay are added.

    `job_names`: the Jobs that cannot be created yet; with BlockingRecreate, all missing Jobs wait instead.
    `wait_predicate`: what each of these Jobs waits for, such as `waits for its own`.
    """
    js, last_restart = case.facts.jobset, case.facts.jobset.status.last_restart
    wait = f"each {wait_predicate}"
    if js.failure_policy.restart_strategy == "BlockingRecreate":
        job_names = [position.name for position in case.survey.missing_jobs]
        wait = "none is created before all of those are gone (BlockingRecreate)"
    delays, since = deletion_delays(case), last_restart.start_time if last_restart else ""
    message, fix = f"{finding.message}; {wait}", "" if delays else finding.fix
    finding = replace(finding, message=message, because=delays, fix=fix, since=since)
    return Answer(finding, unexplained_jobs.intersection(job_names), state=State.RESTARTING)


def keeps_failing(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Attempts have failed within the last hour. The finding says how many restarts are left, and how the last ended.

    A JobSet with at least two such attempts keeps failing, whatever the state of its Jobs. One attempt gives a note.
    """
    js, now = case.facts.jobset, case.facts.now
    recent = recently_failed_attempts(js, now)
    if not recent or not js.status.restarts:
        return
    last = recent[-1]
    disruption = _disruption_clause(case, last)
    fix = disruption_fix(js, last.failed_job) if disruption else ""
    failure = "; ".join(filter(None, [_failure_location(last) or last.message or last.reason, disruption]))
    message = f"{_restart_text(case, last)}; attempt {last.attempt}: {failure}"
    if job_deadline_fix := deadline_fix(js, last):
        fix = f"{job_deadline_fix} {IN_NEW_JOBSET}"
    if not states.keeps_failing(js, now):
        yield Answer(Finding(Level.NOTE, "restarted", message, fix=fix, since=last.time))
        return
    finding = Finding(
        Level.FAULT,
        "keeps-failing",
        f"{pluralize(len(recent), 'attempt')} failed within the last hour, last: {last.message or last.reason}",
        because=tuple(attempt_finding(js, failed) for failed in reversed(recent[-_MAX_ATTEMPTS:])),
        fix="; ".join(filter(None, [_log_fix(case, last), fix, _endless_rule_fix(js, last)])),
        since=recent[0].time,
    )
    yield Answer(finding, state=State.KEEPS_FAILING, headline=message)


def _disruption_clause(case: Case, failed: FailedAttempt) -> str:
    """A clause on how the pod that failed the Job was preempted, evicted or deleted; empty if this is not known."""
    names = (failed.pod,) if failed.pod else ()
    events = (event for event in case.disruptions if event.regarding.name.startswith(names or f"{failed.failed_job}-"))
    event = next((event for event in events if failed.failed_job), None)
    if event is None:
        return disruption_in_history(case.facts.jobset, failed)
    return f"pod {event.regarding.name} was {describe_disruption(event)}"


def _restart_text(case: Case, failed: FailedAttempt) -> str:
    """How often the JobSet restarted, as in `restarted 3 times, 17 of 20 restarts left`.

    If a rule that does not count restarts has restarted the JobSet last, the text names the rule and its own limit.
    """
    js = case.facts.jobset
    limit, used = js.failure_policy.max_restarts, js.status.restarts_count_towards_max
    times = "once" if js.status.restarts == 1 else f"{js.status.restarts} times"
    restarts_left = f"{max(limit - used, 0)} of {pluralize(limit, 'restart')} left"
    rule_and_action = _uncounted_rule(js, failed)
    if rule_and_action is None:
        return f"restarted {times}, {restarts_left}"
    rule, action = rule_and_action
    used_by_rule = next((entry.restarts for entry in js.status.failure_policy_restarts if entry.name == rule.name), 0)
    rule_limit, limit_text = rule.max_restarts, "without a limit"
    if rule_limit is not None:
        limit_text = f"{max(rule_limit - used_by_rule, 0)} of {rule_limit} left"
    by_rule = f"by rule {rule.name} ({action}, {limit_text})"
    text = f"restarted {times}, {js.status.restarts - used} not counted towards maxRestarts {by_rule}"
    return text + (f", {restarts_left}" if used else "")


def _uncounted_rule(js: JobSet, failed: FailedAttempt) -> tuple[FailurePolicyRule, str] | None:
    """The rule that restarted the JobSet after this attempt without counting the restart, and its action.

    None if the restart counted.
    """
    rule = next((rule for rule in js.failure_policy.rules if failed.reason == f"FailurePolicy_{rule.name}"), None)
    if rule is None:
        return None
    actions = escalation.actions_of(rule)
    action = actions[min(max(failed.step or 1, 1), len(actions)) - 1]
    return None if action.counts_restarts else (rule, action.name)


def _endless_rule_fix(js: JobSet, failed: FailedAttempt) -> str:
    """The fix for restarts by a rule without a limit; empty if the rule has a limit or counts restarts."""
    rule, _ = _uncounted_rule(js, failed) or (None, "")
    if rule is None or rule.max_restarts is not None:
        return ""
    return f"restarts by rule {rule.name} never end: give it a maxRestarts, or let it match less, {IN_NEW_JOBSET}"


def _log_fix(case: Case, failed: FailedAttempt) -> str:
    """The meaning of the exit code, its fix, and the command for logs of the present attempt."""
    js, code = case.facts.jobset, failed.exit_code
    meaning = why_it_failed(failed) or meaning_of(code, is_from_kubelet=bool(failed.node))
    logs = f"{logs_command(js, failed.failed_job)} shows what the present attempt writes"
    reason_fix = kubelet_fix(why_it_failed(failed), js.metadata.namespace, failed.pod, failed.node)
    return "; ".join(filter(None, [f"exit code {code}: {meaning}" if meaning and code else "", reason_fix, logs]))


def escalations(case: Case, _unexplained_jobs: frozenset[str]) -> list[Answer]:
    """Notes on failure-policy rules with several actions, with the current and the next action of each rule."""
    rules = case.facts.jobset.failure_policy.rules
    steps = {step.name: step for step in case.facts.jobset.status.failure_policy_steps}
    return [
        Answer(Finding(Level.NOTE, "escalation", _step_text(rule, steps[rule.name])))
        for rule in rules
        if rule.then and rule.name in steps
    ]


def _step_text(rule: FailurePolicyRule, rule_step: RuleStep) -> str:
    """The current action of a rule with several actions, and when its next action comes."""
    step = min(max(rule_step.step, 1), len(rule.then) + 1)
    message = f"failure policy rule {rule.name} takes {escalation.describe_step(rule, step)}"
    if step > len(rule.then):
        return message
    next_step = rule.then[step - 1]
    window = "" if next_step.within_seconds is None else f" within {next_step.within_seconds} s"
    restarts = rule_step.restarts if next_step.within_seconds is None else len(rule_step.times)
    return f"{message}; {next_step.action} comes after {next_step.after_restarts} restarts{window}, {restarts} so far"


def jobs_keep_failing(case: Case, _unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Jobs that a rule with the action RestartJob has restarted more than once, the last time within the last hour."""
    js, now = case.facts.jobset, case.facts.now
    creation_times = {job.metadata.name: job.metadata.creation_timestamp or "" for job in case.facts.jobs or ()}
    restarts = states.failing_jobs(js, creation_times, now)
    if not restarts:
        return
    most_first = sorted(restarts, key=lambda name: (-restarts[name], name))
    names = join_names([f"{name} {restarts[name]} times" for name in most_first])
    message = f"{pluralize(len(restarts), 'Job', 'was', 'were')} restarted more than once: {names}"
    fix = f"{logs_command(js, most_first[0])} shows what it writes"
    finding = Finding(Level.FAULT, "job-keeps-failing", message, fix=fix, since=creation_times[most_first[0]])
    yield Answer(finding, state=State.KEEPS_FAILING, headline=message)


def last_recovery(case: Case) -> Iterator[Answer]:
    """The phases of the last recovery; no answer for a JobSet without recorded recoveries."""
    recovery = case.facts.jobset.status.recovery
    attempts = () if recovery is None else reversed(recovery.attempts)
    entry = next((entry for entry in attempts if entry.detected_after_seconds is not None), None)
    if recovery is None or entry is None:
        return
    seconds = entry.ready_after_seconds
    duration = f"{seconds} s from the failure until all Jobs were ready" if seconds is not None else "it is not over"
    because = tuple(Finding(Level.FINE, "recovery-phase", message) for message in _phase_lines(case, entry))
    message = f"last recovery, of attempt {entry.attempt}: {duration}; {_goodput_text(case, recovery)}"
    yield Answer(Finding(Level.FINE, "recovery", message, because=because))


def _phase_lines(case: Case, times: AttemptTimes) -> Iterator[str]:
    """For each phase that the recovery has reached: its time, its seconds after the failure, and what happened."""
    history = case.facts.jobset.status.attempt_history
    failed = next((attempt_text(attempt) for attempt in reversed(history) if attempt.attempt == times.attempt - 1), "")
    phases = (
        (0, f"failure: {failed}" if failed else "failure"),
        (times.detected_after_seconds, "restart decided"),
        (times.drained_after_seconds, "old Jobs and pods gone"),
        (times.created_after_seconds, "all Jobs created"),
        (times.ready_after_seconds, "all Jobs ready"),
    )
    for seconds, message in phases:
        if seconds is not None:
            yield f"{_time_after(times.since, seconds)}+{seconds} s: {message}"


def _time_after(since: str, seconds: int) -> str:
    try:
        return f"{(datetime.fromisoformat(since) + timedelta(seconds=seconds)).astimezone(UTC):%H:%M:%SZ} "
    except (ValueError, OverflowError):
        return ""


def _goodput_text(case: Case, recovery: Recovery) -> str:
    """The goodput: the share of its time for which the JobSet has run, by the status and the time since its update."""
    unrecorded_seconds = max(int(seconds_since(recovery.since, case.facts.now, unknown=0)), 0)
    running = recovery.running_seconds + (unrecorded_seconds if recovery.running else 0)
    lost = recovery.lost_seconds + (0 if recovery.running else unrecorded_seconds)
    ready_spares = sum(entry.ready for entry in case.facts.jobset.status.spares)
    spare_seconds = recovery.spare_seconds + unrecorded_seconds * ready_spares
    spares = f", {spare_seconds} s held by spares" if spare_seconds else ""
    return f"goodput {goodput(running, lost) or 'not known yet'}: {running} s running, {lost} s lost{spares}"
