"""Checks a manifest at a cluster, with the rights of the user, for `jobset validate --server`.

The findings are those that `kubectl apply` would get: about the namespace, the children, the manager's feature gates,
other policies and webhooks, and updates if the JobSet exists. All writes are dry runs (`dryRun=All`), except for
Namespaces in a cluster that runs only for these checks.
"""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from http import HTTPStatus

from api.features import FeatureGates
from authoring.checks import CheckError, Checks, PreparedManifest
from authoring.manifest_files import Named
from controllers.resources import JOBSETS
from kube.client import Client
from kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, KubeError, NotFound
from kube.model.field import ErrorType, FieldError, Layer, Path, Rule, with_placeholders
from kube.model.jsontree import dig, without_nulls
from kube.model.meta import JSON
from kube.options import WriteOptions
from kube.resources import NAMESPACES
from policy.judged import Namespace
from policy.namespaces import NamespaceMetadata
from webhooks.jobset.answers import MORE_WARNINGS, RULE_SUFFIX, warning_texts
from webhooks.jobset.cluster.answer_texts import (
    StatedFault,
    is_by_admission,
    is_by_our_webhook,
    is_count_of_more,
    lacks_right,
    path_and_text,
    stated_faults,
)
from webhooks.jobset.cluster.checks import ClusterChecks
from webhooks.jobset.cluster.claims import MISMATCH
from webhooks.jobset.cluster.dry_run import JOB_EXISTS, SERVICE_FOREIGN, SERVICE_SHARED
from webhooks.jobset.cluster.faults import REFUSED
from webhooks.jobset.cluster.needs import RESOURCE_BY_RULE
from webhooks.jobset.cluster.nodes import TOO_LARGE
from webhooks.jobset.cluster.quota import QUOTA
from webhooks.jobset.cluster.verdict import warning
from webhooks.jobset.default import with_defaults
from webhooks.jobset.engine import Findings

TIMEOUT = 10.0
"""Seconds for one request."""
BUDGET_SECONDS = 15.0
"""Seconds for all requests about the children of one JobSet."""
MAX_REQUESTS = 200
"""At most this many requests are sent about the children of one JobSet."""
_AT_NAME = Path(("metadata", "name"))
_AT_NAMESPACE = Path(("metadata", "namespace"))
_IDENTITY_PATHS = {("metadata",), *(("metadata", key) for key in ("name", "generateName", "namespace"))}

NAMESPACE_MISSING = Rule(
    "namespace-missing",
    ErrorType.INVALID,
    "the cluster has no namespace {namespace}",
    "create it, or choose another one with -n",
    "API: objects live in namespaces that exist",
    Layer.CLUSTER,
)
NOT_READABLE = warning(
    "stored-unreadable",
    "whether this JobSet exists already is not known ({why}): checked as a new one",
    "ask for the right to get jobsets",
    source="API: RBAC",
)
NOT_LOOKED_UP = warning(
    "references-not-looked-up",
    "this JobSet exists: what its pods need by name, and quotas, are looked up for new ones only",
    "`jobset explain {name}` says what its pods wait for",
    source="docs/validate.md#what-it-checks",
)
NOT_ALLOWED = warning(
    "children-not-allowed",
    "{subject}; the manager may, so this is not a fault",
    "ask for the right to create them, to have them checked",
    source="API: RBAC",
)
JOBSET_REFUSED = Rule(
    "jobset-refused",
    ErrorType.FORBIDDEN,
    "the cluster refuses it: {why}",
    "change what it names, or ask who owns that policy or webhook",
    "admission by others",
    Layer.CLUSTER,
)
JOBSET_NOT_SENT = warning(
    "jobset-not-tried",
    "what policies and webhooks of others say is not known: {why}",
    "ask for the right to create and patch JobSets",
    source="API: RBAC, dry run",
)
CLUSTER_WARNS = warning(
    "cluster-warns",
    "the cluster warns: {text}",
    "change what it names, or ask who owns that policy or webhook",
    source="admission by others",
)
DETAILED_RULES = {rule: rule for rule in (JOB_EXISTS, MISMATCH, QUOTA, TOO_LARGE)} | {SERVICE_SHARED: SERVICE_FOREIGN}
"""Rules whose findings have details that the manager leaves out, each with the manager's rule for the same fault."""


