"""The two admission handlers of JobSets, ready for `webhooks.router.create_app`.

The mutating webhook sees an object before the API server's schema does, and what that refuses no validating webhook
gets to see. So it refuses, with every fault at once, exactly what the schema would refuse a moment later with its own
faults alone. All else is left to the validating webhook, which is complete by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from api.meta import JSON
from webhooks.jobset.answers import answer
from webhooks.jobset.cluster import ClusterChecks
from webhooks.jobset.default import with_defaults
from webhooks.jobset.engine import Engine, Findings
from webhooks.offload import compute
from webhooks.review import AdmissionRequest, AdmissionResponse, Handler, HandlerAnswer, denied

MUTATE_PATH = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
VALIDATE_PATH = "/validate-jobset-x-k8s-io-v1alpha2-jobset"


def jobset_handlers(engine: Engine, cluster: ClusterChecks | None = None) -> Mapping[str, Handler]:
    """Handlers by URL path; without `cluster` they check the object alone."""
    admission = _Admission(engine, cluster)
    return {MUTATE_PATH: admission.mutate, VALIDATE_PATH: admission.validate}


@dataclass(frozen=True, slots=True)
class _Admission:
    engine: Engine
    cluster: ClusterChecks | None

    def mutate(self, request: AdmissionRequest) -> HandlerAnswer:
        """Set defaults; refuse what the schema is about to refuse (docs/reference/defaulting.md)."""
        if answer_at_once := _without_check(request):
            return answer_at_once
        old = _stored(request)
        obj, operations = with_defaults(request.object or {}, old)
        if self.engine.may_hide(obj, old):
            findings = self._check(obj, old)
            if findings.hides:
                return self._answer(findings, obj, old)
        return AdmissionResponse(patch=tuple(operations))

    def validate(self, request: AdmissionRequest) -> HandlerAnswer:
        """Refuse what breaks a rule, all faults in one answer (docs/reference/validation.md)."""
        if answer_at_once := _without_check(request):
            return answer_at_once
        old = _stored(request)
        findings = self._check(request.object or {}, old)
        return self._answer(findings, findings.object, old)

    def _check(self, obj: JSON, old: JSON | None) -> Findings:
        """Findings about an object that is stored as it is."""
        return self.engine.create(obj, defaults=False) if old is None else self.engine.update(old, obj)

    def _answer(self, findings: Findings, obj: JSON, old: JSON | None) -> HandlerAnswer:
        if self.cluster is None or not self.cluster.has_questions(findings.object, old):
            return answer(findings, obj)
        return self._answer_with(self.cluster, findings, obj, old)

    async def _answer_with(
        self, cluster: ClusterChecks, findings: Findings, obj: JSON, old: JSON | None
    ) -> AdmissionResponse:
        """The answer with the findings of the cluster."""
        if old is None:
            more = await cluster.create(findings.object, findings.errors, self.engine.gates)
        else:
            more = await cluster.update(old, findings.object, findings.errors, self.engine.gates)
        return await compute(answer, findings.and_also(more), obj)


def _stored(request: AdmissionRequest) -> JSON | None:
    return request.old_object if request.operation == "UPDATE" else None


def _without_check(request: AdmissionRequest) -> AdmissionResponse | None:
    """The answer to a review without anything to check; None for one that has to be checked."""
    if request.operation not in {"CREATE", "UPDATE"}:
        return AdmissionResponse()
    if request.object is None:
        return denied(400, "BadRequest", f"request.object is missing from a review of {request.operation}")
    if request.operation == "UPDATE" and request.old_object is None:
        return denied(400, "BadRequest", "request.oldObject is missing from a review of UPDATE")
    return None
