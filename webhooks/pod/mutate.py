"""Changes of a pod of a JobSet, as JSON-patch operations. Pure; refuses nothing.

See docs/reference/pod-webhooks.md#what-a-pod-gets.

The Go JobSet refuses a follower while its leader has no domain. This webhook gates the follower: it is created once,
and the controller lifts the gate when the domain is known.
"""

from api import keys
from api.exclusive import Domain, NoDomain, TermForm, affinity_term, anti_affinity_term, priority_label
from kube.model.field import SPEC, Path
from kube.model.jsontree import dig
from kube.model.meta import JSON
from webhooks.json_patch import PatchDraft
from webhooks.pod.subject import Pod, decode_pod

_LABELS = Path(("metadata", "labels"))
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_AFFINITY = SPEC.at("affinity", "podAffinity", _REQUIRED)
_ANTI_AFFINITY = SPEC.at("affinity", "podAntiAffinity", _REQUIRED)
_GATES = SPEC.at("schedulingGates")


def mutations(
    pod: JSON,
    term_form: TermForm,
    domain: Domain | NoDomain | None,
    is_promised: bool = False,
) -> list[JSON]:
    """Operations on the pod of the request; empty if the pod needs no changes. Raises `UnreadablePodError`.

    `domain` is the domain of a follower's Job. `is_promised`: the pod has to wait for the place of a spare. Null
    parents count as absent, as in the API.
    """
    subject = decode_pod(pod)
    if not subject.needs_mutation:
        return []
    draft = PatchDraft(pod)
    if subject.spec.priority is not None:
        draft.set_value(_LABELS.at(keys.PRIORITY), priority_label(subject.spec.priority))
    if is_promised:
        draft.append(_GATES, {"name": keys.SPARE_GATE})
    if subject.topology is not None:
        if subject.is_leader:
            _patch_leader(draft, subject, subject.topology, term_form)
        else:
            _patch_follower(draft, subject, subject.topology, domain)
    return draft.operations


def _patch_leader(draft: PatchDraft, pod: Pod, topology: str, term_form: TermForm) -> None:
    job_key = pod.metadata.labels.get(keys.JOB_KEY, "")
    priority = dig(draft.object, *_LABELS.parts, keys.PRIORITY)
    draft.append(_AFFINITY, affinity_term(topology, job_key))
    terms_by_form = {each: anti_affinity_term(topology, job_key, priority, each) for each in TermForm}
    if not any(term in pod.spec.affinity.pod_anti_affinity.required for term in terms_by_form.values()):
        draft.append(_ANTI_AFFINITY, terms_by_form[term_form])


def _patch_follower(draft: PatchDraft, pod: Pod, topology: str, domain: Domain | NoDomain | None) -> None:
    is_gated = pod.is_gated
    if isinstance(domain, Domain):
        draft.set_value(SPEC.at("nodeSelector", topology), domain.value)
    elif not pod.spec.node_name:  # the API refuses gates of a bound pod
        draft.append(_GATES, {"name": keys.PLACEMENT_GATE})
        is_gated = True
    if is_gated:
        draft.set_value(_LABELS.at(keys.AWAITS_LEADER), "true")
