"""Success and failure policy (3.2 rows 6 and 7)."""

import re
from collections.abc import Iterable, Iterator

from api.field import SPEC, FieldError, Path, duplicate, forbidden, invalid
from api.jobset import FailurePolicyRule
from api.validation import byte_length
from webhooks.jobset.subject import Subject

RULES = SPEC.at("failurePolicy", "rules")
JOB_FAILURE_REASONS = frozenset(
    {"BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy"}
)
RESTART_JOB_ACTIONS = frozenset({"RestartJob", "RestartJobAndIgnoreMaxRestarts"})
MAX_REPLICAS_TO_RESTART = 1024
"""Restarts are counted per Job in a status list of this length."""
_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_MAX_NAME = 128


def success_targets(subject: Subject) -> Iterator[FieldError]:
    """Row 6: targets exist."""
    policy = subject.js.spec.success_policy
    path = SPEC.at("successPolicy", "targetReplicatedJobs")
    detail = "invalid replicatedJob name '{}' does not appear in .spec.ReplicatedJobs"
    yield from _unknown(subject, policy.target_replicated_jobs if policy else (), path, detail)


def failure_rules(subject: Subject) -> Iterator[FieldError]:
    """Row 7: all of it, but for 7a, which hides the rest."""
    rules = subject.failure_policy.rules
    restarting = [i for i, rule in enumerate(rules) if rule.action in RESTART_JOB_ACTIONS]
    if restarting and not subject.gates["RestartJob"]:
        for i in restarting:
            yield forbidden(
                RULES.at(i, "action"),
                "RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed when RestartJob"
                " feature gate is disabled",
            )
        return
    if restarting:
        yield from _too_many_replicas(subject)
    for i, rule in enumerate(rules):
        yield from _rule_name(RULES.at(i, "name"), rule.name)
        detail = "invalid replicatedJob name '{}' in failure policy does not appear in .spec.ReplicatedJobs"
        yield from _unknown(subject, rule.target_replicated_jobs, RULES.at(i, "targetReplicatedJobs"), detail)
        yield from _reasons(RULES.at(i, "onJobFailureReasons"), rule.on_job_failure_reasons)
    yield from _repeated_names(rules)


def _too_many_replicas(subject: Subject) -> Iterator[FieldError]:
    for entry in subject.entries:
        if entry.rjob.replicas > MAX_REPLICAS_TO_RESTART:
            detail = (
                "JobSet cannot have a failure policy rule with RestartJob or RestartJobAndIgnoreMaxRestarts action and"
                f" a replicated job with replicas > {MAX_REPLICAS_TO_RESTART}"
            )
            yield invalid(entry.path.at("replicas"), entry.rjob.replicas, detail)


def _rule_name(path: Path, name: str) -> Iterator[FieldError]:
    length = byte_length(name)
    if not 1 <= length <= _MAX_NAME:
        yield invalid(
            path,
            name,
            f"invalid failure policy rule name of length {length}, the rule name must be at least 1 characters long and"
            f" at most {_MAX_NAME} characters long",
        )
    if not _NAME.fullmatch(name):
        yield invalid(
            path,
            name,
            f"invalid failure policy rule name '{name}', a failure policy rule name must start with an alphabetic"
            " character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an"
            " alphanumeric character or '_'",
        )


def _reasons(path: Path, reasons: Iterable[str]) -> Iterator[FieldError]:
    for k, reason in enumerate(reasons):
        if reason not in JOB_FAILURE_REASONS:
            detail = f"invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason"
            yield invalid(path.at(k), reason, detail)


def _repeated_names(rules: Iterable[FailurePolicyRule]) -> Iterator[FieldError]:
    indices: dict[str, list[int]] = {}
    for i, rule in enumerate(rules):
        indices.setdefault(rule.name, []).append(i)
    for name, same in indices.items():
        if len(same) > 1:
            shown = " ".join(map(str, same))
            detail = f"rule names are not unique, rules with indices [{shown}] all have the same name '{name}'"
            yield duplicate(RULES.at(same[1], "name"), name, detail)


def _unknown(subject: Subject, targets: Iterable[str], path: Path, detail: str) -> Iterator[FieldError]:
    for k, target in enumerate(targets):
        if subject.entry(target) is None:
            yield invalid(path.at(k), target, detail.format(target))