class ServerChecks:
    """Checks manifests at a cluster."""

    def __init__(self, client: Client, namespace: str = "", *, is_temporary: bool = False) -> None:
        """`namespace`: for manifests without a namespace.

        `is_temporary`: the cluster runs only for these checks. Namespaces are created in it, and missing objects are no
        findings.
        """
        self._client = client
        self._is_temporary = is_temporary
        self._namespace = namespace or "default"
        self._children = ClusterChecks(
            client, timeout=BUDGET_SECONDS, has_author_rights=True, max_requests=MAX_REQUESTS
        )

    async def check(
        self, checks: Checks, sent: PreparedManifest, created: AbstractSet[Named] = frozenset()
    ) -> Findings:
        """All findings about a manifest, also those that need no cluster. Raises `CheckError` without an answer.

        `created`: objects that the user creates before the JobSet, so they are not missing.
        """
        try:
            return await self._check(checks, sent, created)
        except (KubeError, TimeoutError) as error:
            raise CheckError(failure_text(error)) from error

    async def namespace(self, name: str) -> Namespace | None:
        """The namespace of this name ("": the default); None if it does not exist or may not be read."""
        try:
            stored = await self._client.get(
                NAMESPACES, name or self._namespace, type=NamespaceMetadata, timeout=TIMEOUT
            )
        except (NotFound, Forbidden):
            return None
        except (KubeError, TimeoutError) as error:
            raise CheckError(failure_text(error)) from error
        return Namespace(stored.metadata.name, stored.metadata.labels, stored.metadata.annotations)

    async def _check(self, checks: Checks, sent: PreparedManifest, created: AbstractSet[Named]) -> Findings:
        if any(error.path.parts[:2] in _IDENTITY_PATHS for error in sent.faults):
            return checks.findings_about_new(sent)  # a request needs a valid name and namespace
        sent = _without_bad_metadata(sent)
        namespace = dig(sent.object, "metadata", "namespace") or self._namespace
        cluster_errors: list[FieldError] = []
        if not await self._has_namespace(namespace):
            missing = NAMESPACE_MISSING.at(_AT_NAMESPACE, namespace, namespace=namespace)
            return checks.findings_about_new(sent).with_findings([missing])
        stored, default_checks = None, Checks(FeatureGates())
        try:
            stored = await self._stored_jobset(namespace, dig(sent.object, "metadata", "name"))
        except Forbidden as error:
            cluster_errors.append(NOT_READABLE.at(_AT_NAME, None, why=f"{error.code} {error.reason}"))
        if stored is None:
            findings = checks.findings_about_new(sent, children=False)
            gate_errors = _errors_only_in(findings, default_checks.findings_about_new(sent, children=False))
            cluster_errors += await self._children.findings_about_new(
                findings.object, findings.errors, checks.gates, namespace=namespace
            )
        else:
            change = PreparedManifest(_as_update(sent.object, stored), sent.faults)
            findings = checks.findings_about_update(stored, change)
            gate_errors = _errors_only_in(findings, default_checks.findings_about_update(stored, change))
            cluster_errors += await self._children.findings_about_update(
                stored, findings.object, findings.errors, checks.gates, namespace=namespace
            )
            cluster_errors.append(NOT_LOOKED_UP.at(_AT_NAME, None, name=stored["metadata"]["name"]))
        if self._is_temporary:
            cluster_errors = [error for error in cluster_errors if error.rule not in RESOURCE_BY_RULE]
        expected = [error for error in cluster_errors if _is_expected(error, namespace, created)]
        findings = findings.with_findings(_not_a_fault(error) for error in cluster_errors if error not in expected)
        server_errors, is_by_manager = await self._send_dry_run(sent.object, namespace, stored, findings, expected)
        uncertain = gate_errors if is_by_manager else frozenset()
        return _merge_findings(findings, server_errors, uncertain, {error.path for error in sent.faults})

    async def _has_namespace(self, name: str) -> bool:
        try:
            await self._client.get(NAMESPACES, name, timeout=TIMEOUT)
        except NotFound:
            return self._is_temporary and await self._create_namespace(name)
        except Forbidden:
            pass  # a user who may create JobSets need not have the right to read namespaces
        return True

    async def _create_namespace(self, name: str) -> bool:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await self._client.create(NAMESPACES, body, timeout=TIMEOUT)
        except AlreadyExists:
            pass  # the API server creates its own namespaces shortly after its first answer
        except Invalid:
            return False  # no namespace can have that name
        return True

    async def _send_dry_run(
        self, obj: JSON, namespace: str, stored: JSON | None, findings: Findings, expected: Sequence[FieldError]
    ) -> tuple[list[FieldError], bool]:
        """The API server's findings about a JobSet that are not in `findings`, and whether the manager refuses it.

        `expected`: warnings of the manager that are left out. A JobSet without faults may be refused by another policy
        or webhook, or by the manager for a feature gate that is off. If the JobSet has faults, refusals by the API
        server are left out, since `findings` has them.
        """
        if self._is_temporary:  # no webhook sets defaults there
            obj = with_defaults(obj)[0]
        body = {key: value for key, value in without_nulls(obj).items() if key != "status"}
        warnings: list[str] = []
        options: WriteOptions = {
            "namespace": namespace,
            "dry_run": True,
            "field_validation": "Ignore",  # unknown fields are found before, and must not hide other faults
            "timeout": TIMEOUT,
            "warnings": warnings,
        }
        server_errors: list[FieldError] = []
        is_by_manager = False
        try:
            if stored is None:
                await self._client.create(JOBSETS, body, **options)
            else:
                # A server-side apply would refuse a value of a wrong type before admission gets the object.
                await self._client.patch(JOBSETS, stored["metadata"]["name"], body, **options)
        except ApiError as error:
            if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.code == HTTPStatus.TOO_MANY_REQUESTS:
                raise
            is_by_manager = is_by_our_webhook(error.message)
            if not findings.errors or is_by_admission(error.message):
                server_errors = [
                    fault for fault in _refusal(error) if not (findings.errors and is_count_of_more(fault.verbatim))
                ]
        known_warnings = {
            RULE_SUFFIX.sub("", text) for text in (*warning_texts(findings.warnings), *warning_texts(expected))
        }
        texts = (text for text in dict.fromkeys(warnings) if not MORE_WARNINGS.fullmatch(text))
        texts = (text for text in texts if RULE_SUFFIX.sub("", text) not in known_warnings)
        server_warnings = map(_warning_of, texts)
        new_warnings = [error for error in server_warnings if not _is_found_with_details(error, findings.warnings)]
        return [*server_errors, *new_warnings], is_by_manager

    async def _stored_jobset(self, namespace: str, name: object) -> JSON | None:
        if not isinstance(name, str) or not name or "/" in name:
            return None
        try:
            return await self._client.get(JOBSETS, name, namespace=namespace, timeout=TIMEOUT)
        except NotFound:
            return None


