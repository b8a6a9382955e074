"""Checks the manifests of files, without a cluster, or with the answers of an API server."""

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
from authoring.policy_kinds import is_policy_or_exception
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
"""Kinds that `jobset init --from` converts to JobSets."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run.

    - `names`: the files and directories with manifests.
    - `allow_none`: files without any JobSet are no problem.
    - `server`: a cluster is asked, too, which sets the defaults of its own policies.
    - `max_findings`: at most this many findings are kept. The number of the others is counted.
    - `policies`: files and directories with JobSetPolicies and exceptions. The time `at`, and these labels and
      annotations of the namespace, decide whether they apply.
    - `explain`: report the decisions of each rule of policies.
    """

    names: Sequence[str]
    gates: FeatureGates
    recursive: bool = False
    namespace: str = ""
    strict: bool = False
    allow_none: bool = False
    server: bool = False
    max_findings: int = MAX_FINDINGS
    policies: Sequence[str] = ()
    at: datetime = field(default_factory=now)
    namespace_labels: Sequence[tuple[str, str]] = ()
    namespace_annotations: Sequence[tuple[str, str]] = ()
    explain: bool = False


async def check_manifests(options: Options, server: "AbstractAsyncContextManager[ServerChecks | None]") -> Report:
    """Check the manifests, and return the report. `server`: gives the checks at a cluster, or None."""
    report = Report(max_findings=options.max_findings)
    wanted = is_jobset if options.policies else _is_checked
    inputs = Inputs(
        options.names,
        recursive=options.recursive,
        wanted=wanted,
        allow_none=options.allow_none,
        problems=report.problems,
    )
    policy_documents: list[Document] = []
    checks, names, services = Checks(options.gates, options.namespace), Names(), Services()
    filed_policies = _load_policies(options, report, inputs) if options.policies else None
    filled_in: set[str] = set()
    async with contextlib.AsyncExitStack() as stack:
        checker = _ServerChecker(checks, report)
        await checker.connect(stack, server)
        for document in inputs.documents():
            findings = None
            if isinstance(document.value, dict) and not is_jobset(document.value):
                policy_documents.append(document)
                continue
            if not document.broken and isinstance(document.value, dict):
                report.count_jobset(document.source.name)
                document = checks.respelt(document)  # noqa: PLW2901 (the corrected document)
                sent = checks.prepare(document.value)
                if filed_policies and filed_policies.policies:
                    await checker.look_up_namespace(_namespace(sent.object), filed_policies.known_namespaces)
                # A cluster sets the defaults of its own policies.
                with_defaults = (
                    sent if options.server or not filed_policies else filed_policies.with_defaults(sent, checks.gates)
                )
                findings = await checker.check(with_defaults, inputs.other_names)
                findings = findings.with_findings(services.warnings(findings.object))
                line = line_of(document, NAME)
                findings = findings.with_findings(names.warnings(findings.object, document.source.name, line))
                findings = findings.with_findings_elsewhere(without_defaults(sent.object))
                findings = with_hint(findings, document.source.name)
                if filed_policies:
                    findings = _with_policies(findings, filed_policies, options, report)
            located = locate_findings(document, findings)
            report.add(with_placeholders_once(located, document.value, filled_in))
    if policy_documents:
        from authoring.policies import check_each_file  # noqa: PLC0415 (loaded only if there are policies)

        check_each_file(policy_documents, report, options.gates)
    if filed_policies:
        filed_policies.warn(report, options.gates, everywhere=not options.names)
    allow_none, hint = options.allow_none or bool(policy_documents), _conversion_hint(options.names, inputs.other_names)
    report.finish(inputs.files, inputs.other_objects, allow_none=allow_none, hint=hint)
    if options.strict and report.skipped_checks:
        notes = count_noun(report.skipped_checks, "note")
        report.problems.append(f"not everything was checked, which --strict asks for: {notes} above named what and why")
    return report


def _load_policies(options: Options, report: Report, inputs: Inputs) -> "FiledPolicies":
    """The policies and exceptions that the options name. Reports their faults."""
    from authoring.policies import FiledPolicies, exception_documents, load  # noqa: PLC0415 (as above)

    policies, documents = load(options.policies, report)
    exceptions = exception_documents(documents, report)
    return FiledPolicies(
        policies=[filed.value for filed in policies],
        exceptions=[filed.value for filed in exceptions],
        at=options.at,
        labels=dict(options.namespace_labels),
        annotations=dict(options.namespace_annotations),
        known_namespaces=inputs.namespaces,
        filed_policies=policies,
        filed_exceptions=exceptions,
    )


def _conversion_hint(names: Sequence[str], skipped: AbstractSet[Named]) -> str:
    """The end of a message that says how to convert skipped objects; empty if there is no conversion."""
    kind = next((kind for kind, _, _ in sorted(skipped) if kind in CONVERTIBLE), "")
    file = shlex.quote(names[0]) if len(names) == 1 else "FILE"
    return f"; to make a JobSet of this {kind}, run `jobset init --from {file}`" if kind else ""


def _is_checked(obj: JSON) -> bool:
    """Whether an object is checked if the options name no policies."""
    return is_jobset(obj) or is_policy_or_exception(obj)


class _ServerChecker:
    """Checks manifests at a server as long as the server answers.

    When the server stops answering, a problem is reported, and further manifests are checked without a server.
    """

    def __init__(self, checks: Checks, report: Report) -> None:
        self._checks = checks
        self._report = report
        self._server: ServerChecks | None = None
        self._checked_count = 0
        self._looked_up_namespaces: set[str] = set()

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
                findings = await self._server.check(self._checks, sent, created)
            except CheckError as error:
                self._give_up(error)
            else:
                self._checked_count += 1
                return findings
        return self._checks.findings_about_new(sent)

    async def look_up_namespace(self, name: str, known: "dict[str, Namespace]") -> None:
        """Add the namespace of the cluster to `known`, with labels and annotations of a manifest in `known` added.

        It takes one request. Without an answer, `known` stays as it is.
        """
        from policy.judged import Namespace  # noqa: PLC0415 (as above)

        if self._server is None or name in self._looked_up_namespaces:
            return
        self._looked_up_namespaces.add(name)
        try:
            namespace_of_server = await self._server.namespace(name) or Namespace(name)
        except CheckError as error:
            self._give_up(error)
        else:
            namespace_of_file = known.get(name, namespace_of_server)
            labels = {**namespace_of_server.labels, **namespace_of_file.labels}
            annotations = {**namespace_of_server.annotations, **namespace_of_file.annotations}
            known[name] = Namespace(namespace_of_server.name, labels, annotations)

    def _give_up(self, error: CheckError) -> None:
        self._server = None
        self._report.problems.append(f"{error}; JobSets that were checked there: {self._checked_count}")


def _namespace(obj: JSON) -> str:
    name = dig(obj, "metadata", "namespace")
    return name if isinstance(name, str) else ""


def _with_policies(findings: Findings, policies: "FiledPolicies", options: Options, report: Report) -> Findings:
    """The findings, and violations of policies at paths without other errors."""
    from authoring.policies import explanation, judged_of  # noqa: PLC0415 (as above)

    policies.note_namespace(_namespace(findings.object))
    prepared = PreparedManifest(findings.object, ())
    if options.server:  # without a server, the defaults were set before the checks
        prepared = policies.with_defaults(prepared, options.gates)
    judged = judged_of(prepared.object, options.gates) if policies.policies else None
    if judged is None:
        return findings
    if options.explain:
        report.explanations += explanation(policies, judged, name_of(findings.object))
    return findings.with_findings_elsewhere(policies.findings(judged))
