"""Checks JobSets against the JobSetPolicies of the cluster, and counts the decisions.

The package `policy` has the rules. If a rule fails by a bug, the remaining rules are still checked, and the failure is
reported or refuses the JobSet (`failurePolicy` in docs/policy/admission.md).
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from api.features import FeatureGates
from kube.clock import now
from kube.errors import KubeError, raised_at
from kube.model.field import SPEC, ErrorType, FieldError, Rule, Severity, shorten
from kube.model.jsontree import dig
from kube.model.meta import JSON
from policy.counts import MATCHED, SET
from policy.defaults import defaults_for
from policy.evaluate import PolicySource, Violation, matches, violations
from policy.exception_types import JobSetPolicyException
from policy.exceptions import excused_rules
from policy.judged import JudgedJobSet, Namespace
from policy.kinds import PolicyId
from policy.recorded import recorded_defaults
from policy.sentences import source
from policy.types import AUDIT_KEY, FAIL, MAX_AUDITED_TEXT, JobSetPolicy
from webhooks.jobset.answers import warning_texts
from webhooks.jobset.engine import Findings, spec_without_suspend
from webhooks.jobset.policy_defaults import RestoredDefault, keep_defaults, restored_default_warnings, set_defaults
from webhooks.jobset.subject import Unreadable, subject_of
from webhooks.json_patch import PatchDraft
from webhooks.metrics import PolicyMetrics
from webhooks.offload import compute, work
from webhooks.review import AdmissionRequest, AdmissionResponse, request_refusal

log = logging.getLogger(__name__)

MAX_AUDITED_VIOLATIONS = 20
"""The most violations of one JobSet that an audit annotation lists. The annotation counts further violations."""
ERROR: Final = "Error"
"""The action of a rule that could not be checked."""
EXCEPTED: Final = "Excepted"
"""The action of a violated rule from which an exception exempts."""
MATCH: Final = "match"
"""Stands for a rule's name in decisions about whether a policy matches the JobSet."""

DEFAULTS: Final = "defaults"
"""Stands for a rule's name in decisions about the defaults of a policy."""

RULE_UNCHECKED = Rule(
    "policy-rule-unchecked",
    ErrorType.INTERNAL,
    "policy {policy}: {rule} was not checked: internal error ({error})",
    "",
    source("admission"),
    severity=Severity.WARNING,
)

DEFAULTS_NOT_SET = Rule(
    "policy-defaults-not-set",
    ErrorType.INTERNAL,
    "policy {policy}: defaults were not set: internal error ({error})",
    "",
    source("defaults"),
    severity=Severity.WARNING,
)


