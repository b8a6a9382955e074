"""How the size of a stored JobSet may change, with gate ElasticJobSet (KEP-463).

See docs/reference/validation.md#sizes.

Pure. There are two sizes: the pods of a running Indexed Job, and the number of Jobs of a ReplicatedJob, whatever its
completion mode. Neither may fall below the number that other fields of the JobSet need. `validate.py` checks all other
fields that may change.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from api import share
from api.stages import stages
from kube.model.field import SPEC, ErrorType, FieldError, Path
from kube.model.jsontree import dig
from kube.model.meta import JSON
from webhooks.jobset.rules import Source, failure, names, spares, success
from webhooks.jobset.rules.size import check_counts
from webhooks.jobset.subject import Subject

POD_COUNT_PATHS: tuple[tuple[str, ...], ...] = (
    ("template", "spec", "parallelism"),
    ("template", "spec", "completions"),
)
JOB_COUNT_PATH = ("replicas",)

_DOCS = Source("docs/reference/validation.md#sizes")
_KEP_463 = Source("KEP-463")
_SUCCESS = Source("KEP-463, docs/reference/lifecycle.md#success")
FINISHED = _DOCS.error(
    "resize-finished",
    "Cannot mutate parallelism or completions when JobSet is in a terminal state (Completed or Failed)",
    "create a new JobSet",
    ErrorType.FORBIDDEN,
)
AT_LEAST_ONE = _DOCS.error("resize-at-least-one", "{field} must be >= 1", "suspend the JobSet to run no pods")
TOGETHER = _DOCS.error(
    "resize-together",
    "completions must be equal to parallelism for Elastic Indexed Jobs",
    "set both to {parallelism}, or both to {completions}",
)
REPLICAS_FINISHED = _KEP_463.error(
    "replicas-finished",
    "Cannot mutate replicas when JobSet is in a terminal state (Completed or Failed)",
    "create a new JobSet",
    ErrorType.FORBIDDEN,
)
REPLICAS_AWAITED = _KEP_463.error(
    "replicas-awaited",
    "replicas must be >= 1: replicatedJob '{waiting}' depends on replicatedJob '{name}'",
    "keep at least one Job for it to wait for",
)
REPLICAS_STAGE = Source("spec.executionPolicy").error(
    "replicas-stage-awaited",
    "replicas must be >= 1: later stages wait for replicatedJob '{name}'",
    "keep at least one Job for them to wait for",
)
BELOW_SHARE = Source("successPolicy.minSucceeded").error(
    "resize-below-min-succeeded",
    "minSucceeded is {needed}, and the targets of the success policy would have {total} {units}",
    "keep at least {needed}",
)
REPLICAS_TARGETED = _SUCCESS.error(
    "replicas-targeted",
    "replicas must be >= 1: the success policy targets replicatedJob '{name}'",
    "keep at least one Job that can succeed",
)
REPLICAS_LAST = _SUCCESS.error(
    "replicas-last",
    "replicas must be >= 1: no Job would be left, and the JobSet would be Completed at once",
    "keep at least one Job, suspend the JobSet to run no pods, or delete it",
)


@dataclass(frozen=True, slots=True)
class Change:
    """A ReplicatedJob in the stored and in the new object. `index` is its index in the new object."""

    index: int
    old: JSON
    new: JSON

    @property
    def path(self) -> Path:
        return SPEC.at("replicatedJobs", self.index)

    @property
    def is_elastic(self) -> bool:
        """Whether the pods of its Jobs may change in number."""
        return bool(dig(self.new, "template", "spec", "completionMode") == "Indexed")

    @property
    def is_resized(self) -> bool:
        """Whether its Jobs can be resized, and parallelism or completions differ; absent differs from any number."""
        return self.is_elastic and any(bool(dig(self.new, *keys) != dig(self.old, *keys)) for keys in POD_COUNT_PATHS)

    @property
    def is_scaled(self) -> bool:
        """Whether the number of Jobs differs."""
        return _number_or_one(self.old, JOB_COUNT_PATH) != _number_or_one(self.new, JOB_COUNT_PATH)


def size_paths(change: Change) -> tuple[tuple[str, ...], ...]:
    """The paths, below the ReplicatedJob, of the sizes that may change."""
    return (JOB_COUNT_PATH, *(POD_COUNT_PATHS if change.is_elastic else ()))


def size_findings(subject: Subject, changes: Sequence[Change], *, is_finished: bool) -> Iterator[FieldError]:
    """Findings about the new sizes. `subject`: the new object. `is_finished`: whether the stored JobSet has ended."""
    resized = [change for change in changes if change.is_resized]
    scaled = [change for change in changes if change.is_scaled]
    if is_finished:
        yield from (FINISHED.at(change.path.at("template", "spec")) for change in resized)
        yield from (REPLICAS_FINISHED.at(change.path.at(*JOB_COUNT_PATH)) for change in scaled)
    else:
        for change in resized:
            yield from _check_pods(change)
        emptied_changes = [change for change in scaled if not subject.entries[change.index].rjob.replicas]
        yield from _check_needed_jobs(subject, emptied_changes)
        yield from _check_min_succeeded(subject, changes)
    yield from _check_new_sizes(subject, resized, scaled)


def _check_pods(change: Change) -> Iterator[FieldError]:
    """Check that parallelism and completions of a running Indexed Job are equal, and not 0."""
    for keys in POD_COUNT_PATHS:
        number = dig(change.new, *keys)
        if number != dig(change.old, *keys) and number is not None and number < 1:
            yield AT_LEAST_ONE.at(change.path.at(*keys), number, field=keys[-1])
    parallelism, completions = (dig(change.new, *keys) for keys in POD_COUNT_PATHS)
    if parallelism is not None and completions is not None and parallelism != completions:
        path = change.path.at("template", "spec", "completions")
        yield TOGETHER.at(path, completions, parallelism=parallelism, completions=completions)


def _check_needed_jobs(subject: Subject, emptied_changes: Iterable[Change]) -> Iterator[FieldError]:
    """Findings about ReplicatedJobs that lose their last Job, though another waits for it or the set needs it.

    `emptied_changes`: the ReplicatedJobs that lose their last Job.
    """
    waiting_by_awaited = {
        item.name: entry.rjob.name for entry in reversed(subject.entries) for item in entry.rjob.depends_on or ()
    }
    awaited_by_stages = {rjob.name for stage in stages(subject.js.spec)[:-1] for rjob in stage}
    policy = subject.js.spec.success_policy
    targets = frozenset(policy.target_replicated_jobs if policy else ())
    set_is_empty = not any(entry.rjob.replicas for entry in subject.entries)
    for change in emptied_changes:
        name, path = change.new["name"], change.path.at(*JOB_COUNT_PATH)
        if name in waiting_by_awaited:
            yield REPLICAS_AWAITED.at(path, 0, name=name, waiting=waiting_by_awaited[name])
        if name in awaited_by_stages:
            yield REPLICAS_STAGE.at(path, 0, name=name)
        if name in targets:
            yield REPLICAS_TARGETED.at(path, 0, name=name)
        elif set_is_empty and not targets:
            yield REPLICAS_LAST.at(path, 0)


def _check_min_succeeded(subject: Subject, changes: Iterable[Change]) -> Iterator[FieldError]:
    """Check that a smaller set keeps as many Jobs or pods as have to succeed. A share follows the size."""
    policy = subject.js.spec.success_policy
    if policy is None or not isinstance(policy.min_succeeded, int):
        return
    names = {entry.rjob.name for entry in subject.targets(policy.target_replicated_jobs)}
    total = success.total_contribution(subject, names)
    if total is None or total >= policy.min_succeeded:
        return
    words = {"needed": policy.min_succeeded, "total": total, "units": success.units(policy)}
    counted_paths = (JOB_COUNT_PATH, *POD_COUNT_PATHS[1:]) if policy.unit == share.POD else (JOB_COUNT_PATH,)
    for change in changes:
        for keys in counted_paths if change.new["name"] in names else ():
            old_number, new_number = (_number_or_one(rjob, keys) for rjob in (change.old, change.new))
            if new_number < old_number:
                yield BELOW_SHARE.at(change.path.at(*keys), new_number, **words)


def _has_larger_size(change: Change) -> bool:
    return any(
        _number_or_one(change.new, keys) > _number_or_one(change.old, keys)
        for keys in (JOB_COUNT_PATH, *POD_COUNT_PATHS)
    )


def _number_or_one(rjob: JSON, keys: tuple[str, ...]) -> float:
    """The number at this path; 1, the default of the CRD and of the Job API, if it is absent.

    A value of another type, which only a stored object may have, counts as absent.
    """
    number = dig(rjob, *keys)
    return number if isinstance(number, int | float) else 1


def _check_new_sizes(subject: Subject, resized: Sequence[Change], scaled: Sequence[Change]) -> Iterator[FieldError]:
    """Repeat the checks of a new JobSet about sizes. A ReplicatedJob without Jobs has no names to check."""
    if any(_has_larger_size(change) for change in (*resized, *scaled)):
        yield from check_counts(subject)
    scaled_indexes = {change.index for change in scaled}
    for index in sorted({change.index for change in resized} | scaled_indexes):
        entry = subject.entries[index]
        yield from names.check_pod_count(subject, entry)
        if entry.rjob.replicas:
            yield from names.check_job_names(subject, entry) if index in scaled_indexes else ()
            yield from names.check_pod_names(subject, entry)
    for change in scaled:
        if _number_or_one(change.new, JOB_COUNT_PATH) > _number_or_one(change.old, JOB_COUNT_PATH):
            yield from spares.check_job_count(subject, subject.entries[change.index])
    yield from failure.check_replicas(subject, [subject.entries[change.index] for change in scaled])
