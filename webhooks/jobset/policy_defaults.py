"""Defaults of policies as changes of a JobSet: set when it is created, kept when an update leaves them out. Pure.

A default is kept only if the policies in force would set it now. The annotation with its name is kept, too. As in
`default.py` the original JSON is changed, and a value that does not fit the schema stays.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from kube.model.field import ErrorType, FieldError, Path, Rule, Severity
from kube.model.jsontree import dig, items
from kube.model.meta import JSON
from policy.defaults import POD, Default
from policy.recorded import ANNOTATION, Record, recorded_defaults
from policy.sentences import source
from policy.types import JobSetPolicy
from webhooks.json_patch import PatchDraft

PUT_BACK = Rule(
    "policy-default-put-back",
    ErrorType.INVALID,
    "put back: policy {policy} has set it as a default",
    f'remove "{{name}}" from the annotation {ANNOTATION} as well',
    source("defaults"),
    severity=Severity.WARNING,
)

_ANNOTATION = Path(("metadata", "annotations", ANNOTATION))
_RJOBS = Path(("spec", "replicatedJobs"))
_NODE_AFFINITY_TERMS = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)


def set_defaults(draft: PatchDraft, defaults: Iterable[tuple[JobSetPolicy, Default]]) -> Record:
    """Set defaults where the JobSet has no value, and write the annotation; returns the names of these defaults.

    The API server sets the defaults of a policy that it enforces, and writes their names. These names are kept.
    """
    record: dict[str, list[str]] = {}
    recorded = recorded_defaults(draft.object)
    for policy, default in defaults:
        operation_count = len(draft.operations)
        for path in _missing_paths(draft.object, default):
            if default.parts == ("tolerations",):
                draft.append(path, default.value)
            else:
                draft.set_default(path, default.value, empty_is_absent=default.parts == ("priorityClassName",))
        was_set_by_api_server = policy.spec.is_enforced_by_api_server and default.name in recorded.get(
            policy.metadata.name, ()
        )
        if len(draft.operations) > operation_count or was_set_by_api_server:
            record.setdefault(policy.metadata.name, []).append(default.name)
    _write_annotation(draft, record)
    return record


def _write_annotation(draft: PatchDraft, record: Record) -> None:
    """Write the names of defaults into the annotation, in place of names that an author has copied."""
    if not isinstance(dig(draft.object, "metadata", "annotations") or {}, dict):
        return
    if record:
        draft.set_value(_ANNOTATION, msgspec.json.encode(record).decode())
    elif dig(draft.object, *_ANNOTATION.parts) is not None:
        draft.remove(_ANNOTATION)


def _missing_paths(obj: JSON, default: Default) -> Iterator[Path]:
    """Paths at which a default has to be set. A pod template with a value of its own is left out."""
    if not default.of_pods:
        yield Path(default.parts)
        return
    for i, rjob in enumerate(items(obj, *_RJOBS.parts)):
        pod = dig(rjob, *POD)
        if isinstance(pod, dict) and not _has_own_value(pod, default):
            yield _RJOBS.at(i, *POD, *default.parts)


def _has_own_value(pod: JSON, default: Default) -> bool:
    """Whether the author already selects nodes by the label of the default, or tolerates its taint."""
    if default.parts[0] == "nodeSelector":
        return bool(pod.get("nodeName")) or any(
            dig(expression, "key") == default.parts[1]
            for term in items(pod, *_NODE_AFFINITY_TERMS)
            for expression in items(term, "matchExpressions")
        )
    if default.parts == ("tolerations",):
        return _tolerates(pod, default.value["key"])
    return False


def _tolerates(pod: JSON, key: Any) -> bool:
    """Whether a toleration tolerates taints with this key, or all taints. True if `tolerations` is not a list."""
    tolerations = pod.get("tolerations") or []
    return not isinstance(tolerations, list) or any(dig(each, "key") in (key, None, "") for each in tolerations)


RestoredDefault = tuple[Path, JobSetPolicy, Default]


def keep_defaults(
    draft: PatchDraft, old: JSON, defaults: Iterable[tuple[JobSetPolicy, Default]]
) -> list[RestoredDefault]:
    """Restore each default that an update leaves out, if a policy has set it and the stored JobSet still has it.

    `defaults` are the defaults that the policies in force would set now. A client that applies or replaces an unchanged
    manifest leaves out the values that were set by default, and templates are immutable. To remove a default, an author
    removes its name from the annotation as well. Returns the restored defaults of the JobSet itself, not of pods, whose
    names the update keeps in the annotation.
    """
    has_annotation = dig(draft.object, *_ANNOTATION.parts) is not None
    record = recorded_defaults(draft.object if has_annotation else old)
    stored = {dig(rjob, "name"): dig(rjob, *POD) for rjob in items(old, *_RJOBS.parts) if _is_named(rjob)}
    kept_defaults = [
        (policy, default) for policy, default in defaults if default.name in record.get(policy.metadata.name, ())
    ]
    restored_defaults: list[RestoredDefault] = []
    for policy, default in kept_defaults:
        if default.of_pods:
            for i, rjob in enumerate(items(draft.object, *_RJOBS.parts)):
                if isinstance(dig(rjob, *POD), dict) and _is_named(rjob):
                    _restore_in_template(draft, _RJOBS.at(i, *POD), stored.get(rjob["name"]), default)
        elif dig(old, *default.parts) == default.value:
            operation_count = len(draft.operations)
            draft.set_default(path := Path(default.parts), default.value)
            if has_annotation and len(draft.operations) > operation_count:
                restored_defaults.append((path, policy, default))
    if kept_defaults and not has_annotation:
        draft.set_default(_ANNOTATION, dig(old, *_ANNOTATION.parts))
    return restored_defaults


def restored_default_warnings(restored_defaults: Iterable[RestoredDefault]) -> list[FieldError]:
    """Warnings for the author about the defaults that were set again."""
    return [
        PUT_BACK.at(path, policy=policy.metadata.name, name=default.name) for path, policy, default in restored_defaults
    ]


def _is_named(rjob: Any) -> bool:
    return isinstance(dig(rjob, "name"), str)


def _restore_in_template(draft: PatchDraft, path: Path, stored: Any, default: Default) -> None:
    """Restore one default in the pod template at `path`. `stored` is the stored form of this template."""
    if default.parts != ("tolerations",):
        if dig(stored, *default.parts) == default.value:
            empty_is_absent = default.parts == ("priorityClassName",)
            draft.set_default(path.at(*default.parts), default.value, empty_is_absent=empty_is_absent)
        return
    has_own = _tolerates(dig(draft.object, *path.parts), default.value["key"])
    if default.value in items(stored, "tolerations") and not has_own:
        draft.append(path.at("tolerations"), default.value)
