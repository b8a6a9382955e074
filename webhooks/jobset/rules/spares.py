"""Spares: ReplicatedJobs that hold places for the pods of another ReplicatedJob, their target. Pure.

See docs/reference/validation.md#spares.
"""

from collections.abc import Iterator
from itertools import chain, islice

from api.batch import pods_at_once
from api.children import affinity_topology, placement_annotations
from api.jobset import ReplicatedJob
from api.keys import NODE_SELECTOR_STRATEGY
from api.spares import GATE, MAX_GROUPS, REQUIRED, spare_template
from api.stages import is_ordered, is_staged
from kube.model.field import SPEC, FieldError, Path
from kube.model.jsontree import dig, items
from kube.model.meta import JSON
from webhooks.jobset.rules import MAX_FINDINGS, Source
from webhooks.jobset.rules.coordinator import PATH as COORDINATOR
from webhooks.jobset.rules.scheduling import ENTRIES, levels
from webhooks.jobset.rules.success import TARGETS as SUCCESS_TARGETS
from webhooks.jobset.rules.targets import name_suggestion
from webhooks.jobset.subject import Entry, Subject

_DOCS = Source("docs/reference/validation.md#spares")
NO_GATE = _DOCS.gate("spare-gate", GATE, "its pods run as workers do, and never end")
UNKNOWN = _DOCS.error("spare-target", "replicatedJob {name} {why}", "{how}")
MANY = _DOCS.error(
    "spare-groups",
    "at most {most} ReplicatedJobs of a JobSet may be spares",
    "raise replicas of one of them, which is the number of its Jobs",
)
SPARE_REFERENCED = _DOCS.error(
    "spare-named",
    "replicatedJob {name} holds places for another one (spareFor): it never completes, and runs no program",
    "name the ReplicatedJob that it stands in for, or none",
)
ORDERED = _DOCS.error(
    "spare-order",
    "spares are no stage, and this JobSet starts its ReplicatedJobs in order",
    "use dependsOn for the order of start, or remove spareFor",
)
PLACED = _DOCS.error(
    "spare-placement",
    "a spare can hold no place where {why}",
    "remove spareFor, or {instead}",
)
TEMPLATE = _DOCS.error(
    "spare-template",
    "differs from that of replicatedJob {name}: its pods might not fit into the place",
    "write `template: {{}}`, which is filled in, or the same as in replicatedJob {name}",
)
_COMPARED_FIELDS = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "resourceClaims",
)


def check_gate(subject: Subject) -> Iterator[FieldError]:
    """Findings about spareFor while its feature gate is off."""
    if not subject.gates[GATE]:
        for entry in _spares(subject):
            yield NO_GATE.at(entry.path.at("spareFor"))


def check_groups(subject: Subject) -> Iterator[FieldError]:
    """Check that the target of each spare exists, is no spare itself, and that the template of the spare fits it."""
    entries = list(_spares(subject))
    if len(entries) > MAX_GROUPS:
        yield MANY.at(entries[MAX_GROUPS].path.at("spareFor"), entries[MAX_GROUPS].rjob.spare_for, most=MAX_GROUPS)
    for entry in entries[:MAX_GROUPS]:
        yield from _check_spare(subject, entry)


def _spares(subject: Subject) -> Iterator[Entry]:
    return (entry for entry in subject.entries if entry.rjob.spare_for)


