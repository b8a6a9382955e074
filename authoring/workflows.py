"""Finds JobSets in Argo Workflows, which are texts in `resource.manifest`, with their positions in the file. Pure."""

import re
from collections.abc import Iterator
from dataclasses import replace

from authoring.documents import Document, Fault, documents
from authoring.object_checks import is_jobset
from jobset_client.source import Source
from kube.model.field import ErrorType, Layer, Path, Rule, Severity
from kube.model.jsontree import dig, items

_TEMPLATES = {
    "Workflow": ("spec", "templates"),
    "WorkflowTemplate": ("spec", "templates"),
    "ClusterWorkflowTemplate": ("spec", "templates"),
    "CronWorkflow": ("spec", "workflowSpec", "templates"),
}
_JOBSET_KIND = re.compile(r"^[ \t]*[\"']?kind[\"']?:[ \t]*[\"']?JobSet\b", re.MULTILINE)
_BLOCK_START = re.compile(r"\|[-+]?[ \t]*(?:#[^\n]*)?\n")

UNCHECKED = Rule(
    "workflow-manifest-unchecked",
    ErrorType.INVALID,
    "a JobSet as text that was not checked: {why}",
    "{how}",
    "docs/validate.md#helm-and-kustomize",
    Layer.SCHEMA,
    Severity.WARNING,
)
_TEMPLATED = ("it has expressions in {{ }}", "check it as Argo renders it: `argo submit --dry-run -o yaml`")
_QUOTED = ("it is no block that begins with |", "write it as a block, or check it in a file of its own")


def jobsets_in_workflow(document: Document) -> Iterator[Document]:
    """A document for each JobSet in a workflow. A JobSet that cannot be checked becomes a document with a note."""
    value = document.value
    templates_path = (
        _TEMPLATES.get(str(value.get("kind"))) if str(value.get("apiVersion")).startswith("argoproj.io/") else None
    )
    for index, template in enumerate(items(value, *templates_path) if templates_path else ()):
        text = dig(template, "resource", "manifest")
        if isinstance(text, str) and _JOBSET_KIND.search(text):
            path = Path(templates_path or ()).at(index, "resource", "manifest")
            yield from _documents_in(document, path, text)


def _documents_in(document: Document, path: Path, text: str) -> Iterator[Document]:
    span = document.location.nearest(path.parts)[0].span
    source = document.source
    block = _BLOCK_START.match(source.text, span.start)
    reason, fix = _TEMPLATED if "{{" in text else _QUOTED
    if "{{" in text or block is None:
        fault = Fault(span, UNCHECKED.at(path, why=reason, how=fix))
        yield replace(document, value=None, faults=[fault], broken=True)
        return
    # The text keeps its indentation, and empty lines stand for the lines before it, so positions are those in the file.
    lines_before = source.text.count("\n", 0, block.end())
    same_lines = Source(source.name, "\n" * lines_before + source.text[block.end() : span.end])
    for inner in documents(same_lines):
        if inner.broken or (isinstance(inner.value, dict) and is_jobset(inner.value)):
            yield replace(inner, number=document.number)
