"""Rules of the failure policy: their names, targets, reasons and limits.

See docs/reference/validation.md#failure-policy.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from api.failure_actions import (
    ACTIONS,
    MAX_REPLICAS_TO_RESTART,
    RESTART_JOB,
    RESTART_JOBSET,
    Scope,
    action_of,
)
from api.policies import FailurePolicyRule
from kube.model.field import SPEC, ErrorType, FieldError, Path
from kube.model.suggest import did_you_mean
from kube.model.validation import byte_length
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.targets import unknown_targets
from webhooks.jobset.subject import Entry, Subject

FAILURE = SPEC.at("failurePolicy")
RULES = FAILURE.at("rules")
JOB_FAILURE_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
_ADVICE_BY_POD_REASON = {
    "oomkilled": "it is a reason of containers: write it into onPodReasons",
    "error": "it is a reason of containers: onExitCodes catches it by the exit code",
    "evicted": "it is a reason of pods: write it into onPodReasons",
}
"""Advice by the reason of a container or pod, in lower case, which is no reason of a Job."""
START_TIMEOUT, NODE_FAILURE = "StartTimeout", "NodeFailure"
"""Reasons that only this program sets, for sets with startTimeoutSeconds and with nodeFailure."""
_ADVICE_BY_UNSET_REASON = {
    START_TIMEOUT: "set failurePolicy.startTimeoutSeconds, without which no Job fails for this reason",
    NODE_FAILURE: "set failurePolicy.nodeFailure, without which no Job fails for this reason",
}
_GO_ACTIONS = tuple(name for name, action in ACTIONS.items() if action.gate and action.in_go_jobset)
"""The gated actions that the Go JobSet names in one sentence. Every other gated action has its own sentence."""
_REPLICAS_FIX = f"split it into several ReplicatedJobs, or use {RESTART_JOBSET.name}"
_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_MAX_NAME = 128

_DOCS = Source("docs/reference/validation.md#failure-policy")
_ACTION = Source("failurePolicy.rules[].action")
RESTART_JOB_GATE = _DOCS.error(
    "restart-job-gate",
    f"{' and '.join(_GO_ACTIONS)} failure policy actions are not allowed when"
    f" {RESTART_JOB.gate} feature gate is disabled",
    f"use {RESTART_JOBSET.name}, or run the manager with --feature-gates={RESTART_JOB.gate}=true",
    ErrorType.FORBIDDEN,
    gates=f"{RESTART_JOB.gate}=true",
)
RESTART_JOB_REPLICAS = _DOCS.error(
    "restart-job-replicas",
    f"JobSet cannot have a failure policy rule with {' or '.join(_GO_ACTIONS)} action and"
    f" a replicated job with replicas > {MAX_REPLICAS_TO_RESTART}",
    _REPLICAS_FIX,
)
RESTART_REPLICATED_JOB_GATE = _ACTION.error(
    "restart-replicated-job-gate",
    "{action} failure policy action is not allowed when {gate} feature gate is disabled",
    f"use {RESTART_JOBSET.name}, or run the manager with --feature-gates={{gate}}=true",
    ErrorType.FORBIDDEN,
    gates="{gate}=true",
)
RESTART_REPLICATED_JOB_REPLICAS = _ACTION.error(
    "restart-replicated-job-replicas",
    "JobSet cannot have a failure policy rule with {action} action and a replicated job with replicas > "
    f"{MAX_REPLICAS_TO_RESTART}",
    _REPLICAS_FIX,
)
NAME_LENGTH = _DOCS.error(
    "failure-rule-name-length",
    "invalid failure policy rule name of length {length}, the rule name must be at least 1 characters long and at"
    f" most {_MAX_NAME} characters long",
    "leave the name out to get failurePolicyRule<index>",
)
NAME_FORM = _DOCS.error(
    "failure-rule-name-form",
    "invalid failure policy rule name '{name}', a failure policy rule name must start with an alphabetic character,"
    " optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric"
    " character or '_'",
    "write it like hostMaintenance",
)
TARGET = _DOCS.error(
    "failure-rule-target",
    "invalid replicatedJob name '{name}' in failure policy does not appear in .spec.ReplicatedJobs",
    "{names_that_exist}",
)
REASON = _DOCS.error(
    "failure-rule-reason",
    "invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason",
    "{names_that_exist}",
)
NAMES_UNIQUE = _DOCS.error(
    "failure-rule-names-unique",
    "rule names are not unique, rules with indices [{indices}] all have the same name '{name}'",
    "give each a name of its own",
    ErrorType.DUPLICATE,
)
NOTHING_TO_LIMIT = Source("failurePolicy.rules[].maxRestarts").error(
    "failure-rule-nothing-to-limit",
    "action {action} restarts nothing, so there are no restarts to limit",
    "remove maxRestarts, or choose an action that restarts something",
    ErrorType.FORBIDDEN,
)


def check_failure_rules(subject: Subject) -> Iterator[FieldError]:
    """Findings about the rules of the failure policy, and about the feature gates that some actions need."""
    policy, rules = subject.failure_policy, subject.failure_policy.rules
    field_by_own_reason = {START_TIMEOUT: policy.start_timeout_seconds, NODE_FAILURE: policy.node_failure}
    reasons = (*JOB_FAILURE_REASONS, *(reason for reason, field in field_by_own_reason.items() if field is not None))
    yield from _check_gates(subject)
    yield from check_replicas(subject, subject.entries)
    for path, rule in RULES.each(rules):
        yield from _check_name(path.at("name"), rule.name)
        yield from unknown_targets(subject, TARGET, rule.target_replicated_jobs, path.at("targetReplicatedJobs"))
        yield from _check_reasons(path.at("onJobFailureReasons"), rule.on_job_failure_reasons, reasons)
        if action_of(rule.action).scope is Scope.NOTHING and rule.max_restarts is not None:
            yield NOTHING_TO_LIMIT.at(path.at("maxRestarts"), rule.max_restarts, action=rule.action)
    yield from _repeated_names(rules)


def _check_gates(subject: Subject) -> Iterator[FieldError]:
    for path, action, *_ in subject.named_actions:
        if not action.is_enabled(subject.gates):
            rule = RESTART_JOB_GATE if action.name in _GO_ACTIONS else RESTART_REPLICATED_JOB_GATE
            yield rule.at(path, action=action.name, gate=action.gate)


def check_replicas(subject: Subject, entries: Iterable[Entry]) -> Iterator[FieldError]:
    """Check that the ReplicatedJobs have few enough Jobs for the status to count the restarts of each Job."""
    names = subject.part_restarts
    if not names:
        return
    rule = RESTART_REPLICATED_JOB_REPLICAS if set(names).isdisjoint(_GO_ACTIONS) else RESTART_JOB_REPLICAS
    for entry in entries:
        if entry.rjob.replicas > MAX_REPLICAS_TO_RESTART:
            yield rule.at(entry.path.at("replicas"), entry.rjob.replicas, action=" or ".join(names))


def _check_name(path: Path, name: str) -> Iterator[FieldError]:
    length = byte_length(name)
    if not 1 <= length <= _MAX_NAME:
        yield NAME_LENGTH.at(path, name, length=length)
    if not _NAME.fullmatch(name):
        yield NAME_FORM.at(path, name, name=name)


def _check_reasons(path: Path, reasons: Sequence[str], valid_reasons: Sequence[str]) -> Iterator[FieldError]:
    for reason_path, reason in path.each(reasons):
        if reason not in valid_reasons:
            advice = (
                _ADVICE_BY_POD_REASON.get(reason.lower())
                or _ADVICE_BY_UNSET_REASON.get(reason)
                or partial(did_you_mean, reason, valid_reasons, intro="the reasons are")
            )
            yield REASON.at(reason_path, reason, reason=reason, names_that_exist=advice)


def _repeated_names(rules: Iterable[FailurePolicyRule]) -> Iterator[FieldError]:
    indices_by_name: dict[str, list[int]] = {}
    for i, rule in enumerate(rules):
        indices_by_name.setdefault(rule.name, []).append(i)
    for name, indices in indices_by_name.items():
        if len(indices) > 1:
            yield NAMES_UNIQUE.at(RULES.at(indices[1], "name"), name, indices=" ".join(map(str, indices)), name=name)
