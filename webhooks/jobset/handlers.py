"""The two admission handlers of JobSets, ready for `webhooks.router.create_app`.

The API server checks the schema after the mutating webhook and before the validating webhook, and its refusal names
only some of the faults. So the mutating webhook refuses exactly the objects that the schema would refuse, with all
their faults. The validating webhook, which is complete by itself, judges all other objects.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kube.model.field import FieldError
from kube.model.meta import JSON
from webhooks.jobset.answers import jobset_answer, warning_texts
from webhooks.jobset.cluster.checks import ClusterChecks
from webhooks.jobset.copies import write_own_fields
from webhooks.jobset.default import with_defaults
from webhooks.jobset.engine import Engine, Findings
from webhooks.jobset.update.forgotten import restore_fields
from webhooks.jobset.update.validate import REPLACE
from webhooks.json_patch import PatchDraft
from webhooks.offload import compute, work
from webhooks.review import (
    AdmissionRequest,
    AdmissionResponse,
    Handler,
    HandlerAnswer,
    answer_of,
    answer_without_object,
    namespace_refusal,
    request_refusal,
)

if TYPE_CHECKING:  # all rules of policies, which are imported only with their gate
    from webhooks.jobset.policies import FilledJobSet, PolicyChecks

MUTATE_PATH = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
VALIDATE_PATH = "/validate-jobset-x-k8s-io-v1alpha2-jobset"


def jobset_handlers(
    engine: Engine, cluster: ClusterChecks | None = None, policies: "PolicyChecks | None" = None
) -> Mapping[str, Handler]:
    """Handlers by URL path. Without `cluster` and `policies` they check the object alone."""
    admission = _Admission(engine, cluster, policies)
    return {MUTATE_PATH: admission.mutate, VALIDATE_PATH: admission.validate}


@dataclass(frozen=True, slots=True)
class _Admission:
    engine: Engine
    cluster: ClusterChecks | None
    policies: "PolicyChecks | None"

    def mutate(self, request: AdmissionRequest) -> HandlerAnswer:
        """Set defaults; refuse objects that the schema would refuse (docs/reference/defaulting.md)."""
        if answer_at_once := _answer_without_check(request):
            return answer_at_once
        draft, old = PatchDraft(request.object or {}, work()), request.stored_object
        warnings: tuple[str, ...] = ()
        if old is not None:
            warnings = warning_texts(restore_fields(draft, old, request.field_manager))
        obj, defaults = with_defaults(draft.object, old, draft.work)
        operations = [*draft.operations, *defaults]
        policies = self.policies
        if policies is not None and request.stored_object is None and policies.has_defaults:
            return self._mutation_with_policies(policies.fill_defaults, request, obj, operations, warnings)
        if policies is not None and policies.may_restore_defaults(request):
            return self._mutation_with_policies(policies.restore_defaults, request, obj, operations, warnings)
        return self._mutation(request, obj, operations, warnings)

    async def _mutation_with_policies(
        self,
        fill: Callable[[AdmissionRequest, JSON], Awaitable["FilledJobSet"]],
        request: AdmissionRequest,
        obj: JSON,
        operations: list[JSON],
        warnings: tuple[str, ...],
    ) -> AdmissionResponse:
        """The answer about a JobSet that also gets, or keeps, defaults of policies."""
        filled = await fill(request, obj)
        draft = PatchDraft(filled.object, work())
        if filled.operations:
            write_own_fields(draft, is_new=request.stored_object is None)
        operations = [*operations, *filled.operations, *draft.operations]
        response = await compute(self._mutation, request, draft.object, operations, warnings)
        return filled.answer(await answer_of(response))

    def _mutation(
        self, request: AdmissionRequest, obj: JSON, operations: list[JSON], warnings: tuple[str, ...]
    ) -> HandlerAnswer:
        """A refusal if the schema would refuse `obj`; else the patch, and the warnings about restored fields."""
        old = request.stored_object
        if self.engine.may_hide_other_faults(obj, old, work()):
            findings = self._check(obj, old)
            if findings.hides_other_faults:
                return self._answer(request, findings, obj)
        return AdmissionResponse(patch=tuple(operations), warnings=warnings)

    def validate(self, request: AdmissionRequest) -> HandlerAnswer:
        """Refuse a JobSet that breaks a rule, with all faults in one answer (docs/reference/validation.md)."""
        if answer_at_once := _answer_without_check(request):
            return answer_at_once
        old = request.stored_object
        findings = self._check(request.object or {}, old)
        if request.is_by_controller:
            findings = findings.without_warnings(REPLACE)  # this warning has commands for people
        return self._answer(request, findings, findings.object)

    def _check(self, obj: JSON, old: JSON | None) -> Findings:
        """Findings about an object that has its defaults."""
        if old is None:
            return self.engine.findings_about_new(obj, defaults=False, work=work())
        return self.engine.findings_about_update(old, obj, work())

    def _answer(self, request: AdmissionRequest, findings: Findings, obj: JSON) -> HandlerAnswer:
        cluster, policies = self.cluster, self.policies
        if cluster is not None and not cluster.may_send_requests(findings.object, request.stored_object):
            cluster = None
        if policies is not None and not policies.may_concern(request):
            policies = None
        if cluster is None and policies is None:
            return jobset_answer(findings, obj)
        return self._answer_with_all_findings(cluster, policies, request, findings, obj)

    async def _answer_with_all_findings(
        self,
        cluster: ClusterChecks | None,
        policies: "PolicyChecks | None",
        request: AdmissionRequest,
        findings: Findings,
        obj: JSON,
    ) -> AdmissionResponse:
        """The answer, with findings of policies and of the cluster added."""
        judgement = None if policies is None else await policies.judge(request, findings)
        cluster_findings = [] if cluster is None else await self._cluster_findings(cluster, request, findings)
        if judgement is None:
            return await compute(jobset_answer, findings.with_findings(cluster_findings), obj)
        all_findings = findings.with_findings_elsewhere(judgement.findings).with_findings(cluster_findings)
        return judgement.answer(await compute(jobset_answer, all_findings, obj))

    async def _cluster_findings(
        self, cluster: ClusterChecks, request: AdmissionRequest, findings: Findings
    ) -> list[FieldError]:
        old, new, gates = request.stored_object, findings.object, self.engine.gates
        if old is None:
            return await cluster.findings_about_new(new, findings.errors, gates, namespace=request.namespace)
        return await cluster.findings_about_update(
            old, new, findings.errors, gates, namespace=request.namespace, by_controller=request.is_by_controller
        )


def _answer_without_check(request: AdmissionRequest) -> AdmissionResponse | None:
    if answer_at_once := answer_without_object(request):
        return answer_at_once
    if request.operation == "UPDATE" and request.old_object is None:
        return request_refusal(400, "BadRequest", "request.oldObject is missing from a review of UPDATE")
    return namespace_refusal(request)
