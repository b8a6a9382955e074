"""Runs `jobset validate`: checks manifests before they are sent, and writes a report."""

import contextlib
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from authoring import validation
from authoring.findings import Report
from authoring.validation import check_manifests
from cli.check.github import github_lines
from cli.check.sarif import sarif
from cli.check.text import write_text
from cli.messages import has_color, printable, write_messages
from cli.output import DATA_FORMATS, dump

if TYPE_CHECKING:
    from authoring.server_checks import ServerChecks


@dataclass(frozen=True, slots=True)
class Options(validation.Options):
    """The options of the checks, and the form of the report.

    - `server`: check at the cluster of `kubeconfig` and `context`, too.
    - `local_server`: check at an API server that is started on this machine for the run, too.
    - `command`: the command for messages.
    """

    output: str = "text"
    local_server: bool = False
    kubeconfig: str = ""
    context: str = ""
    command: str = "validate"


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Check the manifests, write the report to `out` and problems to `err`. Returns the exit code."""
    report = _run_checks(options)
    if options.output in DATA_FORMATS:
        out.write(dump(report.json(), options.output))
    elif options.output == "sarif":
        out.write(dump(sarif(report), "json"))
    elif options.output == "github":
        out.writelines(f"{line}\n" for line in github_lines(report))
        out.write(f"{report.summary}\n")
    else:
        write_text(report.findings, out, color=has_color(out), with_names=report.files_with_several)
        if report.hidden_count:
            out.write(f"and {report.hidden_count} more\n")
        if report.explanations:
            from authoring.policies import explanation_lines  # noqa: PLC0415 (loaded only if there are policies)

            out.writelines(f"{printable(line)}\n" for line in explanation_lines(report.explanations))
        out.write(f"{report.summary}\n")
    write_messages(options.command, report.problems, err)
    return exit_code(report, options)


def _run_checks(options: Options) -> Report:
    """Run the checks, and return the report. Without a server no event loop is started."""
    checking = check(options)
    if options.server or options.local_server:
        import asyncio  # noqa: PLC0415 (a tenth of the time that a check takes)

        return asyncio.run(checking)
    try:
        checking.send(None)
    except StopIteration as done:
        report: Report = done.value
        return report
    raise AssertionError("a check without a server waits for something")


def check(options: Options) -> Coroutine[Any, Any, Report]:
    """The coroutine of the checks, with those of the server if the options name one."""
    return check_manifests(options, _server(options))


def exit_code(report: Report, options: Options) -> int:
    """The exit code of a run."""
    if report.problems:
        return 2
    return 1 if report.errors or (options.strict and report.warnings) else 0


@contextlib.asynccontextmanager
async def _server(options: Options) -> AsyncIterator["ServerChecks | None"]:
    if options.local_server:
        from cli.check.local_server import start_server  # noqa: PLC0415 (a second of imports)

        async with start_server() as server:
            yield server
    elif options.server:
        from cli.check.cluster import connect  # noqa: PLC0415 (a second of imports)

        async with connect(options.kubeconfig, options.context) as server:
            yield server
    else:
        yield None
