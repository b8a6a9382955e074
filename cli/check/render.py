"""`jobset render`: the objects that the controller would create for a JobSet, without a cluster.

They are built by what the controller builds them with (api/children.py), one at a time: a JobSet of a hundred thousand
Jobs takes no more memory than one of ten; groups (spec.scheduling) alone are all worked out before. Two things are only
known once the JobSet is stored: its uid, and the random end of a generated name, which is xxxxx here. Where the
manifest has no uid, owner references and the keys of uid and attempt are left out: the API server refuses an invented
uid, and another attempt, as a change of an object that exists, so `kubectl diff` would fail.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

import msgspec

from api import keys
from api.children import NO_UID, build_job, build_service, build_volume_claim, in_group, mounted_names
from api.features import FeatureGates
from api.gang_objects import build_group, build_workload
from api.gangs import Forest, forest, sequenced
from api.jobset import JobSet, ReplicatedJob
from api.jobset_status import JobSetStatus
from api.layout import layout_of
from api.stages import stage_name, stages
from cli.check.checks import Checks, locate_findings
from cli.check.findings import Report, colorful, printable, write_text
from cli.check.gang_tree import picture
from cli.check.manifest_files import Inputs
from cli.output import dump, write_list
from kube.model.jsontree import dig, set_in
from kube.model.meta import JSON
from webhooks.jobset.subject import subject

DEFAULT_NAMESPACE = "default"
_FIRST = ("apiVersion", "kind", "metadata", "spec")
_STORED_KEYS = {keys.JOBSET_UID, keys.RESTART_ATTEMPT, keys.JOB_RESTART_ATTEMPT, keys.EXECUTION_ATTEMPT}
"""Labels and annotations whose values only a stored JobSet has."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to render and how. `namespace` fills in where a manifest names none; without it, `default` does."""

    names: Sequence[str]
    gates: FeatureGates
    recursive: bool = False
    namespace: str = ""
    output: str = "yaml"


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the objects to `out`, or, if any JobSet has faults, only those to `err`; gives the exit code."""
    report = Report()
    inputs = Inputs(options.names, recursive=options.recursive, problems=report.problems)
    jobsets = list(_jobsets(inputs, Checks(options.gates, options.namespace), report))
    report.finish(inputs.files, inputs.other_objects)
    if report.errors or report.problems:
        write_text(report.findings, err, color=colorful(err), named=report.files_with_several)
        err.writelines(f"jobset render: {printable(problem)}\n" for problem in report.problems)
        if report.errors:
            err.write(f"{report.summary}; nothing is rendered\n")
        return 2 if report.problems else 1
    for js in jobsets:
        if not js.is_ours:
            err.write(
                f"jobset render: {js.metadata.name}: managed by {js.spec.managed_by}, nothing is created for it\n"
            )
    if options.output == "tree":
        out.writelines(f"{line}\n" for js in jobsets if js.is_ours for line in picture(js))
        return 0
    err.writelines(
        f"jobset render: {js.metadata.name}: suspended, its groups are created when it is resumed\n"
        for js in jobsets
        if js.is_ours and js.suspended and js.spec.scheduling is not None
    )
    bodies = (
        (stage, body if js.metadata.uid != NO_UID else _without_owner(body))
        for js in jobsets
        if js.is_ours
        for stage, body in by_stage(js, options.gates)
    )
    if options.output == "json":
        write_list((body for _, body in bodies), out)
    else:
        _write_yaml(bodies, out)
    return 0


def _jobsets(inputs: Inputs, checks: Checks, report: Report) -> Iterator[JobSet]:
    for document in inputs.documents():
        if document.broken or not isinstance(document.value, dict):
            report.add(locate_findings(document))
            continue
        report.saw_jobset(document.source.name)
        document = checks.respelt(document)  # noqa: PLW2901 (the one that was meant)
        findings = checks.create(checks.prepare(document.value))
        report.add([finding for finding in locate_findings(document, findings) if not finding.error.is_warning])
        if not findings.errors and all(fault.error.is_warning for fault in document.faults):
            yield as_stored(findings.object, checks.gates)


def as_stored(obj: JSON, gates: FeatureGates) -> JobSet:
    """The JobSet as the controller would read it, with stand-ins for what it gets when it is stored."""
    js, restarts = subject(obj, gates).js, dig(obj, "status", "restarts")
    namespace, uid = js.metadata.namespace or DEFAULT_NAMESPACE, js.metadata.uid or NO_UID
    status = JobSetStatus(restarts=restarts if isinstance(restarts, int) else 0)
    metadata = msgspec.structs.replace(js.metadata, uid=uid, namespace=namespace)
    return msgspec.structs.replace(js, metadata=metadata, status=status)


def _without_owner(body: JSON) -> JSON:
    """The body without what its JobSet has only once it is stored: owner references, and keys of uid and attempt."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "ownerReferences"}
    bare = {**body, "metadata": _without_stored_keys(metadata)}
    template = dig(body, "spec", "template", "metadata")
    return bare if template is None else set_in(bare, ("spec", "template", "metadata"), _without_stored_keys(template))


