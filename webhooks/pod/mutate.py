"""What a pod of a JobSet gets, as JSON-patch operations (behaviour section 4.1). Pure; must not refuse anything.

A follower is not refused while its leader has no domain, as the Go JobSet does, but gated: it is created once, and
the controller lifts the gate when the domain is known.
"""

from dataclasses import dataclass, field
from typing import Any

from api import keys
from api.exclusive import Domain, NoDomain, TermForm, affinity_term, anti_affinity_term, priority_label
from api.field import SPEC, Path
from api.jsontree import dig, set_in
from api.meta import JSON
from webhooks.pod.subject import Pod, read

_LABELS = Path(("metadata", "labels"))
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_AFFINITY = SPEC.at("affinity", "podAffinity", _REQUIRED)
_ANTI_AFFINITY = SPEC.at("affinity", "podAntiAffinity", _REQUIRED)
_GATES = SPEC.at("schedulingGates")


@dataclass(slots=True)
class _Draft:
    """A pod under change: its present state and the operations that led there. The original stays as it is."""

    pod: JSON
    operations: list[JSON] = field(default_factory=list)

    def put(self, path: Path, value: Any) -> None:
        """Set `value`, making the parents that are missing."""
        if dig(self.pod, *path.parts) == value:
            return
        parts = path.parts
        depth = next((n for n in range(1, len(parts)) if dig(self.pod, *parts[:n]) is None), len(parts))
        nested = value
        for part in reversed(parts[depth:]):
            nested = {part: nested}
        self.operations.append({"op": "add", "path": Path(parts[:depth]).pointer, "value": nested})
        self.pod = set_in(self.pod, parts, value)

    def append(self, path: Path, item: JSON) -> None:
        """Add `item` to the end of a list that has it not, making the list where it is missing."""
        present = dig(self.pod, *path.parts)
        if present is None:
            self.put(path, [item])
        elif item not in present:
            self.operations.append({"op": "add", "path": f"{path.pointer}/-", "value": item})
            self.pod = set_in(self.pod, path.parts, [*present, item])


def mutations(pod: JSON, form: TermForm, answer: Domain | NoDomain | None) -> list[JSON]:
    """Operations on the pod as it came; none for a pod that is left alone or has it all.

    `answer` is about the domain of a follower's Job; without one it is not known. Of null parents the API thinks as of
    absent ones, and so does this. Raises `UnreadablePodError`.
    """
    subject = read(pod)
    if not subject.ours:
        return []
    draft = _Draft(pod)
    if subject.spec.priority is not None:
        draft.put(_LABELS.at(keys.PRIORITY), priority_label(subject.spec.priority))
    if subject.topology is not None:
        if subject.leads:
            _lead(draft, subject, subject.topology, form)
        else:
            _follow(draft, subject, subject.topology, answer)
    return draft.operations


def _lead(draft: _Draft, pod: Pod, topology: str, form: TermForm) -> None:
    job_key = pod.metadata.labels.get(keys.JOB_KEY, "")
    priority = dig(draft.pod, *_LABELS.parts, keys.PRIORITY)
    draft.append(_AFFINITY, affinity_term(topology, job_key))
    terms = {known: anti_affinity_term(topology, job_key, priority, known) for known in TermForm}
    if not any(term in pod.spec.affinity.pod_anti_affinity.required for term in terms.values()):
        draft.append(_ANTI_AFFINITY, terms[form])


def _follow(draft: _Draft, pod: Pod, topology: str, answer: Domain | NoDomain | None) -> None:
    gated = pod.gated
    if isinstance(answer, Domain):
        draft.put(SPEC.at("nodeSelector", topology), answer.value)
    elif not pod.spec.node_name:  # the API has no gates for a pod that is bound already
        draft.append(_GATES, {"name": keys.PLACEMENT_GATE})
        gated = True
    if gated:
        draft.put(_LABELS.at(keys.AWAITS_LEADER), "true")
