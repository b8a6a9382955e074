"""Checks manifests as the webhook would, before they are sent; with the findings of an API server if one is asked."""

import contextlib
import shlex
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from api.features import FeatureGates
from authoring.checks import CheckError, Checks, PreparedManifest, locate_findings
from authoring.documents import Document
from authoring.findings import MAX_FINDINGS, Report, line_of, name_of
from authoring.kustomize import with_hint
from authoring.manifest_files import Inputs, Named
from authoring.object_checks import is_jobset
from authoring.placeholders import with_placeholders_once
from authoring.policy_kinds import is_either
from authoring.shared_names import NAME, Names, Services
from authoring.stored_defaults import without_defaults
from jobset_client.words import count_noun
from kube.clock import now
from kube.model.jsontree import dig
from kube.model.meta import JSON
from webhooks.jobset.engine import Findings

if TYPE_CHECKING:
    from authoring.policies import FiledPolicies
    from authoring.server_checks import ServerChecks
    from policy.judged import Namespace

CONVERTIBLE = ("Job", "MPIJob", "PyTorchJob")
"""Kinds that `jobset init --from` converts."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to check.

    `server`: a cluster is asked as well, which sets defaults of its own. `allow_none`: files without any JobSet are not
    a problem. At most `most_findings` are shown; the rest is counted.

    `policies`: files and directories with JobSetPolicies and exceptions from them, for the time `at` and a namespace of
    these labels and annotations; `explain` shows what each of their rules decides.
    """

    names: Sequence[str]
    gates: FeatureGates
    recursive: bool = False
    namespace: str = ""
    strict: bool = False
    allow_none: bool = False
    server: bool = False
    most_findings: int = MAX_FINDINGS
    policies: Sequence[str] = ()
    at: datetime = field(default_factory=now)
    namespace_labels: Sequence[tuple[str, str]] = ()
    namespace_annotations: Sequence[tuple[str, str]] = ()
    explain: bool = False


async def check_manifests(options: Options, server: "AbstractAsyncContextManager[ServerChecks | None]") -> Report:
    """All findings. `server`: a cluster to ask as well, or None."""
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
    filed_policies = _load_policies(options, report, inputs) if options.policies else None
    filled_in: set[str] = set()
    async with contextlib.AsyncExitStack() as stack:
        checker = _ServerChecker(checks, report)
        await checker.connect(stack, server)
        for document in inputs.documents():
            findings = None
            if isinstance(document.value, dict) and not is_jobset(document.value):
                of_policies.append(document)
                continue
            if not document.broken and isinstance(document.value, dict):
                report.count_jobset(document.source.name)
                document = checks.respelt(document)  # noqa: PLW2901 (the intended one)
                sent = checks.prepare(document.value)
                if filed_policies and filed_policies.policies:
                    await checker.look_up_namespace(_namespace(sent.object), filed_policies.known)
                # A cluster sets the defaults of its own policies.
                known = (
                    sent if options.server or not filed_policies else filed_policies.with_defaults(sent, checks.gates)
                )
                findings = await checker.check(known, inputs.other_names)
                findings = findings.with_findings(services.warnings(findings.object))
                line = line_of(document, NAME)
                findings = findings.with_findings(names.warnings(findings.object, document.source.name, line))
                findings = findings.with_findings_elsewhere(without_defaults(sent.object))
                findings = with_hint(findings, document.source.name)
                if filed_policies:
                    findings = _with_policies(findings, filed_policies, options, report)
            located = locate_findings(document, findings)
            report.add(with_placeholders_once(located, document.value, filled_in))
    if of_policies:
        from authoring.policies import check_each_file  # noqa: PLC0415 (loaded only if there are policies)

        check_each_file(of_policies, report, options.gates)
    if filed_policies:
        filed_policies.warn(report, options.gates, everywhere=not options.names)
    allow_none, hint = options.allow_none or bool(of_policies), _conversion_hint(options.names, inputs.other_names)
    report.finish(inputs.files, inputs.other_objects, allow_none=allow_none, hint=hint)
    if options.strict and report.skipped_checks:
        left = count_noun(report.skipped_checks, "note")
        report.problems.append(f"not everything was checked, which --strict asks for: {left} above named what and why")
    return report


