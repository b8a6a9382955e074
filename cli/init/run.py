"""Runs `jobset init`: prints a manifest as YAML, and fields that were not converted on standard error."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TextIO

from authoring.convert.conversion import convert_documents, is_convertible
from authoring.convert.framework import COMMENTS, ManifestOptions, head_comment, manifest
from authoring.findings import Report
from authoring.manifest_files import Inputs
from cli.check.text import write_text
from cli.init.cli import FRAMEWORKS
from cli.messages import has_color
from cli.output import dump


@dataclass(frozen=True, slots=True)
class Options(ManifestOptions):
    """The options of a framework's manifest, or a file to convert."""

    file: str = ""


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the manifest to `out`, and notes and problems to `err`. Returns the exit code."""
    if options.file:
        return _convert_file(options.file, out, err)
    named_options = replace(options, name=options.name or options.framework)
    text = _yaml(manifest(named_options, FRAMEWORKS[options.framework]))
    out.write(head_comment(named_options) + _with_comments(text, COMMENTS))
    return 0


def _convert_file(file: str, out: TextIO, err: TextIO) -> int:
    report = Report()
    inputs = Inputs([file], wanted=is_convertible, problems=report.problems)
    objects, notes = convert_documents(inputs.documents(), report)
    write_text(report.findings, err, color=has_color(err))
    if not (objects or report.errors or report.problems):
        report.problems.append(f"{file}: no PyTorchJob, MPIJob or Job in it")
    skipped = [f"{kind} {name}: not converted: apply it as it is" for kind, _, name in sorted(inputs.other_names)]
    err.writelines(f"jobset init: {text}\n" for text in [*report.problems, *notes, *skipped])
    out.write(_yaml(objects))
    if report.problems or report.errors:
        return 1 if inputs.files else 2
    return 0


def _yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    return "---\n".join(dump(body, "yaml") for body in objects)


def _with_comments(text: str, comments: Mapping[str, str]) -> str:
    """The text with each comment before the first line that begins with its key."""
    unused_comments = dict(comments)
    lines: list[str] = []
    for line in text.splitlines():
        unindented = line.lstrip()
        if key := next((key for key in unused_comments if unindented.startswith(key)), ""):
            lines.append(f"{line[: len(line) - len(unindented)]}# {unused_comments.pop(key)}")
        lines.append(line)
    return "\n".join(lines) + "\n"