_STEPS_PER_POLICY = 8
"""Steps of work for the rules of one policy, for each step of a check of the object."""

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A rule that could not be checked, or defaults that could not be set. `error` is the type of the exception."""

    policy: JobSetPolicy
    rule: str
    error: str

    @property
    def refuses(self) -> bool:
        """Whether a JobSet must not be admitted without the rule."""
        return self.policy.spec.denies and self.policy.spec.failure_policy == FAIL

    @property
    def warns(self) -> bool:
        """Whether the author gets a warning: unless the policy only audits."""
        return self.policy.spec.denies or self.policy.spec.warns

    @property
    def warning(self) -> FieldError:
        rule = DEFAULTS_NOT_SET if self.rule == DEFAULTS else RULE_UNCHECKED
        return rule.at(SPEC, policy=self.policy.metadata.name, rule=self.rule, error=self.error)

    @property
    def location(self) -> str:
        """The rule or the defaults that failed, for the message of a refusal."""
        name = "the defaults" if self.rule == DEFAULTS else f"rule {self.rule}"
        return f"{name} of policy {self.policy.metadata.name}"


@dataclass(frozen=True, slots=True)
class ExceptedRule:
    """A rule that a JobSet breaks, and the exception that allows it."""

    policy: JobSetPolicy
    rule: str
    exception: str
    uid: str


@dataclass(slots=True)
class Judgement:
    """The outcome of all policies for one JobSet."""

    violations: list[Violation] = field(default_factory=list)
    failures: list[RuleFailure] = field(default_factory=list)
    excepted_rules: list[ExceptedRule] = field(default_factory=list)
    matching_policies: list[PolicyId] = field(default_factory=list)
    """The policies that match the JobSet."""

    @property
    def findings(self) -> list[FieldError]:
        """Findings for the author of the JobSet, of policies that deny or warn."""
        errors = [each.error for each in self.violations if each.policy.spec.denies or each.policy.spec.warns]
        return errors + [failure.warning for failure in self.failures if failure.warns]

    def answer(self, response: AdmissionResponse) -> AdmissionResponse:
        """The answer of all checks, with the audit annotations. It becomes a refusal if a rule with Deny failed."""
        failure = next((failure for failure in self.failures if failure.refuses), None)
        if failure is not None and response.allowed:
            refusal = request_refusal(500, "InternalError", f"internal error ({failure.error}) in {failure.location}")
            response = msgspec.structs.replace(refusal, warnings=response.warnings)
        return msgspec.structs.replace(
            response, audit_annotations={**response.audit_annotations, **self._audit_annotations()}
        )

    def _audit_annotations(self) -> Mapping[str, str]:
        entries: list[dict[str, Any]] = [
            {
                "policy": each.policy.metadata.name,
                "rule": each.rule,
                "path": str(each.error.path),
                "message": shorten(each.error.complaint, MAX_AUDITED_TEXT),
            }
            for each in self.violations
            if each.policy.spec.audits
        ]
        entries += [
            {"policy": failure.policy.metadata.name, "rule": failure.rule, "error": failure.error}
            for failure in self.failures
            if failure.policy.spec.audits
        ]
        entries += [
            {"policy": each.policy.metadata.name, "rule": each.rule, "exception": each.exception}
            for each in self.excepted_rules
        ]
        if not entries:
            return {}
        more = {"more": len(entries) - MAX_AUDITED_VIOLATIONS} if len(entries) > MAX_AUDITED_VIOLATIONS else {}
        return {AUDIT_KEY: msgspec.json.encode({"violations": entries[:MAX_AUDITED_VIOLATIONS], **more}).decode()}

    def count(self, metrics: PolicyMetrics) -> None:
        """Count each decision once."""
        decisions = {
            (each.policy.id, each.rule, action)
            for each in self.violations
            for action in each.policy.spec.validation_actions
        }
        decisions |= {(failure.policy.id, failure.rule, ERROR) for failure in self.failures}
        decisions |= {(each.policy.id, each.rule, EXCEPTED) for each in self.excepted_rules}
        decisions |= {(policy, MATCH, MATCHED) for policy in self.matching_policies}
        for decision in sorted(decisions):
            metrics.count_decision(*decision)


@dataclass(slots=True)
class FilledJobSet:
    """A JobSet with the defaults of `policies`, and the operations that set them.

    `restored_defaults`: defaults that an update has removed and that are set again.
    """

    object: JSON
    operations: list[JSON] = field(default_factory=list)
    policies: tuple[PolicyId, ...] = ()
    failures: list[RuleFailure] = field(default_factory=list)
    restored_defaults: list[RestoredDefault] = field(default_factory=list)

    def answer(self, response: AdmissionResponse) -> AdmissionResponse:
        """The answer of the webhook, with warnings about defaults that were set again or could not be computed."""
        judgement = Judgement(failures=self.failures)
        warnings = (
            *response.warnings,
            *warning_texts([*judgement.findings, *restored_default_warnings(self.restored_defaults)]),
        )
        return judgement.answer(msgspec.structs.replace(response, warnings=warnings))


class PolicyChecks:
    """Judges JobSets by the policies in force, and sets the defaults of these policies in new JobSets.

    `trusted_users`: user names of the controllers of queues. Their changes at the admission of a JobSet are not judged.
    `clock`: gives the time at which exceptions end.
    """

    def __init__(
        self,
        source: PolicySource,
        metrics: PolicyMetrics,
        gates: FeatureGates,
        trusted_users: Iterable[str] = (),
        clock: Clock = now,
    ) -> None:
        self.source = source
        self._metrics = metrics
        self._gates = gates
        self._trusted_users = frozenset(trusted_users)
        self._clock = clock

    @property
    def has_defaults(self) -> bool:
        """Whether a new JobSet may get defaults."""
        return any(policy.spec.defaults is not None for policy in self.source.in_force)

    async def fill_defaults(self, request: AdmissionRequest, obj: JSON) -> FilledJobSet:
        """A new JobSet with the defaults of the policies in force."""
        policies = self.source.in_force
        try:
            namespace = await self.source.namespace(request.namespace)
        except (KubeError, TimeoutError) as error:
            log.warning("defaults of policies cannot be set: the namespace cannot be read: %s", error)
            failures = [
                RuleFailure(policy, DEFAULTS, type(error).__name__)
                for policy in policies
                if policy.spec.defaults is not None
            ]
            filled = FilledJobSet(obj, failures=failures)
        else:
            filled = await compute(self._with_defaults, policies, namespace, obj)
        Judgement(failures=filled.failures).count(self._metrics)
        for policy in filled.policies:
            self._metrics.count_decision(policy, DEFAULTS, SET)
        return filled

    def may_restore_defaults(self, request: AdmissionRequest) -> bool:
        """Whether an update may lack a default that has to be restored. Updates by controllers of queues never do."""
        if request.stored_object is None or not self.has_defaults or request.user_info.username in self._trusted_users:
            return False
        return bool(recorded_defaults(request.stored_object) or recorded_defaults(request.object))

    async def restore_defaults(self, request: AdmissionRequest, obj: JSON) -> FilledJobSet:
        """A changed JobSet with those of its earlier defaults that the policies in force would still set."""
        try:
            namespace = await self.source.namespace(request.namespace)
        except (KubeError, TimeoutError) as error:
            log.warning("defaults of policies are not kept: the namespace cannot be read: %s", error)
            return FilledJobSet(obj)
        return await compute(self._restore_defaults, self.source.in_force, namespace, obj, request.stored_object or {})

    def _restore_defaults(
        self, policies: Sequence[JobSetPolicy], namespace: Namespace, obj: JSON, old: JSON
    ) -> FilledJobSet:
        def note_failure(policy: JobSetPolicy, error: Exception) -> None:
            _logged_failure(policy, DEFAULTS, error)

        draft = PatchDraft(obj)
        restored_defaults = keep_defaults(
            draft, old, defaults_for(policies, obj, namespace, self._gates, on_failure=note_failure)
        )
        return FilledJobSet(draft.object, draft.operations, restored_defaults=restored_defaults)

    def _with_defaults(self, policies: Sequence[JobSetPolicy], namespace: Namespace, obj: JSON) -> FilledJobSet:
        failures: list[RuleFailure] = []

        def note_failure(policy: JobSetPolicy, error: Exception) -> None:
            failures.append(_logged_failure(policy, DEFAULTS, error))

        draft = PatchDraft(obj, work())
        record = set_defaults(draft, defaults_for(policies, obj, namespace, self._gates, on_failure=note_failure))
        set_by = tuple(policy.id for policy in policies if policy.metadata.name in record)
        return FilledJobSet(draft.object, draft.operations, set_by, failures)

    def may_concern(self, request: AdmissionRequest) -> bool:
        """Whether policies may have to judge the JobSet: a fast check, of which only False is certain."""
        old, new = request.stored_object, request.object
        if not self.source.in_force or old is None:
            return bool(self.source.in_force)
        if request.user_info.username in self._trusted_users or dig(new, "metadata", "deletionTimestamp") is not None:
            return False
        return _judged_parts(old) != _judged_parts(new)

    async def judge(self, request: AdmissionRequest, findings: Findings) -> Judgement:
        """The verdict of the policies in force about the JobSet of a review."""
        policies = self.source.in_force
        try:
            namespace = await self.source.namespace(request.namespace)
        except (KubeError, TimeoutError) as error:
            log.warning("policies cannot be checked: the namespace cannot be read: %s", error)
            judgement = Judgement(failures=[RuleFailure(policy, MATCH, type(error).__name__) for policy in policies])
        else:
            exceptions = self.source.exceptions(request.namespace)
            judgement = await compute(
                self._judgement, policies, namespace, findings.object, request.stored_object, exceptions, self._clock()
            )
        judgement.count(self._metrics)
        if not request.dry_run:
            for name, uid in sorted({(each.exception, each.uid) for each in judgement.excepted_rules}):
                self._metrics.record_exception_use(request.namespace, name, uid)
        return judgement

    def _judgement(
        self,
        policies: Sequence[JobSetPolicy],
        namespace: Namespace,
        new: JSON,
        old: JSON | None,
        exceptions: Sequence[JobSetPolicyException],
        time: datetime,
    ) -> Judgement:
        judgement = Judgement()

        def is_excepted(policy: JobSetPolicy, rule: str) -> bool:
            exception = excused.get((policy.metadata.name, rule))
            if exception is not None:
                judgement.excepted_rules.append(ExceptedRule(policy, rule, exception, uids[exception]))
            return exception is not None

        def note_failure(policy: JobSetPolicy, rule: str, error: Exception) -> None:
            judgement.failures.append(_logged_failure(policy, rule, error))

        judged = self._decode(new)
        if judged is not None:
            judged_before = None if old is None else self._decode(old)
            labels = judged.js.metadata.labels
            judgement.matching_policies = [each.id for each in policies if matches(each, labels, namespace)]
            uids = {each.metadata.name: each.metadata.uid for each in exceptions}
            excused = excused_rules(exceptions, policies, judged, namespace, time)
            judgement.violations = violations(
                policies, judged, namespace, judged_before, is_excepted=is_excepted, on_failure=note_failure
            )
        return judgement

    def _decode(self, obj: JSON) -> JudgedJobSet | None:
        """The JobSet; None if it cannot be decoded, which the engine reports for a new object."""
        try:
            decoded = subject_of(obj, self._gates, work=work())
        except Unreadable:
            return None
        work().spend(decoded.steps_per_check * _STEPS_PER_POLICY * len(self.source.in_force))
        return JudgedJobSet(decoded.js)


def _logged_failure(policy: JobSetPolicy, rule: str, error: Exception) -> RuleFailure:
    """Log a failure of a rule and return it.

    The exception's text may quote the object, so only its type and location are logged.
    """
    name = type(error).__name__
    log.error("policy=%s rule=%s failed error=%s at=%s", policy.metadata.name, rule, name, raised_at(error))
    return RuleFailure(policy, rule, name)


def _judged_parts(obj: JSON | None) -> tuple[Any, ...]:
    """The parts of an object that rules and selectors of policies read."""
    return spec_without_suspend(obj), dig(obj, "metadata", "labels"), dig(obj, "metadata", "annotations")