def _load_policies(options: Options, report: Report, inputs: Inputs) -> "FiledPolicies":
    """The policies and exceptions that the options name; their faults are reported."""
    from authoring.policies import FiledPolicies, exception_documents, load  # noqa: PLC0415 (as above)

    policies, documents = load(options.policies, report)
    exceptions = exception_documents(documents, report)
    return FiledPolicies(
        policies=[each.value for each in policies],
        exceptions=[each.value for each in exceptions],
        at=options.at,
        labels=dict(options.namespace_labels),
        annotations=dict(options.namespace_annotations),
        known=inputs.namespaces,
        filed_policies=policies,
        filed_exceptions=exceptions,
    )


def _conversion_hint(names: Sequence[str], skipped: AbstractSet[Named]) -> str:
    """How to convert the objects that were skipped; empty if there is no conversion."""
    kind = next((kind for kind, _, _ in sorted(skipped) if kind in CONVERTIBLE), "")
    file = shlex.quote(names[0]) if len(names) == 1 else "FILE"
    return f"; to make a JobSet of this {kind}, run `jobset init --from {file}`" if kind else ""


def _is_checked(obj: JSON) -> bool:
    """Whether an object is checked if the options name no policies."""
    return is_jobset(obj) or is_either(obj)


class _ServerChecker:
    """Finds faults of manifests, with the help of a server as long as it answers.

    When it stops answering, a problem is reported, and further manifests are checked without it.
    """

    def __init__(self, checks: Checks, report: Report) -> None:
        self._checks = checks
        self._report = report
        self._server: ServerChecks | None = None
        self._checked = 0
        self._looked_up: set[str] = set()

    async def connect(
        self, stack: contextlib.AsyncExitStack, server: "AbstractAsyncContextManager[ServerChecks | None]"
    ) -> None:
        try:
            self._server = await stack.enter_async_context(server)
        except CheckError as error:
            self._give_up(error)

    async def check(self, sent: PreparedManifest, created: AbstractSet[Named]) -> Findings:
        if self._server is not None:
            try:
                found = await self._server.check(self._checks, sent, created)
            except CheckError as error:
                self._give_up(error)
            else:
                self._checked += 1
                return found
        return self._checks.create(sent)

    async def look_up_namespace(self, name: str, known: "dict[str, Namespace]") -> None:
        """Add the namespace to `known`: as the cluster has it (one request), with what a file adds.

        Without an answer, only the file counts.
        """
        from policy.judged import Namespace  # noqa: PLC0415 (as above)

        if self._server is None or name in self._looked_up:
            return
        self._looked_up.add(name)
        try:
            namespace_of_server = await self._server.namespace(name) or Namespace(name)
        except CheckError as error:
            self._give_up(error)
        else:
            own = known.get(name, namespace_of_server)
            labels, annotations = (
                {**namespace_of_server.labels, **own.labels},
                {**namespace_of_server.annotations, **own.annotations},
            )
            known[name] = Namespace(namespace_of_server.name, labels, annotations)

    def _give_up(self, error: CheckError) -> None:
        self._server = None
        self._report.problems.append(f"{error}; JobSets that were checked there: {self._checked}")


def _namespace(obj: JSON) -> str:
    name = dig(obj, "metadata", "namespace")
    return name if isinstance(name, str) else ""


def _with_policies(findings: Findings, policies: "FiledPolicies", options: Options, report: Report) -> Findings:
    """The findings, and violations of policies, except at paths that are invalid anyway."""
    from authoring.policies import explanation, judged_of  # noqa: PLC0415 (as above)

    policies.note_namespace(_namespace(findings.object))
    new = PreparedManifest(findings.object, ())
    new = (
        policies.with_defaults(new, options.gates) if options.server else new
    )  # without a server, they are set before the checks
    judged = judged_of(new.object, options.gates) if policies.policies else None
    if judged is None:
        return findings
    if options.explain:
        report.explanations += explanation(policies, judged, name_of(findings.object))
    return findings.with_findings_elsewhere(policies.findings(judged))
