"""Success and failure policy (3.2 rows 6 and 7), and what of them can never come true."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from api.field import SPEC, ErrorType, FieldError, Path, Rule, Severity
from api.patterns import compiled
from api.policies import FailurePolicyRule
from api.suggest import did_you_mean
from api.validation import byte_length
from webhooks.jobset.subject import Entry, Subject

SUCCESS = SPEC.at("successPolicy", "targetReplicatedJobs")
FAILURE = SPEC.at("failurePolicy")
RULES = FAILURE.at("rules")
JOB_FAILURE_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
RESTART_JOB_ACTIONS = frozenset({"RestartJob", "RestartJobAndIgnoreMaxRestarts"})
MAX_REPLICAS_TO_RESTART = 1024
"""Restarts are counted per Job in a status list of this length."""
MAX_COMPARED = 100
"""Rules that are compared with each other."""
MAX_PATTERNS = 64
"""Patterns of a JobSet that are tried."""
_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_MAX_NAME = 128

SUCCESS_TARGET = Rule(
    id="success-policy-target",
    type=ErrorType.INVALID,
    message="invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs",
    fix="{names_that_exist}",
    source="behaviour 3.2 row 6",
)
SUCCESS_NEVER = Rule(
    id="success-policy-never-met",
    type=ErrorType.INVALID,
    message="the set never completes: {why}",
    fix="{way_out}",
    source="behaviour 5.9",
    severity=Severity.WARNING,
)
NO_JOBS = Rule(
    id="no-jobs",
    type=ErrorType.INVALID,
    message="no Job is asked for: the set completes at once",
    fix="raise replicas",
    source="behaviour 7.1 item 8",
    severity=Severity.WARNING,
)
RESTART_JOB_GATE = Rule(
    id="restart-job-gate",
    type=ErrorType.FORBIDDEN,
    message=(
        "RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed when RestartJob feature"
        " gate is disabled"
    ),
    fix="use RestartJobSet, or run the manager with --feature-gates=RestartJob=true",
    source="behaviour 3.2 row 7a",
)
RESTART_JOB_REPLICAS = Rule(
    id="restart-job-replicas",
    type=ErrorType.INVALID,
    message=(
        "JobSet cannot have a failure policy rule with RestartJob or RestartJobAndIgnoreMaxRestarts action and a"
        f" replicated job with replicas > {MAX_REPLICAS_TO_RESTART}"
    ),
    fix="split it into several ReplicatedJobs, or use RestartJobSet",
    source="behaviour 3.2 row 7b",
)
NAME_LENGTH = Rule(
    id="failure-rule-name-length",
    type=ErrorType.INVALID,
    message=(
        "invalid failure policy rule name of length {length}, the rule name must be at least 1 characters long and at"
        f" most {_MAX_NAME} characters long"
    ),
    fix="leave the name out to get failurePolicyRule<index>",
    source="behaviour 3.2 row 7c",
)
NAME_FORM = Rule(
    id="failure-rule-name-form",
    type=ErrorType.INVALID,
    message=(
        "invalid failure policy rule name '{name}', a failure policy rule name must start with an alphabetic character,"
        " optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric"
        " character or '_'"
    ),
    fix="write it like hostMaintenance",
    source="behaviour 3.2 row 7d",
)
TARGET = Rule(
    id="failure-rule-target",
    type=ErrorType.INVALID,
    message="invalid replicatedJob name '{name}' in failure policy does not appear in .spec.ReplicatedJobs",
    fix="{names_that_exist}",
    source="behaviour 3.2 row 7e",
)
REASON = Rule(
    id="failure-rule-reason",
    type=ErrorType.INVALID,
    message="invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason",
    fix="{names_that_exist}",
    source="behaviour 3.2 row 7f",
)
NAMES_UNIQUE = Rule(
    id="failure-rule-names-unique",
    type=ErrorType.DUPLICATE,
    message="rule names are not unique, rules with indices [{indices}] all have the same name '{name}'",
    fix="give each a name of its own",
    source="behaviour 3.2 row 7g",
)
MAX_RESTARTS = Rule(
    id="max-restarts-negative",
    type=ErrorType.INVALID,
    message="below 0 means 0: no restart",
    fix="write 0 or more",
    source="behaviour 5.8",
    severity=Severity.WARNING,
)
PATTERN = Rule(
    id="failure-rule-pattern",
    type=ErrorType.INVALID,
    message="never matches, not RE2: {why}",
    fix="mend it",
    source="behaviour 7.1 item 15",
    severity=Severity.WARNING,
)
SHADOWED = Rule(
    id="failure-rule-shadowed",
    type=ErrorType.INVALID,
    message="never reached: rule {by} matches all it would",
    fix="move it up, or remove it",
    source="behaviour 5.8 B",
    severity=Severity.WARNING,
)
REASON_NEVER = Rule(
    id="failure-rule-reason-never",
    type=ErrorType.INVALID,
    message="never given: no target sets {field}",
    fix="set it",
    source="batch/v1 Job",
    severity=Severity.WARNING,
)


def success_targets(subject: Subject) -> Iterator[FieldError]:
    """Row 6: targets exist."""
    policy = subject.js.spec.success_policy
    yield from _unknown(subject, SUCCESS_TARGET, policy.target_replicated_jobs if policy else (), SUCCESS)


def success_can_come(subject: Subject) -> Iterator[FieldError]:
    """A set whose targets have no Jobs, or Jobs that run no pods, waits for ever."""
    policy = subject.js.spec.success_policy
    names = policy.target_replicated_jobs if policy else ()
    if any(name not in subject.by_name for name in names):
        return
    if not any(entry.rjob.replicas for entry in subject.entries):
        yield NO_JOBS.at(SPEC.at("replicatedJobs"))
        return
    counted = [entry for entry in subject.targets(names) if entry.rjob.replicas]
    if not counted:
        yield SUCCESS_NEVER.at(SUCCESS, why="no target has replicas", way_out="raise them")
        return
    idle = [entry for entry in counted if entry.job.never_completes]
    needs_all = policy is None or policy.operator == "All"
    if idle and (needs_all or len(idle) == len(counted)):
        for entry in idle:
            yield SUCCESS_NEVER.at(entry.job_path.at("parallelism"), why="no pod may run", way_out="raise it")


def failure_rules(subject: Subject) -> Iterator[FieldError]:
    """Row 7. The Go JobSet leaves the rest out where 7a fails; all of it is said here."""
    rules = subject.failure_policy.rules
    restarting = [i for i, rule in enumerate(rules) if rule.action in RESTART_JOB_ACTIONS]
    if restarting and not subject.gates["RestartJob"]:
        yield from (RESTART_JOB_GATE.at(RULES.at(i, "action")) for i in restarting)
    yield from restart_job_replicas(subject, subject.entries)
    for i, rule in enumerate(rules):
        yield from _rule_name(RULES.at(i, "name"), rule.name)
        yield from _unknown(subject, TARGET, rule.target_replicated_jobs, RULES.at(i, "targetReplicatedJobs"))
        yield from _reasons(RULES.at(i, "onJobFailureReasons"), rule.on_job_failure_reasons)
    yield from _repeated_names(rules)


def restart_job_replicas(subject: Subject, entries: Iterable[Entry]) -> Iterator[FieldError]:
    """Row 7b, for some of the ReplicatedJobs: restarts of single Jobs are counted for so many only."""
    restarting = any(rule.action in RESTART_JOB_ACTIONS for rule in subject.failure_policy.rules)
    for entry in entries if restarting and subject.gates["RestartJob"] else ():
        if entry.rjob.replicas > MAX_REPLICAS_TO_RESTART:
            yield RESTART_JOB_REPLICAS.at(entry.path.at("replicas"), entry.rjob.replicas)


def _rule_name(path: Path, name: str) -> Iterator[FieldError]:
    length = byte_length(name)
    if not 1 <= length <= _MAX_NAME:
        yield NAME_LENGTH.at(path, name, length=length)
    if not _NAME.fullmatch(name):
        yield NAME_FORM.at(path, name, name=name)


def _reasons(path: Path, reasons: Iterable[str]) -> Iterator[FieldError]:
    for k, reason in enumerate(reasons):
        if reason not in JOB_FAILURE_REASONS:
            known = did_you_mean(reason, JOB_FAILURE_REASONS, what="the reasons are")
            yield REASON.at(path.at(k), reason, reason=reason, names_that_exist=known)


def _repeated_names(rules: Iterable[FailurePolicyRule]) -> Iterator[FieldError]:
    indices: dict[str, list[int]] = {}
    for i, rule in enumerate(rules):
        indices.setdefault(rule.name, []).append(i)
    for name, same in indices.items():
        if len(same) > 1:
            yield NAMES_UNIQUE.at(RULES.at(same[1], "name"), name, indices=" ".join(map(str, same)), name=name)


def _unknown(subject: Subject, rule: Rule, targets: Iterable[str], path: Path) -> Iterator[FieldError]:
    for k, target in enumerate(targets):
        if target not in subject.by_name:
            known = did_you_mean(target, subject.names, what="the ReplicatedJobs are")
            yield rule.at(path.at(k), target, name=target, names_that_exist=known)


def rules_can_match(subject: Subject) -> Iterator[FieldError]:
    """Rules that no failed Job will ever reach."""
    policy = subject.failure_policy
    if policy.max_restarts < 0:
        yield MAX_RESTARTS.at(FAILURE.at("maxRestarts"), policy.max_restarts)
    yield from _patterns(policy.rules)
    for i, rule in enumerate(policy.rules):
        yield from _reasons_can_come(RULES.at(i, "onJobFailureReasons"), rule, subject)
    yield from _shadowed(subject, policy.rules[:MAX_COMPARED])


def _patterns(rules: Iterable[FailurePolicyRule]) -> Iterator[FieldError]:
    """Compiling takes its time, so only so many are looked at."""
    places = (
        (RULES.at(i, "onJobFailureMessagePatterns", k), pattern)
        for i, rule in enumerate(rules)
        for k, pattern in enumerate(rule.on_job_failure_message_patterns)
    )
    for path, pattern in islice(places, MAX_PATTERNS):
        outcome = compiled(pattern)
        if isinstance(outcome, str):
            yield PATTERN.at(path, pattern, why=outcome)


def _reasons_can_come(path: Path, rule: FailurePolicyRule, subject: Subject) -> Iterator[FieldError]:
    """A Job fails for some reasons only where it asks for it."""
    for k, reason in enumerate(rule.on_job_failure_reasons[:MAX_COMPARED]):
        field, _ = _ASKED_BY.get(reason, ("", None))
        if field and not any(_asks(entry, reason) for entry in subject.targets(rule.target_replicated_jobs)):
            yield REASON_NEVER.at(path.at(k), reason, field=field)


_ASKED_BY = {
    "PodFailurePolicy": ("podFailurePolicy", "pod_failure_policy"),
    "FailedIndexes": ("backoffLimitPerIndex", "backoff_limit_per_index"),
    "MaxFailedIndexesExceeded": ("maxFailedIndexes", "max_failed_indexes"),
    "DeadlineExceeded": ("activeDeadlineSeconds", "active_deadline_seconds"),
}
"""For each reason the field of the Job that can lead to it, on the wire and in the record."""


def _asks(entry: Entry, reason: str) -> bool:
    return getattr(entry.job, _ASKED_BY[reason][1]) is not None


def _shadowed(subject: Subject, rules: tuple[FailurePolicyRule, ...]) -> Iterator[FieldError]:
    everyone = frozenset(subject.names)
    targets = [frozenset(rule.target_replicated_jobs) or everyone for rule in rules]
    for j, later in enumerate(rules):
        for i, earlier in enumerate(rules[:j]):
            wider = targets[i] >= targets[j]
            if wider and _takes_all(earlier.on_job_failure_reasons, later.on_job_failure_reasons):
                patterns = earlier.on_job_failure_message_patterns, later.on_job_failure_message_patterns
                if _takes_all(*patterns):
                    yield SHADOWED.at(RULES.at(j), by=i)
                    break


def _takes_all(wide: tuple[str, ...], narrow: tuple[str, ...]) -> bool:
    """Whether any of `wide` fits wherever any of `narrow` does; none given fits everywhere."""
    return not wide or (bool(narrow) and set(wide) >= set(narrow))
