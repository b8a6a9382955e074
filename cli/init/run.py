"""Prints the manifest of `jobset init` as YAML with comments, and unconverted fields on standard error."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TextIO

from authoring.convert.conversion import convert_documents, is_convertible
from authoring.convert.framework import COMMENTS, ManifestOptions, head_comment, manifest
from authoring.findings import Report
from authoring.manifest_files import Inputs
from cli.check.text import write_text
from cli.init.cli import FRAMEWORKS
from cli.messages import colorful
from cli.output import dump


@dataclass(frozen=True, slots=True)
class Options(ManifestOptions):
    """A framework with its sizes, or a file to convert."""

    file: str = ""


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Print the manifest; gives the exit code."""
    if options.file:
        return _convert_file(options.file, out, err)
    wanted = replace(options, name=options.name or options.framework)
    out.write(head_comment(wanted) + _with_comments(_yaml(manifest(wanted, FRAMEWORKS[wanted.framework])), COMMENTS))
    return 0


def _convert_file(file: str, out: TextIO, err: TextIO) -> int:
    report = Report()
    inputs = Inputs([file], wanted=is_convertible, problems=report.problems)
    objects, lines = convert_documents(inputs.documents(), report)
    write_text(report.findings, err, color=colorful(err))
    if not (objects or report.errors or report.problems):
        report.problems.append(f"{file}: no PyTorchJob, MPIJob or Job in it")
    left = [f"{kind} {name}: not converted: apply it as it is" for kind, _, name in sorted(inputs.other_names)]
    err.writelines(f"jobset init: {line}\n" for line in [*report.problems, *lines, *left])
    out.write(_yaml(objects))
    if report.problems or report.errors:
        return 1 if inputs.files else 2
    return 0


def _yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    return "---\n".join(dump(each, "yaml") for each in objects)


def _with_comments(text: str, comments: Mapping[str, str]) -> str:
    """The text, with each comment before the first line that begins with its key."""
    left = dict(comments)
    lines: list[str] = []
    for line in text.splitlines():
        words = line.lstrip()
        if key := next((key for key in left if words.startswith(key)), ""):
            lines.append(f"{line[: len(line) - len(words)]}# {left.pop(key)}")
        lines.append(line)
    return "\n".join(lines) + "\n"
