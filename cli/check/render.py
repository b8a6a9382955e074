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
from cli.check.gang_tree import picture
from cli.check.text import write_faults
from cli.messages import colorful
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
    if code := write_faults("render", report, err, color=colorful(err)):
        err.write(f"{report.summary}; nothing is rendered\n" if report.errors else "")
        return code
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
        if js.is_ours and js.spec.suspend and js.spec.scheduling is not None
    )
    bodies = (
        (stage, body if js.metadata.uid != NO_UID else without_owner(body))
        for js in jobsets
        if js.is_ours
        for stage, body in by_stage(js, options.gates)
    )
    if options.output == "json":
        write_list((body for _, body in bodies), out)
    else:
        _write_yaml(bodies, out)
    return 0


def to_yaml(body: JSON) -> str:
    """The body as a YAML document, with its separator."""
    ordered = {key: body[key] for key in (*_FIRST_KEYS, *body) if key in body}
    return dump(ordered, "yaml", separated=True)


def _write_yaml(bodies: Iterator[tuple[str, JSON]], out: TextIO) -> None:
    """Write documents, with a comment before the first document of each stage."""
    heading = ""
    for stage, body in bodies:
        if stage and stage != heading:
            out.write(f"# {stage}\n")
        heading = stage
        out.write(to_yaml(body))
