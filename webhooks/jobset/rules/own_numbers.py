"""Numbers that every schema accepts and that contradict each other. Warnings only. Pure.

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
from webhooks.jobset.rules.placement import by_affinity
from webhooks.jobset.subject import Entry, Subject

_TOPOLOGY, _CHIPS = "cloud.google.com/gke-tpu-topology", "google.com/tpu"
_LARGEST_HOST = 8
"""Chips of the largest node that is a whole slice: only a larger topology has certainly several nodes."""
_MAX_TERMS = 8
"""Constraints and terms of a pod that are checked."""
_NARROWING = ("matchLabelKeys", "mismatchLabelKeys", "namespaceSelector", "namespaces", "nodeAffinityPolicy")

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


def check_numbers(js: Subject) -> Iterator[FieldError]:
    """Findings about numbers that contradict each other, at most as many as an answer lists."""
    limit, timeout = js.js.spec.active_deadline_seconds, js.failure_policy.start_timeout_seconds
    if limit is not None and timeout is not None and timeout >= limit:
        yield START_TIMEOUT_NEVER.at(FAILURE.at("startTimeoutSeconds"), timeout, seconds=limit)
    yield from islice((error for entry in js.entries for error in _check_entry(js, entry)), MAX_FINDINGS)


def check_endless_containers(js: Subject) -> Iterator[FieldError]:
    """Findings about containers that always restart, in Jobs that the success policy waits for."""
    policy = js.js.spec.success_policy
    if policy and (policy.operator == "Any" or policy.min_succeeded is not None):
        return
    found = (
        error for entry in js.targets(policy.target_replicated_jobs if policy else ()) for error in _endless(entry)
    )
    yield from islice(found, MAX_FINDINGS)


def _endless(entry: Entry) -> Iterator[FieldError]:
    for path, container in entry.pod_path.at("spec", "containers").each(entry.job.template.spec.containers):
        if container.restart_policy == "Always" and entry.pod_count:
            yield NEVER_ENDS.at(path.at("restartPolicy"), container.restart_policy)


def _check_entry(js: Subject, entry: Entry) -> Iterator[FieldError]:
    if entry.job.active_deadline_seconds == 0 and entry.rjob.replicas:
        yield DEADLINE_ZERO.at(entry.job_path.at("activeDeadlineSeconds"), 0)
    if entry.pod_count:
        yield from _apart(js, entry)
        yield from _chips(js, entry)


def _apart(js: Subject, entry: Entry) -> Iterator[FieldError]:
    """Findings about terms that keep pods of a Job out of its own domain."""
    topology, pods = by_affinity(js, entry), pods_at_once(entry.job)
    if topology is None or pods < 2:
        return
    spec, path = entry.rjob.pod_spec, entry.pod_path.at("spec")
    labels = {**entry.job.template.metadata.labels, JOBSET_NAME: js.name, REPLICATED_JOB_NAME: entry.rjob.name}
    for field_path, term, most in (*_anti_affinity(spec, path), *_spread(spec, path)):
        if most < pods and dig(term, "topologyKey") == topology and _selects(term, labels):
            yield TERMS_APART.at(field_path, topology, pods=pods, key=topology, most=most)


def _anti_affinity(spec: Any, path: Path) -> Iterator[tuple[Path, Any, int]]:
    parts = ("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in items(spec, *parts)[:_MAX_TERMS]:
        yield path.at(*parts[:2]), term, 1  # the whole path would take the room of the fix


def _spread(spec: Any, path: Path) -> Iterator[tuple[Path, Any, int]]:
    """Findings about constraints that need several domains: in a single one, any number of pods fits."""
    key = "topologySpreadConstraints"
    for field_path, term in path.at(key).each(items(spec, key)[:_MAX_TERMS]):
        skew, domains = dig(term, "maxSkew"), dig(term, "minDomains")
        is_strict = dig(term, "whenUnsatisfiable") == "DoNotSchedule"
        if is_strict and isinstance(skew, int) and isinstance(domains, int) and domains > 1:
            yield field_path, term, skew


def _selects(term: Any, labels: dict[str, Any]) -> bool:
    """Whether a term that has only labels selects these pods."""
    selector = dig(term, "labelSelector")
    wanted = dig(selector, "matchLabels")
    narrowed = dig(selector, "matchExpressions") or any(dig(term, key) for key in _NARROWING)
    if narrowed or not isinstance(wanted, dict) or not wanted:
        return False
    return all(labels.get(key) == value for key, value in wanted.items())


def _chips(js: Subject, entry: Entry) -> Iterator[FieldError]:
    """Findings about pods that do not fill TPU slices of several nodes; in exclusive placement, those of a Job."""
    topology = dig(entry.rjob.pod_spec, "nodeSelector", _TOPOLOGY)
    sides = topology[:40].split("x") if isinstance(topology, str) else []
    if not sides or not all(side.isascii() and side.isdigit() for side in sides):
        return
    pods = entry.pod_count if by_affinity(js, entry) is None else pods_at_once(entry.job)
    chips, each = prod(map(int, sides)), _chips_of_pod(entry)
    if chips > _LARGEST_HOST and each and each * pods % chips:
        field_path = entry.pod_path.at("spec", "nodeSelector", _TOPOLOGY)
        yield CHIPS.at(field_path, topology, pods=pods, each=each, chips=chips, topology=topology)


def _chips_of_pod(entry: Entry) -> int:
    """Chips that the containers of a pod request; 0 if that is not a whole number."""
    count = 0
    for container in items(entry.rjob.pod_spec, "containers"):
        amount = parse_quantity(str(dig(container, "resources", "limits", _CHIPS) or 0)[:20])
        count += int(amount) if amount is not None else 0
    return count