def _check_spare(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    name, path = entry.rjob.spare_for, entry.path.at("spareFor")
    target = subject.entries_by_name.get(name)
    if target is None:
        yield UNKNOWN.at(path, name, name=name, why="does not exist", how=name_suggestion(subject, name))
        return
    if target.rjob.spare_for:
        reason, how = "is a spare itself", "name the ReplicatedJob that runs the program"
        yield UNKNOWN.at(path, name, name=name, why=reason, how=how)
        return
    js = subject.js
    if is_ordered(js.spec) or is_staged(js.spec):
        yield ORDERED.at(path, name)
    placement, topology = placement_annotations(js, target.rjob), affinity_topology(js, target.rjob)
    if NODE_SELECTOR_STRATEGY in placement:
        instead = f"place the pods of replicatedJob {name} by their leaders or one by one"
        yield PLACED.at(path, name, why="a label of nodes decides who gets it", instead=instead)
    elif placement != placement_annotations(js, entry.rjob):
        yield TEMPLATE.at(entry.path.at("template", "metadata", "annotations"), name=name)
    elif topology != affinity_topology(js, entry.rjob):
        yield TEMPLATE.at(entry.pod_path.at("metadata", "annotations"), name=name)
    own_template = {} if placement or topology is not None else entry.rjob.template
    difference = _first_difference(entry.path, entry.rjob.template, spare_template(target.rjob.template, own_template))
    if difference is not None:
        yield TEMPLATE.at(difference, name=name)
    if pods_at_once(entry.job) < 1:
        field = "completions" if entry.job.completions == 0 else "parallelism"
        instead = "let parallelism and completions be at least 1"
        yield PLACED.at(entry.job_path.at(field), 0, why="its Jobs have no pods", instead=instead)
    yield from check_job_count(subject, entry)


def check_job_count(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Check that there are no more spares than Jobs, if a spare is for one Job.

    An update is checked only if it adds spares, since an update that removes workers may leave spares without a Job.
    """
    name, spec = entry.rjob.spare_for, subject.js.spec.scheduling
    target = subject.entries_by_name.get(name)
    if target is None or spec is None or not spec.job_topology_keys(name):
        return
    replicas = target.rjob.replicas
    if entry.rjob.replicas > replicas:
        reason = f"only the pods of one Job share a domain, and replicatedJob {name} has no Job {replicas}"
        instead = f"write at most {replicas} replicas: parallelism says how many places each Job has"
        yield PLACED.at(entry.path.at("replicas"), entry.rjob.replicas, why=reason, instead=instead)


def _first_difference(path: Path, template: JSON, target_template: JSON) -> Path | None:
    """The first path at which the template of a spare does not fit its target; None if it fits.

    `path` is the path of the spare's ReplicatedJob.
    """
    job_path = path.at("template", "spec")
    for field in ("parallelism", "completions"):
        if dig(template, "spec", field) != dig(target_template, "spec", field):
            return job_path.at(field)
    pod_path, pod, target_pod = job_path.at("template", "spec"), dig(template, *_POD), dig(target_template, *_POD)
    for field in _COMPARED_FIELDS:
        if (dig(pod, field) or None) != (dig(target_pod, field) or None):
            return pod_path.at(field)
    for field in ("containers", "initContainers"):
        containers, target_containers = (
            [(dig(c, "name"), dig(c, "image"), dig(c, "resources") or {}) for c in items(p, field)]
            for p in (pod, target_pod)
        )
        if containers != target_containers:
            return pod_path.at(field)
    return None


_POD = ("spec", "template", "spec")


def check_scheduling_groups(subject: Subject) -> Iterator[FieldError]:
    """Check that no scheduling group has spares, or keeps pods of a target where a spare cannot replace them."""
    entries = list(islice(_spares(subject), MAX_GROUPS))
    spec, spares = subject.js.spec.scheduling, {entry.rjob.name for entry in entries}
    if spec is None or not spares:
        return
    targets = chain.from_iterable(
        path.at("targetReplicatedJobs").each(group.target_replicated_jobs)
        for path, group in ENTRIES.each(spec.replicated_jobs)
    )
    for path, name in islice(((path, name) for path, name in targets if name in spares), MAX_FINDINGS):
        yield SPARE_REFERENCED.at(path, name, name=name)
    levels_with_claims = {name: level for level in levels(subject) if level.claims for name in level.targets}
    for entry in entries:
        name, path = entry.rjob.spare_for, entry.path.at("spareFor")
        if name not in subject.entries_by_name:
            continue
        target = subject.entries_by_name[name].rjob
        if name in levels_with_claims:
            reason = "pods share devices, since the spare is in no group"
            instead = f"remove resourceClaims of {levels_with_claims[name].path}"
            yield PLACED.at(path, name, why=reason, instead=instead)
        elif (spec.shared_topology_keys(name) or spec.job_topology_keys(name)) and _has_affinity(target):
            reason = "its affinity to the pods of the group, which keeps it in their domain, meets another one"
            yield PLACED.at(path, name, why=reason, instead=f"remove the required podAffinity of replicatedJob {name}")
        elif affinity_topology(subject.js, target) is not None:
            reason = "a gang waits for all its domains at once"
            yield PLACED.at(path, name, why=reason, instead="remove spec.scheduling")


def _has_affinity(rjob: ReplicatedJob) -> bool:
    """Whether the pods have required terms of podAffinity: kube-scheduler looks for one pod that all terms select."""
    return bool(dig(rjob.pod_spec, "affinity", "podAffinity", REQUIRED))


def check_references(subject: Subject) -> Iterator[FieldError]:
    """Check that no field that counts Jobs, or waits for Jobs, names a spare, and that no spare waits."""
    spares = {entry.rjob.name for entry in _spares(subject)}
    if spares:
        for path, name in islice(((path, name) for path, name in _references(subject) if name in spares), MAX_FINDINGS):
            yield SPARE_REFERENCED.at(path, name, name=name)


def _references(subject: Subject) -> Iterator[tuple[Path, str]]:
    """The path and name of every reference to a ReplicatedJob. A ReplicatedJob that waits refers to itself, too."""
    spec, policy = subject.js.spec, subject.js.spec.success_policy
    rules = SPEC.at("failurePolicy", "rules")
    yield from SUCCESS_TARGETS.each(policy.target_replicated_jobs if policy is not None else ())
    yield from chain.from_iterable(
        path.at("targetReplicatedJobs").each(rule.target_replicated_jobs)
        for path, rule in rules.each(subject.failure_policy.rules)
    )
    for entry in subject.entries:
        waits_path = entry.path.at("dependsOn")
        if entry.rjob.depends_on:
            yield waits_path, entry.rjob.name
        yield from ((path.at("name"), wait.name) for path, wait in waits_path.each(entry.rjob.depends_on or ()))
    if spec.coordinator is not None:
        yield COORDINATOR.at("replicatedJob"), spec.coordinator.replicated_job
