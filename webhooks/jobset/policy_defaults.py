"""Defaults of policies as changes of a JobSet: set when it is created, kept when an update leaves them out. Pure.

They are kept only if the policies in force would set them now. The annotation that names them is kept as well. Like
`default.py` this works on the original JSON: a value that does not fit the schema is not changed.
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
_TERMS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def set_defaults(draft: PatchDraft, defaults: Iterable[tuple[JobSetPolicy, Default]]) -> Record:
    """Set defaults where the JobSet has no value, and write the annotation; returns those that were set.

    The API server may have set defaults of a policy that it enforces itself, and named them. These names are kept.
    """
    record: dict[str, list[str]] = {}
    recorded = recorded_defaults(draft.object)
    for policy, default in defaults:
        before = len(draft.operations)
        for path in _missing_paths(draft.object, default):
            if default.parts == ("tolerations",):
                draft.append(path, default.value)
            else:
                draft.default(path, default.value, empty_is_absent=default.parts == ("priorityClassName",))
        in_api_server = policy.spec.is_enforced_by_api_server and default.name in recorded.get(policy.metadata.name, ())
        if len(draft.operations) > before or in_api_server:
            record.setdefault(policy.metadata.name, []).append(default.name)
    _write(draft, record)
    return record


def _write(draft: PatchDraft, record: Record) -> None:
    """Write the annotation about the defaults set here, whatever the author has copied from another JobSet."""
    if not isinstance(dig(draft.object, "metadata", "annotations") or {}, dict):
        return
    if record:
        draft.put(_ANNOTATION, msgspec.json.encode(record).decode())
    elif dig(draft.object, *_ANNOTATION.parts) is not None:
        draft.remove(_ANNOTATION)


def _missing_paths(obj: JSON, default: Default) -> Iterator[Path]:
    """Paths at which a default is set: not in pods that have a value of their own."""
    if not default.of_pods:
        yield Path(default.parts)
        return
    for i, rjob in enumerate(items(obj, *_RJOBS.parts)):
        pod = dig(rjob, *POD)
        if isinstance(pod, dict) and not _has_own(pod, default):
            yield _RJOBS.at(i, *POD, *default.parts)


def _has_own(pod: JSON, default: Default) -> bool:
    """Whether the author selects nodes by that label already, or tolerates that taint."""
    if default.parts[0] == "nodeSelector":
        return bool(pod.get("nodeName")) or any(
            dig(expression, "key") == default.parts[1]
            for term in items(pod, *_TERMS)
            for expression in items(term, "matchExpressions")
        )
    if default.parts == ("tolerations",):
        return _tolerates(pod, default.value["key"])
    return False


def _tolerates(pod: JSON, key: Any) -> bool:
    """Whether some toleration tolerates that taint, or every taint; true also if the value is not a list."""
    own = pod.get("tolerations") or []
    return not isinstance(own, list) or any(dig(toleration, "key") in (key, None, "") for toleration in own)


PutBack = tuple[Path, JobSetPolicy, Default]


def keep_defaults(draft: PatchDraft, old: JSON, defaults: Iterable[tuple[JobSetPolicy, Default]]) -> list[PutBack]:
    """Set defaults again that an update leaves out, if the stored JobSet has got them and still has them.

    A client that applies or replaces an unchanged manifest leaves them out, and templates are immutable. To remove a
    default, an author removes its name from the annotation as well. The annotation alone keeps nothing: `defaults` are
    those that the policies in force would set now. Returns the fields of the set that are restored although the
    annotation of the update names them.
    """
    is_known = dig(draft.object, *_ANNOTATION.parts) is not None
    record = recorded_defaults(draft.object if is_known else old)
    stored = {dig(rjob, "name"): dig(rjob, *POD) for rjob in items(old, *_RJOBS.parts) if _is_named(rjob)}
    own = [(policy, default) for policy, default in defaults if default.name in record.get(policy.metadata.name, ())]
    found: list[PutBack] = []
    for policy, default in own:
        if default.of_pods:
            for i, rjob in enumerate(items(draft.object, *_RJOBS.parts)):
                if isinstance(dig(rjob, *POD), dict) and _is_named(rjob):
                    _keep(draft, _RJOBS.at(i, *POD), stored.get(rjob["name"]), default)
        elif dig(old, *default.parts) == default.value:
            before = len(draft.operations)
            draft.default(path := Path(default.parts), default.value)
            found += [(path, policy, default)] if is_known and len(draft.operations) > before else []
    if own and not is_known:
        draft.default(_ANNOTATION, dig(old, *_ANNOTATION.parts))
    return found


def put_back_warnings(found: Iterable[PutBack]) -> list[FieldError]:
    """Warnings for the author about the defaults that were set again."""
    return [PUT_BACK.at(path, policy=policy.metadata.name, name=default.name) for path, policy, default in found]


def _is_named(rjob: Any) -> bool:
    return isinstance(dig(rjob, "name"), str)


def _keep(draft: PatchDraft, path: Path, stored: Any, default: Default) -> None:
    """Set again one default of one template."""
    if default.parts != ("tolerations",):
        if dig(stored, *default.parts) == default.value:
            empty_is_absent = default.parts == ("priorityClassName",)
            draft.default(path.at(*default.parts), default.value, empty_is_absent=empty_is_absent)
        return
    has_own = _tolerates(dig(draft.object, *path.parts), default.value["key"])
    if default.value in items(stored, "tolerations") and not has_own:
        draft.append(path.at("tolerations"), default.value)
