"""Restores fields that the client of an update has left out because its types do not have them. Pure.

See docs/reference/validation.md#fields-that-a-client-leaves-out.

A client that is built on the types of the Go JobSet, or of an older Kubernetes, reads a JobSet, forgets the fields that
it does not know, and writes the JobSet back without them: with a PUT, or with a merge patch of a whole list, as Kueue
does. It does not intend to remove these fields. In an applied manifest, by kubectl or server-side, absent fields are
intended.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from api.keys import REMOVED_FIELDS
from kube.model.field import SPEC, FieldError, Path
from kube.model.jsontree import dig, items
from kube.model.meta import JSON, LAST_APPLIED
from policy.recorded import ANNOTATION as DEFAULTS
from policy.recorded import DEADLINE, recorded_defaults
from webhooks.jobset.copies import copied_locations
from webhooks.jobset.ignored_rules import MAX_ANNOTATION_LENGTH
from webhooks.jobset.rules import MAX_FINDINGS, Source
from webhooks.json_patch import PatchDraft
from webhooks.work import STEPS_PER_PATH

FORGOTTEN = Source("docs/reference/validation.md#fields-that-a-client-leaves-out").warning(
    "field-put-back",
    "absent in this update, and put back as it was stored",
    "to remove it, apply the manifest without it, or name it in annotation {key}",
)
MAX_RESTORED_FIELDS = 1000
"""The most fields that are put back in one object. Further absent fields stay absent: they are refused, or removed."""
_USER, _FILES = frozenset({"user"}), frozenset({"defaultUser"})
_CONTAINER = frozenset({"restartPolicyRules"})
NEWER_FIELDS: Mapping[str, frozenset[str]] = {
    "clusterTrustBundle": _USER,
    "configMap": _FILES,
    "containers": _CONTAINER,
    "downwardAPI": _FILES,
    "emptyDir": frozenset({"mode"}),
    "ephemeralContainers": _CONTAINER,
    "grpc": frozenset({"mode"}),
    "httpGet": frozenset({"protocol"}),
    "initContainers": _CONTAINER,
    "items": _USER,
    "podCertificate": _USER,
    "projected": _FILES,
    "secret": _FILES,
    "serviceAccountToken": _USER,
    "sources": frozenset({"podCertificate"}),
    "spec": frozenset({"evictionResponders", "hostnameOverride", "scheduling", "schedulingGroup"}),
    "valueFrom": frozenset({"fileKeyRef"}),
    "volumeMounts": frozenset({"bindMountOptions"}),
}
"""The fields of Jobs and pods that Kubernetes 1.37 has and 1.33 lacks, by the member that contains them.

