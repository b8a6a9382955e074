"""Computes the objects that the controller would create for a JobSet, without a cluster. Pure.

The controller's code (api/children.py) builds the objects one at a time, so a JobSet of a hundred thousand Jobs takes
no more memory than a JobSet of ten. Only groups (spec.scheduling) are computed before.

The uid of a JobSet and the random suffix of a generated name are known only when the JobSet is stored. Here the suffix
is xxxxx. If the manifest has no uid, owner references and the keys of uid and attempt are left out. With invented
values, `kubectl diff` would fail for existing objects, since the API server refuses to change these fields.
"""

from collections.abc import Iterator, Sequence

import msgspec

from api import keys
from api.children import NO_UID, build_job, build_service, build_volume_claim, job_in_group, mounted_names
from api.features import FeatureGates
from api.gang_objects import build_group, build_workload
from api.gangs import Forest, forest, is_sequenced
from api.jobset import JobSet, ReplicatedJob
from api.jobset_status import JobSetStatus
from api.layout import layout_of
from api.stages import stage_name, stages
from authoring.checks import Checks, locate_findings
from authoring.findings import Report
from authoring.manifest_files import Inputs
from kube.model.jsontree import dig, set_in
from kube.model.meta import JSON
from webhooks.jobset.subject import subject_of

DEFAULT_NAMESPACE = "default"
_STORED_KEYS = {keys.JOBSET_UID, keys.RESTART_ATTEMPT, keys.JOB_RESTART_ATTEMPT, keys.EXECUTION_ATTEMPT}
"""Labels and annotations whose values only a stored JobSet has."""


def jobsets_in(inputs: Inputs, checks: Checks, report: Report) -> Iterator[JobSet]:
    """The JobSets without faults of files, in the form that the controller would read. Faults are reported."""
    for document in inputs.documents():
        if document.broken or not isinstance(document.value, dict):
            report.add(locate_findings(document))
            continue
        report.count_jobset(document.source.name)
        document = checks.respelt(document)  # noqa: PLW2901 (the corrected document)
        findings = checks.findings_about_new(checks.prepare(document.value))
        report.add([finding for finding in locate_findings(document, findings) if not finding.error.is_warning])
        if not findings.errors and all(fault.error.is_warning for fault in document.faults):
            yield as_stored(findings.object, checks.gates)


def as_stored(obj: JSON, gates: FeatureGates) -> JobSet:
    """The JobSet that the controller would read, with stand-ins for fields that the API server sets."""
    js, restarts = subject_of(obj, gates).js, dig(obj, "status", "restarts")
    namespace, uid = js.metadata.namespace or DEFAULT_NAMESPACE, js.metadata.uid or NO_UID
    status = JobSetStatus(restarts=restarts if isinstance(restarts, int) else 0)
    metadata = msgspec.structs.replace(js.metadata, uid=uid, namespace=namespace)
    return msgspec.structs.replace(js, metadata=metadata, status=status)


def without_owner(body: JSON) -> JSON:
    """The body without owner references and without the keys of uid and attempt, which need a stored JobSet."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "ownerReferences"}
    bare = {**body, "metadata": _without_stored_keys(metadata)}
    template = dig(body, "spec", "template", "metadata")
    return bare if template is None else set_in(bare, ("spec", "template", "metadata"), _without_stored_keys(template))


def _without_stored_keys(metadata: JSON) -> JSON:
    remaining = {
        field: {key: value for key, value in metadata[field].items() if key not in _STORED_KEYS}
        for field in ("labels", "annotations")
        if metadata.get(field)
    }
    return {**metadata, **remaining}


def by_stage(js: JobSet, gates: FeatureGates) -> Iterator[tuple[str, JSON]]:
    """All bodies in the order of their creation, each after a heading about its stage; empty without stages."""
    in_stages = stages(js.spec)
    layout = layout_of(js)
    ranges = layout.ranges_by_name()
    claimed: set[str] = set()
    gangs = _Gangs(js)
    for number, stage in enumerate(in_stages or (js.spec.replicated_jobs,), 1):
        heading = f"{js.metadata.name}: stage {number} of {len(in_stages)}: {stage_name(stage)}" if in_stages else ""
        if js.dns_enabled and number == 1:
            yield heading, build_service(js)
        mounted = set().union(*(mounted_names(rjob.pod_spec) for rjob in stage)) if in_stages else None
        yield from ((heading, claim) for claim in _claims(js, mounted, claimed))
        # Jobs that wait inside a stage get their groups when they are released.
        for part in [(rjob,) for rjob in stage] if is_sequenced(js.spec) and not in_stages else [stage]:
            yield from ((heading, group) for group in gangs.objects_of(part))
            for jobs in (ranges[rjob.name] for rjob in part):
                for position in jobs.positions(js.metadata.name):
                    job = build_job(js, layout, jobs, position, gates=gates)
                    yield heading, gangs.with_group(job)


class _Gangs:
    """The groups of one set, each of which is created once. A set without spec.scheduling has no groups."""

    def __init__(self, js: JobSet) -> None:
        self._js = js
        self._forest: Forest | None = forest(js)
        self._created: set[str] = set()

    def objects_of(self, rjobs: Sequence[ReplicatedJob]) -> Iterator[JSON]:
        """The groups that these ReplicatedJobs need and that have not been created, parents first.

        A suspended set gets no groups.
        """
        group_forest, names = self._forest, {rjob.name for rjob in rjobs}
        if group_forest is None or self._js.spec.suspend:
            return
        if not self._created:
            self._created.add(group_forest.workload)
            yield build_workload(self._js, group_forest)
        pairs = [pair for root in group_forest.roots for pair in root.with_parents()]
        for group, parent in sorted(pairs, key=lambda pair: not pair[0].is_composite):
            if group.name not in self._created and not names.isdisjoint(group.replicated_jobs):
                self._created.add(group.name)
                yield build_group(self._js, group_forest, group, parent, group.gang_size)

    def with_group(self, job: JSON) -> JSON:
        group = None if self._forest is None else self._forest.of_job(job["metadata"]["name"])
        return job if group is None else job_in_group(job, group.template, group.name)


def _claims(js: JobSet, mounted: set[str] | None, claimed: set[str]) -> Iterator[JSON]:
    """The claims of the volumes in `mounted` (None: all volumes) but those in `claimed`, to which they are added."""
    for policy in js.spec.volume_claim_policies:
        for template in policy.templates:
            name: str = template["metadata"]["name"]
            if name not in claimed and (mounted is None or name in mounted):
                claimed.add(name)
                yield build_volume_claim(js, policy, template)
