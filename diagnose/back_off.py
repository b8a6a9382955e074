"""Checks of failed pods that the Job controller replaces after a pause, the back-off of the Job. Pure."""

from collections.abc import Iterator

from api.batch import Job, pods_at_once
from controllers.planning.child_jobs import Child, integer
from diagnose.answers import Answer, KeyedFinding, one_answer_per_key
from diagnose.case import Case
from diagnose.facts import SeenPod
from diagnose.finding import Finding, Level, pluralize
from diagnose.fixes import logs_command
from diagnose.kubelet import how_it_failed, kubelet_fix
from diagnose.survey import missing_pods
from diagnose.times import seconds_since

_PAUSE_TEXT = "the Job controller makes the next pod after a pause: 10 s, doubled with each failure, at most 10 min"


@one_answer_per_key
def back_off(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[KeyedFinding]:
    """Jobs that lack pods after a pod of the Job has failed, unless the creation of the next pod was refused."""
    for child in case.unready_jobs(unexplained_jobs):
        uid = child.job.metadata.uid
        last = _last_failed_pod(case, uid)
        if last is None or not missing_pods(child.job):
            continue
        ended_seconds_ago = seconds_since(last.ended_at, case.facts.now)
        if not any(seconds_since(event.last_time, case.facts.now) < ended_seconds_ago for event in case.refusals(uid)):
            how, (failures, is_final) = how_it_failed(last), _failure_count_text(case, child, last)
            logs = f"{logs_command(case.facts.jobset, child.name)} shows what it wrote"
            reason_fix = kubelet_fix(how, last.metadata.namespace, last.name, last.spec.node_name)
            fix = "; ".join(filter(None, [reason_fix, logs, "" if is_final else _PAUSE_TEXT]))
            message = f"{ready_count(child.job)}; pod {last.name} has failed: {how}; {failures}"
            finding = Finding(Level.FAULT, "pod-failed", f"Job {child.name}: {message}", fix=fix, since=last.ended_at)
            yield KeyedFinding(child.name, how, finding)


def tolerated_failures(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """A note about Jobs that have all pods again after failures, of which backoffLimit allows only so many."""
    jobs = [job for job in case.facts.jobs or () if job.status.failed and job.spec.backoff_limit_per_index is None]
    jobs = [job for job in jobs if not (job.outcome or missing_pods(job) or job.metadata.name in unexplained_jobs)]
    if jobs:
        most_failed = max(jobs, key=lambda job: (job.status.failed, job.metadata.name))
        name, number, limit = most_failed.metadata.name, most_failed.status.failed, most_failed.spec.backoff_limit
        other_jobs = f"; {pluralize(len(jobs) - 1, 'more Job', 'has', 'have')} failures, too" if len(jobs) > 1 else ""
        message = f"Job {name}: {pluralize(number, 'failure')} so far, backoffLimit allows {limit}{other_jobs}"
        fix = f"{logs_command(case.facts.jobset, name)} shows what its pods wrote"
        yield Answer(Finding(Level.NOTE, "failures", message, fix=fix))


def _last_failed_pod(case: Case, uid: str) -> SeenPod | None:
    """The pod of the Job with this UID that failed last, if it is known."""
    return max(case.failed_pods.get(uid, ()), key=lambda pod: (pod.ended_at, pod.name), default=None)


def earlier_failures_text(case: Case, child: Child) -> str:
    """How often pods of a Job have failed and been replaced, and how the last pod failed; empty without failures."""
    job = case.jobs_by_uid[child.job.metadata.uid]
    if not job.status.failed:
        return ""
    last = _last_failed_pod(case, job.metadata.uid)
    limit = "" if job.spec.backoff_limit_per_index is not None else f", backoffLimit allows {job.spec.backoff_limit}"
    how = f", the last in {last.name}: {how_it_failed(last)}" if last is not None else ""
    return f"{pluralize(job.status.failed, 'failure')} before{how}{limit}"


def ready_count(job: Job) -> str:
    """How many pods of a Job are ready, as in `1 of 4 pods ready`."""
    return f"{job.status.ready or 0} of {pluralize(pods_at_once(job.spec), 'pod')} ready"


def _failure_count_text(case: Case, child: Child, pod: SeenPod) -> tuple[str, bool]:
    """The number of failures and its limit as a text, and whether these failures are too many to replace the pod."""
    job = case.jobs_by_uid[child.job.metadata.uid]
    if (limit := job.spec.backoff_limit_per_index) is not None:
        index = pod.metadata.annotations.index
        failures = (integer(pod.metadata.annotations.index_failures) or 0) + 1
        text = f"{pluralize(failures, 'failure')} of index {index}, backoffLimitPerIndex allows {limit}"
        return text, failures > limit
    return f"{pluralize(job.status.failed, 'failure')}, backoffLimit allows {job.spec.backoff_limit}", False
