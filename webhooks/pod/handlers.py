"""The two admission handlers of pods, ready for `webhooks.router.create_app`.

The webhook configurations select the pods of JobSets, and the handlers do not change any other pod. The handlers refuse
pods that can never run, and gate a follower that has to wait.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from api import keys
from api.exclusive import Domain, NoDomain, TermForm
from api.spares import promises_to, rank_of
from webhooks.offload import compute
from webhooks.pod.mutate import mutations
from webhooks.pod.subject import Pod, UnreadablePodError, decode_pod
from webhooks.pod.validate import impossible_reason, is_stranded, stranded_message
from webhooks.review import AdmissionRequest, AdmissionResponse, Handler, namespace_refusal, request_refusal

MUTATE_PATH = "/mutate--v1-pod"
VALIDATE_PATH = "/validate--v1-pod"


class Domains(Protocol):
    """The domains of exclusive Jobs. `job_uid`: the UID of the Job."""

    def find(self, namespace: str, job_uid: str, topology: str) -> Domain | NoDomain:
        """The domain as it is known now."""

    async def wait_for_domain(self, namespace: str, job_uid: str, topology: str) -> Domain | NoDomain:
        """The domain after a short wait, well below the webhook's timeout."""


class Promises(Protocol):
    """The pods to which a JobSet has promised places of spares."""

    async def has_promised(self, namespace: str, jobset: str, uid: str, promises: frozenset[str]) -> bool:
        """Whether the JobSet has made one of these promises."""


def pod_handlers(
    domains: Domains, term_form: Callable[[], TermForm], promises: Promises | None = None
) -> Mapping[str, Handler]:
    """Handlers by URL path. `term_form` returns the form of anti-affinity that this API server supports.

    `promises` None: there are no spares.
    """
    admission = _Admission(domains, term_form, promises)
    return {MUTATE_PATH: admission.mutate, VALIDATE_PATH: admission.validate}


@dataclass(frozen=True, slots=True)
class _Admission:
    domains: Domains
    term_form: Callable[[], TermForm]
    promises: Promises | None

    async def mutate(self, request: AdmissionRequest) -> AdmissionResponse:
        """Add label, affinity terms, node selector or gate; refuse pods that can never run."""
        pod = await _pod_or_answer(request)
        if isinstance(pod, AdmissionResponse):
            return pod
        domain = None
        if pod.is_follower:
            domain = await self.domains.wait_for_domain(request.namespace, pod.job_uid, pod.topology or "")
        is_promised = await self._is_promised(request.namespace, pod)
        operations = await compute(mutations, request.object or {}, self.term_form(), domain, is_promised)
        return AdmissionResponse(patch=tuple(operations))

    async def _is_promised(self, namespace: str, pod: Pod) -> bool:
        """Whether the JobSet has promised the pod the place of a spare."""
        labels = pod.metadata.labels
        if self.promises is None or not labels.get(keys.SPARES) or pod.spec.node_name:
            return False
        name, uid = labels.get(keys.JOBSET_NAME, ""), labels.get(keys.JOBSET_UID, "")
        promises = promises_to(rank_of(pod.name), exclusive=pod.topology is not None)
        return pod.needs_mutation and bool(name) and await self.promises.has_promised(namespace, name, uid, promises)

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        """Refuse a follower that would be scheduled anywhere (docs/reference/pod-webhooks.md#what-is-refused)."""
        pod = await _pod_or_answer(request)
        if isinstance(pod, AdmissionResponse):
            return pod
        if not is_stranded(pod):
            return AdmissionResponse()
        domain = self.domains.find(request.namespace, pod.job_uid, pod.topology or "")
        return request_refusal(403, "Forbidden", stranded_message(pod, domain))


async def _pod_or_answer(request: AdmissionRequest) -> Pod | AdmissionResponse:
    """The pod of the request, or the answer if nothing is left to decide."""
    if request.operation != "CREATE":
        return AdmissionResponse()
    if request.object is None:
        return request_refusal(400, "BadRequest", "request.object is missing from a review of CREATE")
    if namespace_fault := namespace_refusal(request):
        return namespace_fault
    try:
        pod = await compute(decode_pod, request.object)
    except UnreadablePodError as error:
        return request_refusal(400, "BadRequest", str(error))
    if text := impossible_reason(pod):
        return request_refusal(403, "Forbidden", text)
    return pod
