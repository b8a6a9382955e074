"""Spares: groups that hold places for the pods of another group, and do not run the program. Pure.

See docs/reference/validation.md#spares.
"""

from collections.abc import Iterator, Mapping
from itertools import chain, islice

from api.batch import pods_at_once
from api.children import placement_annotations
from api.jobset import ReplicatedJob
from api.keys import NODE_SELECTOR_STRATEGY
from api.spares import GATE, MAX_GROUPS, REQUIRED, spare_template
from api.stages import is_ordered, staged
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
_COMPARED = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "resourceClaims",
)


def check_gate(subject: Subject) -> Iterator[FieldError]:
    """The field is set while its feature gate is off."""
    if not subject.gates[GATE]:
        for entry in _spares(subject):
            yield NO_GATE.at(entry.path.at("spareFor"))


def check_groups(subject: Subject) -> Iterator[FieldError]:
    """Each group of spares is for an existing group, which is not one of spares, and has a template that fits it."""
    entries = list(_spares(subject))
    if len(entries) > MAX_GROUPS:
        yield MANY.at(entries[MAX_GROUPS].path.at("spareFor"), entries[MAX_GROUPS].rjob.spare_for, most=MAX_GROUPS)
    for entry in entries[:MAX_GROUPS]:
        yield from _group(subject, entry)


def _spares(subject: Subject) -> Iterator[Entry]:
    return (entry for entry in subject.entries if entry.rjob.spare_for)


def _group(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    name, path = entry.rjob.spare_for, entry.path.at("spareFor")
    target = subject.by_name.get(name)
    if target is None:
        yield UNKNOWN.at(path, name, name=name, why="does not exist", how=name_suggestion(subject, name))
        return
    if target.rjob.spare_for:
        reason, how = "is a spare itself", "name the ReplicatedJob that runs the program"
        yield UNKNOWN.at(path, name, name=name, why=reason, how=how)
        return
    js = subject.js
    if is_ordered(js.spec) or staged(js.spec):
        yield ORDERED.at(path, name)
    placement = placement_annotations(js, target.rjob)
    if NODE_SELECTOR_STRATEGY in placement:
        instead = f"place the pods of replicatedJob {name} by their leaders or one by one"
        yield PLACED.at(path, name, why="a label of nodes decides who gets it", instead=instead)
    elif placement != placement_annotations(js, entry.rjob):
        yield TEMPLATE.at(entry.path.at("template", "metadata", "annotations"), name=name)
    wanted = spare_template(target.rjob.template, {} if placement else entry.rjob.template)
    different = _difference(entry.path, entry.rjob.template, wanted)
    if different is not None:
        yield TEMPLATE.at(different, name=name)
    if pods_at_once(entry.job) < 1:
        field = "completions" if entry.job.completions == 0 else "parallelism"
        instead = "let parallelism and completions be at least 1"
        yield PLACED.at(entry.job_path.at(field), 0, why="its Jobs have no pods", instead=instead)
    yield from check_job_count(subject, entry)


def check_job_count(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Where a spare is for one Job, there is no spare without its Job. Workers that become fewer may leave some."""
    name, spec = entry.rjob.spare_for, subject.js.spec.scheduling
    target = subject.by_name.get(name)
    if target is None or spec is None or not spec.job_topology(name):
        return
    replicas = target.rjob.replicas
    if entry.rjob.replicas > replicas:
        reason = f"only the pods of one Job share a domain, and replicatedJob {name} has no Job {replicas}"
        instead = f"write at most {replicas} replicas: parallelism says how many places each Job has"
        yield PLACED.at(entry.path.at("replicas"), entry.rjob.replicas, why=reason, instead=instead)


def _difference(path: Path, own: JSON, wanted: JSON) -> Path | None:
    """The first path at which a template of spares differs from the pods that they replace; None if there is none."""
    job = path.at("template", "spec")
    for field in ("parallelism", "completions"):
        if dig(own, "spec", field) != dig(wanted, "spec", field):
            return job.at(field)
    pod, there, needed = job.at("template", "spec"), dig(own, *_POD), dig(wanted, *_POD)
    for field in _COMPARED:
        if (dig(there, field) or None) != (dig(needed, field) or None):
            return pod.at(field)
    for field in ("containers", "initContainers"):
        shapes = [
            [(dig(c, "name"), dig(c, "image"), dig(c, "resources") or {}) for c in items(p, field)]
            for p in (there, needed)
        ]
        if shapes[0] != shapes[1]:
            return pod.at(field)
    return None


_POD = ("spec", "template", "spec")


def check_scheduling_groups(subject: Subject) -> Iterator[FieldError]:
    """No group has spares, and none keeps pods that spares stand in for where a spare cannot follow."""
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
    sharing = {name: level for level in levels(subject) if level.claims for name in level.targets}
    for entry in entries:
        name, path = entry.rjob.spare_for, entry.path.at("spareFor")
        if name not in subject.by_name:
            continue
        target = subject.by_name[name].rjob
        if name in sharing:
            reason = "pods share devices, since the spare is in no group"
            yield PLACED.at(path, name, why=reason, instead=f"remove resourceClaims of {sharing[name].path}")
        elif (spec.shared_topology(name) or spec.job_topology(name)) and _has_affinity(target):
            reason = "its affinity to the pods of the group, which keeps it in their domain, meets another one"
            yield PLACED.at(path, name, why=reason, instead=f"remove the required podAffinity of replicatedJob {name}")
        elif _has_domains(placement_annotations(subject.js, target)):
            reason = "a gang waits for all its domains at once"
            yield PLACED.at(path, name, why=reason, instead="remove spec.scheduling")


def _has_affinity(rjob: ReplicatedJob) -> bool:
    """Whether its pods have required terms of podAffinity: kube-scheduler looks for one pod that all terms select."""
    return bool(dig(rjob.pod_spec, "affinity", "podAffinity", REQUIRED))


def _has_domains(placement: Mapping[str, str]) -> bool:
    """Whether each Job is alone on a domain; `spare-placement` also refuses the node-selector strategy."""
    return bool(placement) and NODE_SELECTOR_STRATEGY not in placement


def check_references(subject: Subject) -> Iterator[FieldError]:
    """No field that counts Jobs, or waits for them, names a spare; a spare does not wait for others."""
    spares = {entry.rjob.name for entry in _spares(subject)}
    if spares:
        for path, name in islice(((path, name) for path, name in _references(subject) if name in spares), MAX_FINDINGS):
            yield SPARE_REFERENCED.at(path, name, name=name)


def _references(subject: Subject) -> Iterator[tuple[Path, str]]:
    """Every reference to a ReplicatedJob, with its path. A ReplicatedJob that waits counts as a reference to itself."""
    spec, policy = subject.js.spec, subject.js.spec.success_policy
    rules = SPEC.at("failurePolicy", "rules")
    yield from SUCCESS_TARGETS.each(policy.target_replicated_jobs if policy is not None else ())
    yield from chain.from_iterable(
        path.at("targetReplicatedJobs").each(rule.target_replicated_jobs)
        for path, rule in rules.each(subject.failure_policy.rules)
    )
    for entry in subject.entries:
        waits = entry.path.at("dependsOn")
        if entry.rjob.depends_on:
            yield waits, entry.rjob.name
        yield from ((path.at("name"), wait.name) for path, wait in waits.each(entry.rjob.depends_on or ()))
    if spec.coordinator is not None:
        yield COORDINATOR.at("replicatedJob"), spec.coordinator.replicated_job