def _is_expected(error: FieldError, namespace: str, created: AbstractSet[Named]) -> bool:
    """Whether the error says that an object in `created` is missing."""
    resource = RESOURCE_BY_RULE.get(error.rule) if error.rule else None
    return resource is not None and any(
        (resource.kind, namespace_of_object, error.value) in created for namespace_of_object in ("", namespace)
    )


def _without_bad_metadata(sent: PreparedManifest) -> PreparedManifest:
    """The JobSet without invalid labels and annotations, since the API server refuses them before admission."""
    metadata, invalid = sent.object["metadata"], {error.path for error in sent.faults}
    valid = {
        field: {key: value for key, value in metadata[field].items() if Path(("metadata", field, key)) not in invalid}
        for field in ("labels", "annotations")
        if field in metadata
    }
    return PreparedManifest({**sent.object, "metadata": {**metadata, **valid}}, sent.faults)


def _errors_only_in(findings: Findings, other: Findings) -> frozenset[tuple[Path, Rule | None]]:
    """Path and rule of the errors in `findings` that `other` does not have."""
    return frozenset((e.path, e.rule) for e in findings.errors) - {(e.path, e.rule) for e in other.errors}


def _merge_findings(
    findings: Findings,
    server_errors: Sequence[FieldError],
    uncertain: AbstractSet[tuple[Path, Rule | None]],
    unsent: AbstractSet[Path],
) -> Findings:
    """The findings of the engine and the errors of the cluster, each fault once.

    Findings in `uncertain` count only if the cluster has them, too. Values at paths in `unsent` were not sent.
    """
    texts = {(error.path, error.body) for error in server_errors}
    certain = [e for e in findings.errors if (e.path, e.rule) not in uncertain or (e.path, e.body) in texts]
    texts_by_path = {
        path: [error.body for error in certain if error.path == path] for path in {e.path for e in server_errors}
    }
    new = [
        error
        for error in server_errors
        if error.path not in unsent
        and not any(text.startswith(error.body) for text in texts_by_path[error.path])
        and not _is_found_with_details(error, certain)
    ]
    return Findings(tuple(certain), findings.warnings, findings.object).with_findings(new)


