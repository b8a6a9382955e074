"""The rules about a Job: its numbers, its policies, its pod template. Pure."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from kube.model.field import SPEC, FieldError, Path
from kube.model.job_rules.checks import (
    duplicates,
    each,
    entries,
    fields,
    invalid,
    is_integer,
    member,
    missing,
    not_negative,
    not_supported,
    one_of,
    pod_containers,
    required_word,
    too_many,
)
from kube.model.job_rules.forms import label
from kube.model.job_rules.metadata import key, metadata, selector
from kube.model.job_rules.pod import TEMPLATE
from kube.model.jsontree import dig, items
from kube.model.meta import JSON
from kube.model.node_affinity import Requirement

_MANY_INDEXES = 100_000
"""Completions of an Indexed Job above which limits are stricter, and its highest parallelism."""
_FEW_INDEXES = 10_000
"""The stricter limit."""
_MAX_RULES = 20
_MAX_EXIT_CODES = 255
_INDEXED_ONLY = "requires indexed completion mode"


def job_errors(job: JSON) -> Iterator[FieldError]:
    """Errors of the API server about a new Job, with paths in the Job.

    The values have the types of the CRD's schema, or are null.
    """
    yield from _JOB(Path(), job)
    if isinstance(spec := job.get("spec"), dict):
        yield from _selector(SPEC, spec, _own_labels(job))
        yield from _pod_names(job, spec)


def _pod_names(job: JSON, spec: Any) -> Iterator[FieldError]:
    """Check the name of the last pod: pods of an Indexed Job have the name of the Job and their index."""
    count, name = _completions(spec) or 0, dig(job, "metadata", "name")
    pod_name = f"{name}-{count - 1}"
    if _is_indexed(spec) and count > 0 and label(pod_name):
        detail = f"will not able to create pod with invalid DNS label: {pod_name}"
        yield invalid(Path(("metadata", "name")), name, detail)


def _own_labels(job: JSON) -> dict[str, str]:
    """The labels by which the Job controller finds the pods of a Job."""
    uid, name = "<the uid of the Job>", str(dig(job, "metadata", "name") or "")
    return {
        f"{prefix}{label_name}": value
        for prefix in ("", "batch.kubernetes.io/")
        for label_name, value in (("controller-uid", uid), ("job-name", name))
    }


def _is_indexed(spec: Any) -> bool:
    return bool(spec.get("completionMode") == "Indexed")


def _number(spec: Any, name: str) -> int | None:
    value = spec.get(name)
    return value if is_integer(value) else None


def _completions(spec: Any) -> int | None:
    """How many pods have to succeed: one, if the spec sets no number of pods."""
    are_both_absent = spec.get("completions") is None and spec.get("parallelism") is None
    return 1 if are_both_absent else _number(spec, "completions")


def _mode(path: Path, spec: Any) -> Iterator[FieldError]:
    """Check fields that require another field, and fields that only an Indexed Job may have."""
    if _number(spec, "maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield missing(path.at("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
    if _is_indexed(spec):
        yield from _limits(path, spec)
        return
    mode = spec.get("completionMode")
    names = ("backoffLimitPerIndex", "maxFailedIndexes") if mode in {None, "NonIndexed"} else ()
    for name in names:
        if (value := _number(spec, name)) is not None:
            yield invalid(path.at(name), value, _INDEXED_ONLY)
    if (policy := spec.get("successPolicy")) is not None:
        yield invalid(path.at("successPolicy"), policy, _INDEXED_ONLY)


def _limits(path: Path, spec: Any) -> Iterator[FieldError]:
    """Check the numbers of an Indexed Job, also against each other."""
    completions, parallelism = _completions(spec), _number(spec, "parallelism")
    failures, per_index = _number(spec, "maxFailedIndexes"), spec.get("backoffLimitPerIndex")
    if completions is None:
        yield missing(path.at("completions"), "when completion mode is Indexed")
    if parallelism is not None and parallelism > _MANY_INDEXES:
        detail = f"must be less than or equal to {_MANY_INDEXES} when completion mode is Indexed"
        yield invalid(path.at("parallelism"), parallelism, detail)
    if completions is not None and failures is not None and failures > completions:
        yield invalid(path.at("maxFailedIndexes"), failures, "must be less than or equal to completions")
    if failures is not None and failures > _MANY_INDEXES:
        yield invalid(path.at("maxFailedIndexes"), failures, f"must be less than or equal to {_MANY_INDEXES}")
    if completions is None or completions <= _MANY_INDEXES or per_index is None:
        return
    if failures is None:
        detail = f"must be specified when completions is above {_MANY_INDEXES}"
        yield missing(path.at("maxFailedIndexes"), detail)
    for name, value in (("parallelism", parallelism), ("maxFailedIndexes", failures)):
        if value is not None and value > _FEW_INDEXES:
            detail = f"when completions are above {_MANY_INDEXES} and used with backoff limit per index"
            yield invalid(path.at(name), value, f"must be less than or equal to {_FEW_INDEXES} {detail}")


def _failure_policy(path: Path, spec: Any) -> Iterator[FieldError]:
    policy = spec.get("podFailurePolicy")
    if not isinstance(policy, dict):
        return
    rules, rules_path = policy.get("rules") or [], path.at("podFailurePolicy", "rules")
    container_names = {container.get("name") for _, container in pod_containers(Path(), _pod_spec(spec))}
    if len(rules) > _MAX_RULES:
        yield too_many(rules_path, len(rules), _MAX_RULES)
    for i, rule in entries(rules):
        if rule.get("action") == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            yield invalid(rules_path.at(i, "action"), "FailIndex", "requires the backoffLimitPerIndex to be set")
        name = dig(rule, "onExitCodes", "containerName")
        if name is not None and name not in container_names:
            detail = "must be one of the container or initContainer names in the pod template"
            yield invalid(rules_path.at(i, "onExitCodes", "containerName"), name, detail)


def _pod_spec(spec: Any) -> JSON:
    pod = dig(spec, "template", "spec")
    return pod if isinstance(pod, dict) else {}


def _one_requirement(path: Path, rule: Any) -> Iterator[FieldError]:
    are_set = [bool(rule.get("onPodConditions")), rule.get("onExitCodes") is not None]
    if all(are_set):
        yield invalid(path, rule, "specifying both OnExitCodes and OnPodConditions is not supported")
    elif not any(are_set):
        yield invalid(path, rule, "specifying one of OnExitCodes and OnPodConditions is required")


def _exit_codes(path: Path, value: Any) -> Iterator[FieldError]:
    values = value.get("values") or []
    values_path = path.at("values")
    if not values:
        yield invalid(values_path, values, "at least one value is required")
    elif len(values) > _MAX_EXIT_CODES:
        yield too_many(values_path, len(values), _MAX_EXIT_CODES)
    for i, code in enumerate(values):
        if code == 0 and value.get("operator") == "In":
            yield invalid(values_path.at(i), code, "must not be 0 for the In operator")
    yield from duplicates((values_path.at(i), code) for i, code in enumerate(values))
    if any(code > next_code for code, next_code in pairwise(values)):
        yield invalid(values_path, values, "must be ordered")


def _conditions_count(path: Path, value: Any) -> Iterator[FieldError]:
    if isinstance(value, list) and len(value) > _MAX_RULES:
        yield too_many(path, len(value), _MAX_RULES)


_CONDITION = fields(member("type", "", key), status=one_of("False", "True", "Unknown"))
_FAILURE_RULE = fields(
    _one_requirement,
    member("action", "", required_word("Count", "FailIndex", "FailJob", "Ignore")),
    onExitCodes=fields(member("operator", "", required_word("In", "NotIn")), _exit_codes),
    onPodConditions=lambda path, value: (*_conditions_count(path, value), *each(_CONDITION)(path, value)),
)


def _success_policy(path: Path, spec: Any) -> Iterator[FieldError]:
    policy, completions = spec.get("successPolicy"), _completions(spec)
    if not isinstance(policy, dict) or not _is_indexed(spec) or completions is None:
        return
    rules, rules_path = policy.get("rules") or [], path.at("successPolicy", "rules")
    if not rules:
        yield missing(rules_path, "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _MAX_RULES:
        yield too_many(rules_path, len(rules), _MAX_RULES)
    for i, rule in entries(rules):
        yield from _success_rule(rules_path.at(i), rule, completions)


def _success_rule(path: Path, rule: Any, completions: int) -> Iterator[FieldError]:
    count, indexes = _number(rule, "succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        yield missing(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if isinstance(indexes, str):
        try:
            total = _count_of_indexes(indexes, completions)
        except ValueError as error:
            yield invalid(path.at("succeededIndexes"), indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    count_path = path.at("succeededCount")
    yield from not_negative(count_path, count)
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        yield invalid(count_path, count, detail)
    if indexes is not None and count > total:
        detail = (
            f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        )
        yield invalid(count_path, count, detail)


def _count_of_indexes(indexes: str, completions: int) -> int:
    """How many indexes a text such as `1,3-5` names. Raises ValueError with the fault."""
    total, last_index = 0, -1
    for interval in indexes.split(",") if indexes else ():
        limits = interval.split("-")
        if len(limits) > 2:
            raise ValueError(
                f'the fragment "{interval}" violates the requirement that an index interval can have at most two parts'
                " separated by '-'"
            )
        first, *ends = (_index(limit, completions) for limit in limits)
        end = ends[0] if ends else first
        if ends and first >= end:
            raise ValueError(f"non-increasing order, previous: {first}, current: {end}")
        if last_index >= first:
            raise ValueError(f"non-increasing order, previous: {last_index}, current: {first}")
        total, last_index = total + end - first + 1, end
    return total


def _index(digits: str, completions: int) -> int:
    if not digits.removeprefix("+").isdecimal() or not digits.isascii():
        raise ValueError(f'cannot convert string to integer for index: "{digits}"')
    if (len(digits) > len(str(completions)) + 1 and int(digits[:20])) or int(digits[:20]) >= completions:
        raise ValueError(f'too large index: "{digits}"')
    return int(digits)


def _restart_policy(path: Path, spec: Any) -> Iterator[FieldError]:
    policy, policy_path = _pod_spec(spec).get("restartPolicy") or "", path.at("template", "spec", "restartPolicy")
    if policy in {"", "Always"}:
        yield missing(policy_path, 'valid values: "OnFailure", "Never"')
    elif policy not in {"OnFailure", "Never"}:
        yield not_supported(policy_path, policy, ("OnFailure", "Never"))
    elif policy != "Never" and spec.get("podFailurePolicy") is not None:
        yield invalid(policy_path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _replacement_policy(path: Path, spec: Any) -> Iterator[FieldError]:
    supported = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if spec.get("podReplacementPolicy") is not None:
        policy_path = path.at("podReplacementPolicy")
        yield from one_of(*supported, empty=True)(policy_path, spec["podReplacementPolicy"])


def _selector(path: Path, spec: Any, own_labels: Mapping[str, str]) -> Iterator[FieldError]:
    """Check the selector. The API server generates it, unless manualSelector is true: then it must match the pods."""
    selector, template = spec.get("selector"), spec.get("template")
    pod_labels = dig(template, "metadata", "labels") or {}
    labels_path = path.at("template", "metadata", "labels")
    if spec.get("manualSelector") is True:
        if selector is None:
            yield missing(path.at("selector"))
        elif not _selects(selector, pod_labels):
            yield invalid(labels_path, pod_labels, "`selector` does not match template `labels`")
        return
    if selector is not None and not _selects(selector, own_labels):
        yield invalid(path.at("selector"), selector, "`selector` not auto-generated")
    for name in own_labels.keys() & pod_labels.keys():
        if pod_labels[name] != own_labels[name]:
            yield invalid(labels_path.at(name), pod_labels, f"must be '{own_labels[name]}'")


def _selects(label_selector: Any, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches these labels. An invalid selector, which has errors of its own, matches."""
    if any(selector(Path(), label_selector)):
        return True
    pairs = dig(label_selector, "matchLabels") or {}
    requirements = (
        Requirement(key=term["key"], operator=term["operator"], values=tuple(items(term, "values")))
        for _, term in entries(dig(label_selector, "matchExpressions"))
    )
    return all(labels.get(key) == value for key, value in pairs.items()) and all(
        requirement.is_met(labels.get(requirement.key)) for requirement in requirements
    )


_SPEC = fields(
    _mode,
    _failure_policy,
    _success_policy,
    _restart_policy,
    _replacement_policy,
    parallelism=not_negative,
    completions=not_negative,
    activeDeadlineSeconds=not_negative,
    backoffLimit=not_negative,
    ttlSecondsAfterFinished=not_negative,
    backoffLimitPerIndex=not_negative,
    maxFailedIndexes=not_negative,
    completionMode=one_of("NonIndexed", "Indexed", empty=True),
    podFailurePolicy=fields(rules=each(_FAILURE_RULE)),
    selector=selector,
    template=TEMPLATE,
)
_JOB = fields(metadata=metadata, spec=_SPEC)
