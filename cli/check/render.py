"""Runs `jobset render`: writes the objects that the controller would create for JobSets of manifests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from api.children import NO_UID
from api.features import FeatureGates
from authoring.checks import Checks
from authoring.findings import Report
from authoring.manifest_files import Inputs
from authoring.rendering import by_stage, jobsets_in, without_owner
from cli.check.gang_tree import tree_lines
from cli.check.text import write_faults
from cli.messages import has_color
from cli.output import dump, write_list
from kube.model.meta import JSON

_FIRST_KEYS = ("apiVersion", "kind", "metadata", "spec")


@dataclass(frozen=True, slots=True)
class Options:
    """The manifests and the form of the output. `namespace`: for manifests without one; empty means `default`."""

    names: Sequence[str]
    gates: FeatureGates
    recursive: bool = False
    namespace: str = ""
    output: str = "yaml"


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the objects to `out`, or the faults to `err` if a JobSet has faults. Returns the exit code."""
    report = Report()
    inputs = Inputs(options.names, recursive=options.recursive, problems=report.problems)
    jobsets = list(jobsets_in(inputs, Checks(options.gates, options.namespace), report))
    report.finish(inputs.files, inputs.other_objects)
    if code := write_faults("render", report, err, color=has_color(err)):
        err.write(f"{report.summary}; nothing is rendered\n" if report.errors else "")
        return code
    err.writelines(
        f"jobset render: {js.metadata.name}: managed by {js.spec.managed_by}, nothing is created for it\n"
        for js in jobsets
        if not js.is_ours
    )
    our_jobsets = [js for js in jobsets if js.is_ours]
    if options.output == "tree":
        out.writelines(f"{line}\n" for js in our_jobsets for line in tree_lines(js))
        return 0
    err.writelines(
        f"jobset render: {js.metadata.name}: suspended, its groups are created when it is resumed\n"
        for js in our_jobsets
        if js.spec.suspend and js.spec.scheduling is not None
    )
    staged_bodies = (
        (stage, body if js.metadata.uid != NO_UID else without_owner(body))
        for js in our_jobsets
        for stage, body in by_stage(js, options.gates)
    )
    if options.output == "json":
        write_list((body for _, body in staged_bodies), out)
    else:
        _write_yaml(staged_bodies, out)
    return 0


def to_yaml(body: JSON) -> str:
    """The body as a YAML document, with its separator."""
    ordered = {key: body[key] for key in (*_FIRST_KEYS, *body) if key in body}
    return dump(ordered, "yaml", has_separator=True)


def _write_yaml(staged_bodies: Iterator[tuple[str, JSON]], out: TextIO) -> None:
    """Write documents. A comment before the first document of each stage names the stage."""
    last_stage = ""
    for stage, body in staged_bodies:
        if stage and stage != last_stage:
            out.write(f"# {stage}\n")
        last_stage = stage
        out.write(to_yaml(body))