def _is_found_with_details(server_error: FieldError, findings: Sequence[FieldError]) -> bool:
    """Whether `findings` has the same finding as the manager, with names and amounts that the manager leaves out."""
    text = server_error.verbatim or server_error.detail
    at_path = (error for error in findings if error.rule is not None and error.path == server_error.path)
    rules = (DETAILED_RULES.get(error.rule) for error in at_path if error.rule is not None)
    return any(rule is not None and _wording(rule.message).search(text) for rule in rules)


@cache
def _wording(message: str) -> re.Pattern[str]:
    """A pattern for the message of a rule, with any text in its placeholders."""
    texts = with_placeholders(message, lambda _: "\0").split("\0")
    return re.compile(".*".join(map(re.escape, texts)), re.DOTALL)


def _refusal(error: ApiError) -> list[FieldError]:
    """Findings about the refusal of a JobSet by a policy, a webhook, for a missing right, or for lack of dry runs."""
    match error.code:
        case HTTPStatus.CONFLICT:
            return []
        case HTTPStatus.FORBIDDEN if lacks_right(error.message):
            return [JOBSET_NOT_SENT.at(_AT_NAME, why="you may not write them here")]
        case HTTPStatus.BAD_REQUEST if "does not support dry run" in error.message:
            return [JOBSET_NOT_SENT.at(_AT_NAME, why=error.message)]
        case _:
            return list(map(_fault_of, stated_faults(error))) or [JOBSET_REFUSED.at(_AT_NAME, why=error.message)]


def _fault_of(fault: StatedFault) -> FieldError:
    """The finding about a fault in a refusal. Messages of the manager and of JobSetPolicies contain a fix already."""
    if not fault.is_ours:
        return JOBSET_REFUSED.at(fault.path, why=fault.text)
    return FieldError(fault.path, JOBSET_REFUSED.type, rule=JOBSET_REFUSED, verbatim=fault.text)


def _warning_of(text: str) -> FieldError:
    """The finding about a warning of the cluster, with its path if the text begins with a complete path."""
    path, detail = path_and_text(text)
    if path is None:
        return CLUSTER_WARNS.at(_AT_NAME, text=text)
    return FieldError(path, CLUSTER_WARNS.type, detail=detail, rule=CLUSTER_WARNS)


def _not_a_fault(error: FieldError) -> FieldError:
    """The finding, or a note if a child was refused because the user lacks a right."""
    if error.rule is not REFUSED or not lacks_right(error.words["why"]):
        return error
    subject = f"{error.words['what']} not checked: you may not create them here"
    return NOT_ALLOWED.at(error.path, error.value, subject=subject)


def _as_update(obj: JSON, stored: JSON) -> JSON:
    """The manifest with those fields of the stored object that only the API server writes."""
    stored_fields = {key: stored["metadata"][key] for key in ("uid", "creationTimestamp") if key in stored["metadata"]}
    new = {**obj, "metadata": {**(obj.get("metadata") or {}), **stored_fields}}
    return {**new, "status": stored["status"]} if "status" in stored else new


def failure_text(error: Exception) -> str:
    """The message about a request without an answer."""
    if isinstance(error, TimeoutError):
        return f"the API server did not answer within {TIMEOUT:g} s"
    return str(error)