`make test-kubernetes VERSION=1.33` compares them with the API descriptions of API servers of both versions."""


def restore_fields(draft: PatchDraft, old: JSON, field_manager: str = "") -> list[FieldError]:
    """Restore fields that the client has left out. Returns warnings about the first of them.

    `old` is the stored object, `field_manager` the field manager of the request.
    """
    new = draft.object
    if _is_applied(old, new, field_manager) or dig(old, "spec") == dig(new, "spec"):
        return []
    removed_fields = _removed_on_purpose(old, new)
    own_fields = (
        (location, path) for location, path in _own_locations(old, new, draft) if str(path) not in removed_fields
    )
    warnings: list[FieldError] = []
    for location, path in islice(chain(own_fields, _template_locations(old, new, draft)), MAX_RESTORED_FIELDS):
        draft.set_value(path, dig(old, *location))
        warnings.append(FORGOTTEN.at(path, key=REMOVED_FIELDS))
    return warnings[:MAX_FINDINGS]


def _is_applied(old: JSON, new: JSON, field_manager: str) -> bool:
    """Whether the update applies a manifest, so that absent fields are intended.

    A review does not have the method of the write. `kubectl apply` changes the last-applied annotation; a server-side
    apply has a field manager with an entry for Apply.
    """
    if dig(old, "metadata", "annotations", LAST_APPLIED) != dig(new, "metadata", "annotations", LAST_APPLIED):
        return True
    return bool(field_manager) and any(
        (dig(entry, "manager"), dig(entry, "operation"), dig(entry, "subresource") or "")
        == (field_manager, "Apply", "")
        for entry in items(new, "metadata", "managedFields")
    )


def _removed_on_purpose(old: JSON, new: JSON) -> frozenset[str]:
    """The fields that the update adds to the annotation of removed fields, so that a mere copy of it removes nothing.

    The deadline of a policy is among them if the update removes its name from the annotation of the policies.
    """
    names = _removed_fields(new) - _removed_fields(old)
    if dig(new, "metadata", "annotations", DEFAULTS) is not None and _has_default(old) and not _has_default(new):
        names |= {str(SPEC.at(DEADLINE))}
    return names


def _removed_fields(obj: JSON) -> frozenset[str]:
    """The fields that an annotation of the object lists, separated by commas."""
    text = dig(obj, "metadata", "annotations", REMOVED_FIELDS)
    names = text[:MAX_ANNOTATION_LENGTH].split(",") if isinstance(text, str) else ()
    return frozenset(f"spec.{name.strip().removeprefix('spec.')}" for name in names)


def _has_default(obj: JSON) -> bool:
    return any(DEADLINE in defaults for defaults in recorded_defaults(obj).values())


_Locations = Iterator[tuple[Sequence[str | int], Path]]
"""Fields to restore: the path in the stored object, and the path in the new object, which has the parent."""


def _own_locations(old: JSON, new: JSON, draft: PatchDraft) -> _Locations:
    """Fields that the Go JobSet does not have, and that are missing in the new object."""
    stored = {name: path for name, path, _ in copied_locations(old.get("spec"), draft.work)}
    for name, path, _ in copied_locations(new.get("spec"), draft.work, absent=True) if stored else ():
        if name in stored:
            yield stored[name].parts, path


def _template_locations(old: JSON, new: JSON, draft: PatchDraft) -> _Locations:
    """Fields of newer versions of Kubernetes (`NEWER_FIELDS`) that are missing in the Job templates."""
    location = "spec", "replicatedJobs"
    for i, k in _matching_indexes(dig(old, *location), dig(new, *location)):
        yield from _missing_fields(old, new, (*location, i, "template"), Path((*location, k, "template")), draft)


def _missing_fields(old: JSON, new: JSON, location: tuple[str | int, ...], path: Path, draft: PatchDraft) -> _Locations:
    pending = [(location, path)]
    while pending:
        location, path = pending.pop()
        old_value, new_value = dig(old, *location), dig(new, *path.parts)
        if old_value == new_value:
            continue
        draft.work.spend(STEPS_PER_PATH + (len(old_value) if isinstance(old_value, list | dict) else 0))
        if isinstance(old_value, dict) and isinstance(new_value, dict):
            holder = next((part for part in reversed(location) if isinstance(part, str)), "")
            for key, member in old_value.items():
                if member is None:
                    continue
                if new_value.get(key) is not None:
                    pending.append(((*location, key), path.at(key)))
                elif key in NEWER_FIELDS.get(holder, ()):
                    yield (*location, key), path.at(key)
        else:
            pending += [((*location, i), path.at(k)) for i, k in _matching_indexes(old_value, new_value)]


def _matching_indexes(old_items: Any, new_items: Any) -> Iterator[tuple[int, int]]:
    """Indexes of matching items: with equal names or, without names, with equal indexes in lists of equal length."""
    if not (isinstance(old_items, list) and isinstance(new_items, list)):
        return
    old_names, new_names = ([dig(item, "name") for item in each] for each in (old_items, new_items))
    if all(isinstance(name, str) for name in (*old_names, *new_names)) and len({*new_names}) == len(new_names):
        indexes = {name: k for k, name in enumerate(new_names)}
        yield from ((i, indexes[name]) for i, name in enumerate(old_names) if name in indexes)
    elif len(old_items) == len(new_items):
        yield from ((i, i) for i in range(len(old_items)))
