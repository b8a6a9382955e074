"""`jobset validate`: checks manifests as the webhook would, before they are sent. Reads, asks, writes a report.

Exit codes: 0 good (warnings are allowed), 1 faults, 2 the check could not be made, or not of everything. A check of the
cluster that a missing right prevents is a note, and counts for 2 only with --strict.
"""

import contextlib
import shlex
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from api.features import FeatureGates
from cli.check.checks import CheckError, Checks, Sent, locate_findings
from cli.check.documents import Document
from cli.check.findings import MAX_FINDINGS, Report, colorful, line_of, name_of, printable, write_text
from cli.check.github import github_lines
from cli.check.kustomize import with_hint
from cli.check.manifest_files import Inputs, Named
from cli.check.object_checks import is_jobset
from cli.check.placeholders import with_placeholders_once
from cli.check.policy_kinds import is_either
from cli.check.sarif import sarif
from cli.check.shared_names import NAME, Names, Services
from cli.check.stored_defaults import without_defaults
from cli.output import FORMS, dump
from jobset_client.words import count_noun
from kube.clock import now
from kube.model.jsontree import dig
from kube.model.meta import JSON
from webhooks.jobset.engine import Findings

if TYPE_CHECKING:
    from cli.check.policies import FiledPolicies
    from cli.check.server_checks import ServerChecks
    from policy.judged import Namespace

