"""The success policy: its targets have to exist, and it has to be satisfiable.

See docs/reference/validation.md#success-policy.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from api import share
from api.jobset import ReplicatedJob
from api.policies import ANY_WITH_SHARE, SuccessPolicy
from kube.model.field import SPEC, ErrorType, FieldError, Layer
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.targets import unknown_targets
from webhooks.jobset.subject import Subject

POLICY = SPEC.at("successPolicy")
TARGETS = POLICY.at("targetReplicatedJobs")
MIN_SUCCEEDED = POLICY.at("minSucceeded")
_NUMBER = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(%?)\s*", re.ASCII)

_SHARE = Source("successPolicy.minSucceeded")
_UNIT = Source("successPolicy.unit")
TARGET = Source("docs/reference/validation.md#success-policy").error(
    "success-policy-target",
    "invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs",
    "{names_that_exist}",
)
NEVER_COMPLETES = Source("docs/reference/lifecycle.md#success").warning(
    "success-policy-never-met",
    "the set never completes: {why}",
    "{fix}",
)
NO_JOBS = Source("docs/reference/validation.md#success-policy, defect 8").warning(
    "no-jobs",
    "no Job is asked for: the set completes at once",
    "raise replicas",
)
FORM = _SHARE.error(
    "min-succeeded-form",
    'must be a whole number from 1, or a share from "1%" to "100%"',
    "write {how}",
)
WITH_ANY = Source("CRD rule on spec.successPolicy", Layer.SCHEMA).error(
    "min-succeeded-any",
    ANY_WITH_SHARE,
    "write All, or leave operator out",
)
TOO_MANY = _SHARE.error(
    "min-succeeded-too-many",
    "never met: {units} that the success policy counts: {total}",
    'write at most {total}, or a share such as "80%", which follows the number of {units}',
)
UNKNOWN_PODS = _UNIT.error(
    "min-succeeded-unknown-pods",
    "unit Pod counts pods that have succeeded, and nobody knows how many one Job of {name} has",
    "set completions, name only others in targetReplicatedJobs, or write unit: Job",
    ErrorType.REQUIRED,
)
UNIT_ALONE = _UNIT.warning(
    "success-unit-alone",
    "no effect without minSucceeded",
    "say how many have to succeed, or remove unit",
)


def check_targets(subject: Subject) -> Iterator[FieldError]:
    """Check that the targets exist."""
    policy = subject.js.spec.success_policy
    yield from unknown_targets(subject, TARGET, policy.target_replicated_jobs if policy else (), TARGETS)


def check_operator(subject: Subject) -> Iterator[FieldError]:
    """Check a rule of the CRD, since the API server would report only this fault."""
    policy = subject.js.spec.success_policy
    if policy is not None and policy.min_succeeded is not None and policy.operator == "Any":
        yield WITH_ANY.at(POLICY.at("operator"), policy.operator)


def check_min_succeeded(subject: Subject) -> Iterator[FieldError]:
    """Check that minSucceeded is a number or a percentage of Jobs or pods that can be counted and are enough."""
    policy = subject.js.spec.success_policy
    if policy is None or policy.min_succeeded is None:
        if policy is not None and policy.unit:
            yield UNIT_ALONE.at(POLICY.at("unit"), policy.unit)
        return
    correction = _correction(policy.min_succeeded)
    if correction:
        yield FORM.at(MIN_SUCCEEDED, policy.min_succeeded, how=correction)
    if any(name not in subject.entries_by_name for name in policy.target_replicated_jobs):
        return
    total = total_contribution(subject, policy.target_replicated_jobs)
    if total is None:
        for entry in subject.targets(policy.target_replicated_jobs):
            if share.completions(entry.rjob) is None:
                yield UNKNOWN_PODS.at(entry.job_path.at("completions"), name=entry.rjob.name)
    elif total and not correction and (share.required_successes(policy, total) or 0) > total:
        yield TOO_MANY.at(MIN_SUCCEEDED, policy.min_succeeded, total=total, units=units(policy))


def units(policy: SuccessPolicy) -> str:
    """What minSucceeded counts, in words."""
    return "pods" if policy.unit == share.POD else "Jobs"


def _correction(value: int | str) -> str:
    """How to write the value that the author probably meant; empty if the value is valid."""
    if isinstance(value, int):
        return "" if value >= 1 else "1 or more"
    if share.required_successes(SuccessPolicy(min_succeeded=value), 1) is not None:
        return ""
    match = _NUMBER.fullmatch(value)
    if match is None:
        return 'a number such as 12, or a share such as "80%"'
    amount, percent = float(match[1]), match[2]
    if percent or 0 < amount < 1:
        return f'"{_clamp(1, round(amount if percent else 100 * amount), 100)}%"'
    number = max(int(amount), 1)
    return f'{number} without quotes for a number, "{_clamp(1, number, 100)}%" for a share'


def _clamp(low: int, number: int, high: int) -> int:
    return min(max(low, number), high)


def check_reachability(subject: Subject) -> Iterator[FieldError]:
    """Findings about a set that completes at once, or never: its targets have no Jobs, or Jobs without pods."""
    policy = subject.js.spec.success_policy
    names = policy.target_replicated_jobs if policy else ()
    if any(name not in subject.entries_by_name for name in names):
        return
    if not any(entry.rjob.replicas for entry in subject.entries):
        yield NO_JOBS.at(SPEC.at("replicatedJobs"))
        return
    counted_entries = [entry for entry in subject.targets(names) if entry.rjob.replicas]
    if not counted_entries:
        yield NEVER_COMPLETES.at(TARGETS, why="no target has replicas", fix="raise them")
        return
    endless_entries = [entry for entry in counted_entries if entry.job.never_completes]
    completing_names = {entry.rjob.name for entry in counted_entries if not entry.job.never_completes}
    if endless_entries and not completion_check(subject)(completing_names):
        for entry in endless_entries:
            yield NEVER_COMPLETES.at(entry.job_path.at("parallelism"), why="no pod may run", fix="raise it")


def completion_check(subject: Subject) -> Callable[[Collection[str]], bool]:
    """A function that tells whether the set is Completed once all Jobs of these ReplicatedJobs have succeeded."""
    policy = subject.js.spec.success_policy or SuccessPolicy()
    counted_entries = {
        entry.rjob.name: entry for entry in subject.targets(policy.target_replicated_jobs) if entry.rjob.replicas
    }
    if policy.min_succeeded is None:
        required_replicated_jobs = 1 if policy.operator == "Any" else len(counted_entries)
        return lambda succeeded: len(counted_entries.keys() & succeeded) >= max(required_replicated_jobs, 1)
    total = total_contribution(subject, counted_entries)
    required_count = None if total is None else share.required_successes(policy, total)
    if required_count is None:
        return lambda _: False
    contributions = {name: _contribution(entry.rjob, policy) for name, entry in counted_entries.items()}
    return lambda succeeded: (
        sum(contributions[name] for name in contributions.keys() & succeeded) >= max(required_count, 1)
    )


def _contribution(rjob: ReplicatedJob, policy: SuccessPolicy) -> int:
    """How many Jobs or pods, as `unit` says, a ReplicatedJob contributes once all its Jobs have succeeded."""
    return rjob.replicas * ((share.completions(rjob) or 0) if policy.unit == share.POD else 1)


def total_contribution(subject: Subject, names: Iterable[str]) -> int | None:
    """How many Jobs or pods the named ReplicatedJobs (no names: all) can contribute; None if this is unknown."""
    spec = subject.js.spec
    policy = msgspec.structs.replace(
        spec.success_policy or SuccessPolicy(), target_replicated_jobs=tuple(dict.fromkeys(names))
    )
    return share.possible_successes(msgspec.structs.replace(spec, success_policy=policy))
