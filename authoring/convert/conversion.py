"""Converts PyTorchJobs, MPIJobs and Jobs to JobSets, and lists the fields without an equivalent. Pure.

A conversion removes each field that it uses from a copy of the object. Fields that remain at the end are reported, but
for fields that the API server and controllers set.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from api import keys
from api.batch import JOB_CONTROLLER_LABELS
from authoring.checks import locate_findings
from authoring.convert.fields import ConvertError, Fields, containers
from authoring.convert.kubeflow import convert_mpi, convert_pytorch
from authoring.documents import Document
from authoring.findings import Report
from jobset_client.words import as_json
from kube.model.jsontree import dig
from kube.model.meta import JSON, LAST_APPLIED

_SET_BY_SERVERS = (
    "apiVersion", "kind", "status", "metadata.uid", "metadata.resourceVersion", "metadata.generation",
    "metadata.creationTimestamp", "metadata.managedFields", "metadata.selfLink",
)  # fmt: skip
_MAX_NOTES = 100
"""Largest number of notes about one object. A last line has the number of further notes."""


def is_convertible(obj: JSON) -> bool:
    """Whether this kind of object can be converted."""
    return (str(obj.get("apiVersion")).partition("/")[0], str(obj.get("kind"))) in _CONVERSIONS


def convert(obj: JSON) -> tuple[list[JSON], list[str]]:
    """The JobSet for an object with further objects, and a note on each field with no equivalent or another meaning."""
    group, kind = str(obj["apiVersion"]).partition("/")[0], obj["kind"]
    source_name = f"{kind} {as_json(dig(obj, 'metadata', 'name') or dig(obj, 'metadata', 'generateName'))}"
    try:
        fields = Fields(obj)
        for path in _SET_BY_SERVERS:
            fields.take(path)
        (fields.metadata["annotations"] or {}).pop(LAST_APPLIED, None)
        spec, further_objects = _CONVERSIONS[group, kind](fields)
    except ConvertError as error:
        raise ConvertError(f"{source_name}: {error}") from None
    metadata = {key: value for key, value in fields.metadata.items() if value}
    jobset = {"apiVersion": keys.API_VERSION, "kind": keys.KIND, "metadata": metadata, "spec": spec}
    notes = [*fields.notes, *(f"{path}: no equivalent: {as_json(value)}" for path, value in fields.remaining())]
    notes += _operator_name_notes(spec["replicatedJobs"], fields.name)
    rest = [f"and {len(notes) - _MAX_NOTES} more"] if len(notes) > _MAX_NOTES else []
    return [*further_objects, jobset], [f"{source_name}: {note}" for note in [*notes[:_MAX_NOTES], *rest]]


def convert_documents(documents: Iterable[Document], report: Report) -> tuple[list[JSON], list[str]]:
    """Convert all objects of files. Objects that cannot be converted become faults or problems of the report."""
    objects: list[JSON] = []
    lines: list[str] = []
    for document in documents:
        report.add(locate_findings(document))
        if document.broken or not isinstance(document.value, dict) or document.faults:
            continue
        try:
            converted, notes = convert(document.value)
        except ConvertError as error:
            report.problems.append(f"{document.source.name}: {error}")
            continue
        objects += converted
        lines += notes
    return objects, lines


def _operator_name_notes(groups: list[JSON], name: str) -> Iterator[str]:
    """Notes on labels and host names of Kubeflow's operators in templates, which do not exist in a JobSet."""
    hosts = rf"{re.escape(name)}-(?:master|worker|launcher)(?:-\d+)?(?![\w-])" if name else "(?!)"
    for group in groups:
        text = "\n".join(_texts(dig(group, "template", "spec", "template")))
        for word in sorted(set(re.findall(rf"training\.kubeflow\.org/[\w-]+|{hosts}", text))):
            new_names = (
                f"pods are called {name}-{group['name']}-JOB-POD.{name} here (docs/reference/names-and-labels.md)"
            )
            yield f"{group['name']}: {as_json(word)} is a name of the operator: {new_names}"


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, keys of mappings included."""
    if isinstance(value, dict):
        yield from (text for pair in value.items() for part in pair for text in _texts(part))
    elif isinstance(value, list):
        yield from (text for part in value for text in _texts(part))
    elif isinstance(value, str):
        yield value


def _convert_job(fields: Fields) -> tuple[JSON, list[JSON]]:
    """The spec of a JobSet with one Job, whose spec is that of the Job."""
    spec: JSON = {}
    fields.move("spec.suspend", bool, spec, "suspend")
    fields.move("spec.ttlSecondsAfterFinished", int, spec, "ttlSecondsAfterFinished")
    for path in ("spec.selector", "spec.manualSelector", "spec.managedBy"):
        if (value := fields.take(path)) is not None:
            fields.notes.append(f"{path}: no equivalent: {as_json(value)}")
    job = fields.take("spec", dict, {})
    containers(job.get("template"), "spec.template")
    labels = dig(job, "template", "metadata", "labels")
    for key in JOB_CONTROLLER_LABELS if isinstance(labels, dict) else ():
        labels.pop(key, None)
    job.setdefault("completionMode", "NonIndexed")  # a Job in a JobSet is Indexed unless it says otherwise
    name = fields.name or "NAME"
    fields.notes.append(f"metadata.name: the Job is called {name}-main-0 here, a pod {name}-main-0-INDEX.{name}")
    return {**spec, "replicatedJobs": [{"name": "main", "template": {"spec": job}}]}, []


_CONVERSIONS: dict[tuple[str, str], Callable[[Fields], tuple[JSON, list[JSON]]]] = {
    ("kubeflow.org", "PyTorchJob"): convert_pytorch,
    ("kubeflow.org", "MPIJob"): convert_mpi,
    ("batch", "Job"): _convert_job,
}
"""By group and kind, the function that returns the spec of a JobSet, and further objects, for an object."""