CONVERTIBLE = ("Job", "MPIJob", "PyTorchJob")
"""Kinds that `jobset init --from` makes JobSets of."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to check, and the form of the report.

    `server`: check at the cluster of `kubeconfig` and `context` as well; `local_server`: at an API server that is
    started on this machine for the run. `allow_none`: files without any JobSet are not a problem. At most
    `most_findings` are shown; the rest is counted.

    `policies`: files and directories with JobSetPolicies and exceptions from them, for the time `at` and a namespace of
    these labels and annotations; `explain` shows what each of their rules decides. `command`: what the user called.
    """

    names: Sequence[str]
    gates: FeatureGates
    recursive: bool = False
    namespace: str = ""
    output: str = "text"
    strict: bool = False
    allow_none: bool = False
    server: bool = False
    local_server: bool = False
    kubeconfig: str = ""
    context: str = ""
    most_findings: int = MAX_FINDINGS
    policies: Sequence[str] = ()
    at: datetime = field(default_factory=now)
    namespace_labels: Sequence[tuple[str, str]] = ()
    namespace_annotations: Sequence[tuple[str, str]] = ()
    explain: bool = False
    command: str = "validate"


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Check, write the report to `out` and problems to `err`; gives the exit code."""
    report = _run_checks(options)
    if options.output in FORMS:
        out.write(dump(report.json(), options.output))
    elif options.output == "sarif":
        out.write(dump(sarif(report), "json"))
    elif options.output == "github":
        out.writelines(f"{line}\n" for line in github_lines(report))
        out.write(f"{report.summary}\n")
    else:
        write_text(report.findings, out, color=colorful(out), named=report.files_with_several)
        if report.hidden_count:
            out.write(f"and {report.hidden_count} more\n")
        if report.explanations:
            from cli.check.policies import explanation_lines  # noqa: PLC0415 (rules of policies, where there are any)

            out.writelines(f"{printable(line)}\n" for line in explanation_lines(report.explanations))
        out.write(f"{report.summary}\n")
    err.writelines(f"jobset {options.command}: {printable(problem)}\n" for problem in report.problems)
    return exit_code(report, options)


def _run_checks(options: Options) -> Report:
    """What was found. Without a server nothing is waited for, and no event loop is needed."""
    checking = check_manifests(options)
    if options.server or options.local_server:
        import asyncio  # noqa: PLC0415 (a tenth of the time that a check takes)

        return asyncio.run(checking)
    try:
        checking.send(None)
    except StopIteration as done:
        report: Report = done.value
        return report
    raise AssertionError("a check without a server waits for something")


def exit_code(report: Report, options: Options) -> int:
    """What a run ends with."""
    if report.problems:
        return 2
    return 1 if report.errors or (options.strict and report.warnings) else 0


async def check_manifests(options: Options) -> Report:
    """Everything that was found."""
    report = Report(most_findings=options.most_findings)
    wanted = is_jobset if options.policies else _is_checked
    inputs = Inputs(
        options.names,
        recursive=options.recursive,
        wanted=wanted,
        allow_none=options.allow_none,
        problems=report.problems,
    )
    of_policies: list[Document] = []
    checks, names, services = Checks(options.gates, options.namespace), Names(), Services()
    held_to = _held_to(options, report, inputs) if options.policies else None
    filled_in: set[str] = set()
    async with contextlib.AsyncExitStack() as stack:
        asked = _Asked(checks, report)
        await asked.connect(stack, options)
        for document in inputs.documents():
            findings = None
            if isinstance(document.value, dict) and not is_jobset(document.value):
                of_policies.append(document)
                continue
            if not document.broken and isinstance(document.value, dict):
                report.saw_jobset(document.source.name)
                document = checks.respelt(document)  # noqa: PLW2901 (the one that was meant)
                sent = checks.prepare(document.value)
                if held_to and held_to.policies:
                    await asked.know(_namespace(sent.object), held_to.known)
                # A cluster sets the defaults of its own policies.
                known = sent if options.server or not held_to else held_to.with_defaults(sent, checks.gates)
                findings = await asked.about(known, inputs.named)
                findings = findings.and_also(services.warnings(findings.object))
                line = line_of(document, NAME)
                findings = findings.and_also(names.warnings(findings.object, document.source.name, line))
                findings = findings.and_elsewhere(without_defaults(sent.object))
                findings = with_hint(findings, document.source.name)
                if held_to:
                    findings = _with_policies(findings, held_to, options, report)
            located = locate_findings(document, findings)
            report.add(with_placeholders_once(located, document.value, filled_in))
    if of_policies:
        from cli.check.policies import check_each_file  # noqa: PLC0415 (rules of policies, where there are any)

        check_each_file(of_policies, report, options.gates)
    if held_to:
        held_to.warn(report, options.gates, everywhere=not options.names)
    allow_none, hint = options.allow_none or bool(of_policies), _conversion_hint(options.names, inputs.named)
    report.finish(inputs.files, inputs.other_objects, allow_none=allow_none, hint=hint)
    if options.strict and report.not_made:
        left = count_noun(report.not_made, "note")
        report.problems.append(f"not everything was checked, which --strict asks for: {left} above named what and why")
    return report


def _held_to(options: Options, report: Report, inputs: Inputs) -> "FiledPolicies":
    """The policies and exceptions that are named; the report gets what is wrong with them."""
    from cli.check.policies import FiledPolicies, exceptions_in, load  # noqa: PLC0415 (as above)

    rules, excepting = load(options.policies, report)
    filed = exceptions_in(excepting, report)
    return FiledPolicies(
        [each.value for each in rules],
        [each.value for each in filed],
        options.at,
        dict(options.namespace_labels),
        dict(options.namespace_annotations),
        inputs.namespaces,
        rules,
        filed,
    )


def _conversion_hint(names: Sequence[str], passed_over: AbstractSet[Named]) -> str:
    """How to make JobSets of objects that were passed over; empty where they have no conversion."""
    kind = next((kind for kind, _, _ in sorted(passed_over) if kind in CONVERTIBLE), "")
    file = shlex.quote(names[0]) if len(names) == 1 else "FILE"
    return f"; to make a JobSet of this {kind}, run `jobset init --from {file}`" if kind else ""


def _is_checked(obj: JSON) -> bool:
    """Whether an object is checked where no policies are named to hold JobSets to."""
    return is_jobset(obj) or is_either(obj)


class _Asked:
    """Findings with those of a server while it answers. What follows is checked without it, and a problem says so."""

    def __init__(self, checks: Checks, report: Report) -> None:
        self._checks = checks
        self._report = report
        self._server: ServerChecks | None = None
        self._asked_about = 0
        self._asked_for: set[str] = set()

    async def connect(self, stack: contextlib.AsyncExitStack, options: Options) -> None:
        try:
            self._server = await stack.enter_async_context(_server(options))
        except CheckError as error:
            self._without(error)

    async def about(self, sent: Sent, created: AbstractSet[Named]) -> Findings:
        if self._server is not None:
            try:
                found = await self._server.check(self._checks, sent, created)
            except CheckError as error:
                self._without(error)
            else:
                self._asked_about += 1
                return found
        return self._checks.create(sent)

    async def know(self, name: str, known: "dict[str, Namespace]") -> None:
        """Have `known` hold the namespace as the cluster has it, asked once, with what a file adds to it.

        Without an answer only the file counts.
        """
        from policy.judged import Namespace  # noqa: PLC0415 (as above)

        if self._server is None or name in self._asked_for:
            return
        self._asked_for.add(name)
        try:
            there = await self._server.namespace(name) or Namespace(name)
        except CheckError as error:
            self._without(error)
        else:
            own = known.get(name, there)
            labels, annotations = {**there.labels, **own.labels}, {**there.annotations, **own.annotations}
            known[name] = Namespace(there.name, labels, annotations)

    def _without(self, error: CheckError) -> None:
        self._server = None
        self._report.problems.append(f"{error}; JobSets that were checked there: {self._asked_about}")


def _namespace(obj: JSON) -> str:
    name = dig(obj, "metadata", "namespace")
    return name if isinstance(name, str) else ""


def _with_policies(findings: Findings, policies: "FiledPolicies", options: Options, report: Report) -> Findings:
    """The findings, and what the JobSet breaks of the policies; places that are wrong anyway are left out."""
    from cli.check.policies import explanation, judged_of  # noqa: PLC0415 (as above)

    policies.saw(_namespace(findings.object))
    new = Sent(findings.object, ())
    new = policies.with_defaults(new, options.gates) if options.server else new  # else they were set before
    judged = judged_of(new.object, options.gates) if policies.policies else None
    if judged is None:
        return findings
    if options.explain:
        report.explanations += explanation(policies, judged, name_of(findings.object))
    return findings.and_elsewhere(policies.findings(judged))


@contextlib.asynccontextmanager
async def _server(options: Options) -> AsyncIterator["ServerChecks | None"]:
    if options.local_server:
        from cli.check.local_server import start_server  # noqa: PLC0415 (a second of imports that offline checks need not pay)

        async with start_server() as server:
            yield server
    elif options.server:
        from cli.check.server_checks import connect  # noqa: PLC0415 (the same)

        async with connect(options.kubeconfig, options.context) as server:
            yield server
    else:
        yield None