def _without_stored_keys(metadata: JSON) -> JSON:
    kept = {
        field: {key: value for key, value in metadata[field].items() if key not in _STORED_KEYS}
        for field in ("labels", "annotations")
        if metadata.get(field)
    }
    return {**metadata, **kept}


def by_stage(js: JobSet, gates: FeatureGates) -> Iterator[tuple[str, JSON]]:
    """All bodies in the order in which the controller creates them, each with its stage in words (empty: no stages)."""
    in_stages = stages(js.spec)
    layout = layout_of(js)
    ranges = layout.by_name()
    claimed: set[str] = set()
    gangs = _Gangs(js)
    for number, stage in enumerate(in_stages or (js.spec.replicated_jobs,), 1):
        heading = f"{js.metadata.name}: stage {number} of {len(in_stages)}: {stage_name(stage)}" if in_stages else ""
        if js.dns_enabled and number == 1:
            yield heading, build_service(js)
        mounted = set().union(*(mounted_names(rjob.pod_spec) for rjob in stage)) if in_stages else None
        yield from ((heading, claim) for claim in _claims(js, mounted, claimed))
        # What waits inside a stage gets its groups when it is released.
        for part in [(rjob,) for rjob in stage] if sequenced(js.spec) and not in_stages else [stage]:
            yield from ((heading, group) for group in gangs.objects_of(part))
            for jobs in (ranges[rjob.name] for rjob in part):
                for position in jobs.positions(js.metadata.name):
                    job = build_job(js, jobs, position, gates=gates, global_replicas=layout.global_replicas)
                    yield heading, gangs.with_group(job)


class _Gangs:
    """The groups of one set, each created once; none where it asks for none."""

    def __init__(self, js: JobSet) -> None:
        self._js = js
        self._forest: Forest | None = forest(js)
        self._made: set[str] = set()

    def objects_of(self, rjobs: Sequence[ReplicatedJob]) -> Iterator[JSON]:
        """What has to be there for Jobs of these and is not yet, parents first. A suspended set has no groups."""
        wanted, names = self._forest, {rjob.name for rjob in rjobs}
        if wanted is None or self._js.suspended:
            return
        if not self._made:
            self._made.add(wanted.workload)
            yield build_workload(self._js, wanted)
        found = [place for root in wanted.roots for place in root.with_parents()]
        for group, parent in sorted(found, key=lambda place: not place[0].composite):
            if group.name not in self._made and not names.isdisjoint(group.replicated_jobs):
                self._made.add(group.name)
                yield build_group(self._js, wanted, group, parent, group.gang)

    def with_group(self, job: JSON) -> JSON:
        """The Job with its group."""
        group = None if self._forest is None else self._forest.of_job(job["metadata"]["name"])
        return job if group is None else in_group(job, group.template, group.name)


def _claims(js: JobSet, mounted: set[str] | None, claimed: set[str]) -> Iterator[JSON]:
    """The claims of the volumes in `mounted` (None: all) but those in `claimed`, which they are added to."""
    for policy in js.spec.volume_claim_policies:
        for template in policy.templates:
            name: str = template["metadata"]["name"]
            if name not in claimed and (mounted is None or name in mounted):
                claimed.add(name)
                yield build_volume_claim(js, policy, template)


def to_yaml(body: JSON) -> str:
    """One document, its separator included."""
    ordered = {key: body[key] for key in (*_FIRST, *body) if key in body}
    return dump(ordered, "yaml", separated=True)


def _write_yaml(bodies: Iterator[tuple[str, JSON]], out: TextIO) -> None:
    """Documents, with a comment where a stage begins."""
    heading = ""
    for stage, body in bodies:
        if stage and stage != heading:
            out.write(f"# {stage}\n")
        heading = stage
        out.write(to_yaml(body))
