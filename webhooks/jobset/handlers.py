"""The two admission handlers of JobSets, ready for `webhooks.router.create_app`. Pure but for being awaitable."""

from collections.abc import Mapping

from api.features import FeatureGates
from api.field import FieldError, invalid_status
from api.keys import GROUP, KIND
from api.meta import JSON
from webhooks.jobset.default import with_defaults
from webhooks.jobset.validate_create import create_errors
from webhooks.jobset.validate_update import update_errors
from webhooks.review import AdmissionRequest, AdmissionResponse, Handler, denied

MUTATE_PATH = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
VALIDATE_PATH = "/validate-jobset-x-k8s-io-v1alpha2-jobset"


def jobset_handlers(gates: FeatureGates) -> Mapping[str, Handler]:
    """Handlers by URL path."""

    async def validate(request: AdmissionRequest) -> AdmissionResponse:
        return validate_jobset(request, gates)

    return {MUTATE_PATH: mutate_jobset, VALIDATE_PATH: validate}


async def mutate_jobset(request: AdmissionRequest) -> AdmissionResponse:
    """Set the defaults of behaviour section 2; never refuses a JobSet."""
    if request.operation not in {"CREATE", "UPDATE"}:
        return AdmissionResponse()
    if missing := _missing(request):
        return missing
    _, operations = with_defaults(request.object or {}, request.old_object)
    return AdmissionResponse(patch=tuple(operations))


def validate_jobset(request: AdmissionRequest, gates: FeatureGates) -> AdmissionResponse:
    """Refuse what behaviour section 3 refuses, all faults in one answer."""
    if request.operation not in {"CREATE", "UPDATE"}:
        return AdmissionResponse()
    if missing := _missing(request):
        return missing
    new = request.object or {}
    if request.operation == "UPDATE" and request.old_object is not None:
        errors = update_errors(request.old_object, new, gates)
    else:
        errors = create_errors(new, gates)
    return _refusal(errors, new) if errors else AdmissionResponse()


def _missing(request: AdmissionRequest) -> AdmissionResponse | None:
    if request.object is None:
        return denied(400, "BadRequest", f"request.object is missing from a review of {request.operation}")
    if request.operation == "UPDATE" and request.old_object is None:
        return denied(400, "BadRequest", "request.oldObject is missing from a review of UPDATE")
    return None


def _refusal(errors: list[FieldError], obj: JSON) -> AdmissionResponse:
    meta = obj.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    status = invalid_status(errors, group=GROUP, kind=KIND, name=name if isinstance(name, str) else "")
    return AdmissionResponse(allowed=False, status=status)
