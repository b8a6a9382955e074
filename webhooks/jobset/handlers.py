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
from webhooks.review import AdmissionRequest, AdmissionResponse, Handler, denied

MUTATE_PATH = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
VALIDATE_PATH = "/validate-jobset-x-k8s-io-v1alpha2-jobset"


def jobset_handlers(engine: Engine, cluster: ClusterChecks | None = None) -> Mapping[str, Handler]:
    """Handlers by URL path; without a cluster they judge the object alone."""
    admission = _Admission(engine, cluster)
    return {MUTATE_PATH: admission.mutate, VALIDATE_PATH: admission.validate}


@dataclass(frozen=True, slots=True)
class _Admission:
    engine: Engine
    cluster: ClusterChecks | None

    async def mutate(self, request: AdmissionRequest) -> AdmissionResponse:
        """Set the defaults of behaviour section 2; refuse what the schema is about to refuse."""
        if request.operation not in {"CREATE", "UPDATE"}:
            return AdmissionResponse()
        if missing := _missing(request):
            return missing
        old = _stored(request)
        obj, operations = await compute(with_defaults, request.object or {}, old)
        if await compute(self.engine.may_hide, obj, old):
            findings = await compute(self._check, obj, old)
            if findings.hides:
                return await compute(answer, await self._ask_cluster(findings, old), obj)
        return AdmissionResponse(patch=tuple(operations))

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        """Refuse what behaviour section 3 refuses, all faults in one answer."""
        if request.operation not in {"CREATE", "UPDATE"}:
            return AdmissionResponse()
        if missing := _missing(request):
            return missing
        old = _stored(request)
        findings = await compute(self._check, request.object or {}, old)
        return await compute(answer, await self._ask_cluster(findings, old), findings.object)

    def _check(self, obj: JSON, old: JSON | None) -> Findings:
        """Findings about an object that is stored as it is."""
        return self.engine.create(obj, defaults=False) if old is None else self.engine.update(old, obj)

    async def _ask_cluster(self, findings: Findings, old: JSON | None) -> Findings:
        if self.cluster is None:
            return findings
        if old is None:
            more = await self.cluster.create(findings.object, findings.errors, self.engine.gates)
        else:
            more = await self.cluster.update(old, findings.object, findings.errors, self.engine.gates)
        return findings.and_also(more)


def _stored(request: AdmissionRequest) -> JSON | None:
    return request.old_object if request.operation == "UPDATE" else None


def _missing(request: AdmissionRequest) -> AdmissionResponse | None:
    if request.object is None:
        return denied(400, "BadRequest", f"request.object is missing from a review of {request.operation}")
    if request.operation == "UPDATE" and request.old_object is None:
        return denied(400, "BadRequest", "request.oldObject is missing from a review of UPDATE")
    return None
