"""Numbers that are valid, but contradict each other. Warnings only. Pure.

See docs/reference/validation.md#own-numbers.
"""

from collections.abc import Iterator
from itertools import islice
from math import prod
from typing import Any

from api.batch import pods_at_once
from api.keys import JOBSET_NAME, REPLICATED_JOB_NAME
from kube.model.field import FieldError, Path
from kube.model.jsontree import dig, items
from kube.model.quantity import parse_quantity
from webhooks.jobset.rules import MAX_FINDINGS, Source
from webhooks.jobset.rules.failure import FAILURE
from webhooks.jobset.subject import Entry, Subject

_TPU_TOPOLOGY_LABEL, _TPU_RESOURCE = "cloud.google.com/gke-tpu-topology", "google.com/tpu"
_MAX_CHIPS_PER_NODE = 8
"""The most chips of one node. A larger topology certainly has several nodes."""
_MAX_TERMS = 8
"""The most constraints, and the most terms, of a pod that are checked."""
_NARROWING_FIELDS = ("matchLabelKeys", "mismatchLabelKeys", "namespaceSelector", "namespaces", "nodeAffinityPolicy")

_DOCS = Source("docs/reference/validation.md#own-numbers")
DEADLINE_ZERO = _DOCS.warning(
    "job-deadline-zero", "the Job fails with DeadlineExceeded as soon as it starts", "set the seconds, or remove it"
)
NEVER_ENDS = _DOCS.warning(
    "container-always-restarts",
    "a container that always restarts never ends, so the Job never completes",
    "move a sidecar to initContainers, or remove restartPolicy",
)
START_TIMEOUT_NEVER = _DOCS.warning(
    "start-timeout-never", "activeDeadlineSeconds ends the set after {seconds} s, before this", "set fewer seconds"
)
TERMS_APART = _DOCS.warning(
    "apart-in-one-domain",
    "exclusive placement: {pods} pods of a Job share one {key}, and this allows {most} there",
    "remove it, or use another topologyKey",
)
CHIPS = _DOCS.warning(
    "tpu-topology-not-filled",
    "{pods} x {each} chips do not fill slices of {chips}: {topology}",
    "change parallelism, google.com/tpu or the topology",
)


def check_numbers(subject: Subject) -> Iterator[FieldError]:
    """Findings about numbers that contradict each other, at most as many as an answer lists."""
    deadline_seconds = subject.js.spec.active_deadline_seconds
    start_seconds = subject.failure_policy.start_timeout_seconds
    if deadline_seconds is not None and start_seconds is not None and start_seconds >= deadline_seconds:
        yield START_TIMEOUT_NEVER.at(FAILURE.at("startTimeoutSeconds"), start_seconds, seconds=deadline_seconds)
    yield from islice((error for entry in subject.entries for error in _check_entry(subject, entry)), MAX_FINDINGS)


def check_endless_containers(subject: Subject) -> Iterator[FieldError]:
    """Findings about containers that always restart, in Jobs that the success policy waits for."""
    policy = subject.js.spec.success_policy
    if policy and (policy.operator == "Any" or policy.min_succeeded is not None):
        return
    targets = subject.targets(policy.target_replicated_jobs if policy else ())
    yield from islice((error for entry in targets for error in _check_restart_policies(entry)), MAX_FINDINGS)


def _check_restart_policies(entry: Entry) -> Iterator[FieldError]:
    for path, container in entry.pod_path.at("spec", "containers").each(entry.job.template.spec.containers):
        if container.restart_policy == "Always" and entry.pod_count:
            yield NEVER_ENDS.at(path.at("restartPolicy"), container.restart_policy)


def _check_entry(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    if entry.job.active_deadline_seconds == 0 and entry.rjob.replicas:
        yield DEADLINE_ZERO.at(entry.job_path.at("activeDeadlineSeconds"), 0)
    if entry.pod_count:
        yield from _check_terms(subject, entry)
        yield from _check_chips(subject, entry)


def _check_terms(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Findings about terms that keep pods of an exclusive Job out of the Job's domain."""
    topology, pods = subject.topologies[entry.index], pods_at_once(entry.job)
    if topology is None or pods < 2:
        return
    spec, path = entry.rjob.pod_spec, entry.pod_path.at("spec")
    labels = {**entry.job.template.metadata.labels, JOBSET_NAME: subject.name, REPLICATED_JOB_NAME: entry.rjob.name}
    for field_path, term, limit in (*_anti_affinity_terms(spec, path), *_spread_constraints(spec, path)):
        if limit < pods and dig(term, "topologyKey") == topology and _selects(term, labels):
            yield TERMS_APART.at(field_path, topology, pods=pods, key=topology, most=limit)


def _anti_affinity_terms(spec: Any, path: Path) -> Iterator[tuple[Path, Any, int]]:
    """Path, term, and the most pods that the term allows in one domain."""
    parts = ("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in items(spec, *parts)[:_MAX_TERMS]:
        yield path.at(*parts[:2]), term, 1  # the whole path would leave no room for the fix


def _spread_constraints(spec: Any, path: Path) -> Iterator[tuple[Path, Any, int]]:
    """Path, constraint, and the most pods that the constraint allows in one domain while it needs several domains."""
    key = "topologySpreadConstraints"
    for field_path, term in path.at(key).each(items(spec, key)[:_MAX_TERMS]):
        skew, domains = dig(term, "maxSkew"), dig(term, "minDomains")
        is_strict = dig(term, "whenUnsatisfiable") == "DoNotSchedule"
        if is_strict and isinstance(skew, int) and isinstance(domains, int) and domains > 1:
            yield field_path, term, skew


def _selects(term: Any, labels: dict[str, Any]) -> bool:
    """Whether a term selects pods with these labels; False for a term that has more than labels."""
    selector = dig(term, "labelSelector")
    match_labels = dig(selector, "matchLabels")
    has_more = dig(selector, "matchExpressions") or any(dig(term, key) for key in _NARROWING_FIELDS)
    if has_more or not isinstance(match_labels, dict) or not match_labels:
        return False
    return all(labels.get(key) == value for key, value in match_labels.items())


def _check_chips(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """A finding about pods that do not fill TPU slices of several nodes.

    With exclusive placement the pods of one Job have to fill them, else the pods of the ReplicatedJob.
    """
    topology = dig(entry.rjob.pod_spec, "nodeSelector", _TPU_TOPOLOGY_LABEL)
    sides = topology[:40].split("x") if isinstance(topology, str) else []
    if not sides or not all(side.isascii() and side.isdigit() for side in sides):
        return
    pods = entry.pod_count if subject.topologies[entry.index] is None else pods_at_once(entry.job)
    slice_chips, pod_chips = prod(map(int, sides)), _chips_of_pod(entry)
    if slice_chips > _MAX_CHIPS_PER_NODE and pod_chips and pod_chips * pods % slice_chips:
        field_path = entry.pod_path.at("spec", "nodeSelector", _TPU_TOPOLOGY_LABEL)
        yield CHIPS.at(field_path, topology, pods=pods, each=pod_chips, chips=slice_chips, topology=topology)


def _chips_of_pod(entry: Entry) -> int:
    """Chips that the containers of a pod request; an invalid amount counts as 0."""
    count = 0
    for container in items(entry.rjob.pod_spec, "containers"):
        amount = parse_quantity(str(dig(container, "resources", "limits", _TPU_RESOURCE) or 0)[:20])
        count += int(amount) if amount is not None else 0
    return count
