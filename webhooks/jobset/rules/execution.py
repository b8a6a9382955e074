"""Stages (spec.executionPolicy): they exclude all other orders of start, and no stage may wait forever."""

from collections.abc import Iterator

from api.execution import NOT_FAILED, NOT_SUSPENDED, STAGE_STATES
from api.jobset import STAGES_OR_DEPENDS_ON, STAGES_OR_STARTUP
from api.stages import is_ordered, is_staged, stages
from kube.model.field import SPEC, FieldError, Layer
from kube.model.suggest import did_you_mean
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.in_place import IN_PLACE
from webhooks.jobset.rules.success import completion_check
from webhooks.jobset.subject import Subject

POLICY = SPEC.at("executionPolicy")
ORDER = POLICY.at("executionPolicyOrder")
STATE = POLICY.at("replicatedJobsStatus")
SEQUENTIAL = POLICY.at("sequentialReplicatedJobs")
MAX_COMPARED = 256
"""The most stages of a set whose reachability is checked."""
_DEFAULT_STATE = "Succeeded"
_STATE_BY_SYNONYM = {"complete": _DEFAULT_STATE, "completed": _DEFAULT_STATE, "running": "Active", "started": "Active"}

_SOURCE = Source("spec.executionPolicy")
_CRD_SPEC = Source("CRD rule on spec", Layer.SCHEMA)
_CRD_STATE = Source("CRD rule on spec.executionPolicy.replicatedJobsStatus", Layer.SCHEMA)
STARTUP = _CRD_SPEC.error("stages-in-order", STAGES_OR_STARTUP, "remove startupPolicy")
DEPENDS_ON = _CRD_SPEC.error(
    "stages-depends-on",
    STAGES_OR_DEPENDS_ON,
    "remove executionPolicy, or dependsOn of {names}",
)
FAILED = _CRD_STATE.error(
    "stages-wait-for-failed",
    NOT_FAILED,
    "what happens after a failure is said by failurePolicy",
)
SUSPENDED = _CRD_STATE.error(
    "stages-wait-for-suspended",
    NOT_SUSPENDED,
    "to hold the whole set back write spec.suspend: true",
)
UNKNOWN_STATE = _CRD_STATE.error(
    "stages-wait-for-unknown",
    "must be Succeeded, Ready or Active",
    "{guess}",
)
IN_PLACE_RESTART = _SOURCE.error(
    "stages-in-place-restart",
    "executionPolicy InOrder and restartStrategy InPlaceRestart exclude each other: in-place restart lets the"
    " pods of the whole set go on together, and those of later stages are not there",
    "use restartStrategy Recreate or BlockingRecreate, or remove executionPolicy",
)
NO_EFFECT = _SOURCE.warning("stages-no-effect", "no effect: {why}", "{fix}")
NEVER_RELEASED = _SOURCE.warning(
    "stages-never-released",
    "no pod may run: later stages never start",
    "raise it, or wait for Ready",
)
NEVER_STARTS = _SOURCE.warning(
    "stages-never-start",
    '"{name}" never starts: by then the set is Completed',
    "see successPolicy",
)


def check_single_order(subject: Subject) -> Iterator[FieldError]:
    """Check rules of the CRD on spec, since the API server would report only these faults."""
    spec = subject.js.spec
    if not is_staged(spec):
        return
    if is_ordered(spec):
        yield STARTUP.at(SPEC.at("startupPolicy", "startupPolicyOrder"), "InOrder")
    waiting_names = [entry.rjob.name for entry in subject.entries if entry.rjob.depends_on is not None]
    if waiting_names:
        yield DEPENDS_ON.at(ORDER, "InOrder", names=", ".join(waiting_names))


def check_state(subject: Subject) -> Iterator[FieldError]:
    """Check rules of the CRD on the state that a stage has to reach."""
    policy = subject.js.spec.execution_policy
    if policy is None or policy.replicated_jobs_status in STAGE_STATES:
        return
    state = policy.replicated_jobs_status
    if state == "Failed":
        yield FAILED.at(STATE, state)
    elif state == "Suspended":
        yield SUSPENDED.at(STATE, state)
    else:
        guess = did_you_mean(_STATE_BY_SYNONYM.get(state.lower(), state), STAGE_STATES, intro="the states are")
        yield UNKNOWN_STATE.at(STATE, state, guess=guess)


def check_restart_strategy(subject: Subject) -> Iterator[FieldError]:
    """Check that a set with stages does not restart in place.

    Its pods would wait, at one barrier, for pods of later stages.
    """
    if is_staged(subject.js.spec) and subject.failure_policy.restart_strategy == IN_PLACE:
        yield IN_PLACE_RESTART.at(ORDER, "InOrder")


def check_effect(subject: Subject) -> Iterator[FieldError]:
    """Warnings about fields that have no effect."""
    policy = subject.js.spec.execution_policy
    if policy is None:
        return
    sequential, count = policy.sequential_replicated_jobs, len(subject.entries)
    if not is_staged(subject.js.spec):
        words = {"why": "executionPolicyOrder is AnyOrder", "fix": "write InOrder there, or remove it"}
        if policy.replicated_jobs_status != _DEFAULT_STATE:
            yield NO_EFFECT.at(STATE, policy.replicated_jobs_status, **words)
        if sequential is not None:
            yield NO_EFFECT.at(SEQUENTIAL, sequential, **words)
    elif count == 1:
        yield NO_EFFECT.at(ORDER, "InOrder", why="there is but one ReplicatedJob", fix="remove it")
    elif sequential is not None and sequential > count:
        yield NO_EFFECT.at(SEQUENTIAL, sequential, why=f"there are {count} ReplicatedJobs", fix="remove it")


def check_reachability(subject: Subject) -> Iterator[FieldError]:
    """Findings about stages that never start: an earlier stage never completes, or completes the whole set."""
    policy, ordered_stages = subject.js.spec.execution_policy, stages(subject.js.spec)
    if policy is None or policy.replicated_jobs_status != _DEFAULT_STATE or len(ordered_stages) > MAX_COMPARED:
        return
    earlier_names: set[str] = set()
    completes_set = completion_check(subject)
    for k, stage in enumerate(ordered_stages):
        entries = [subject.entries_by_name[rjob.name] for rjob in stage if rjob.replicas]
        if completes_set(earlier_names):
            yield from (NEVER_STARTS.at(entry.path, name=entry.rjob.name) for entry in entries)
        earlier_names |= {rjob.name for rjob in stage}
        has_later_jobs = any(rjob.replicas for later in ordered_stages[k + 1 :] for rjob in later)
        for entry in entries if has_later_jobs else ():
            if entry.job.never_completes:
                yield NEVER_RELEASED.at(entry.job_path.at("parallelism"), entry.job.parallelism)
