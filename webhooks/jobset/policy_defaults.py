"""Defaults of policies as changes of a JobSet: set when it is created, kept when an update leaves them out. Pure.

The annotation that names them is kept as well. Like `default.py` this works on the JSON as it came: a value that has
not the shape that the schema wants is left alone.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from api.field import ErrorType, FieldError, Path, Rule, Severity
from api.jsontree import dig, items
from api.meta import JSON
from policy.defaults import ANNOTATION, POD, Default, Record, record_of
from policy.rules.words import source
from policy.types import JobSetPolicy
from webhooks.json_patch import PatchDraft

MOST_KEPT = 200
"""Defaults of one JobSet that are kept: its author may write the annotation."""

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


def recorded(obj: Any) -> Record:
    """The defaults that a JobSet says it has got; nothing if that cannot be read."""
    return record_of(dig(obj, *_ANNOTATION.parts))


def set_defaults(draft: PatchDraft, defaults: Iterable[tuple[JobSetPolicy, Default]]) -> Record:
    """Set these where the JobSet has nothing, and write the annotation; gives the defaults that were set.

    The API server may have set those of a policy that it holds by itself, and named them. These names are kept.
    """
    record: dict[str, list[str]] = {}
    named = recorded(draft.object)
    for policy, default in defaults:
        before = len(draft.operations)
        for path in _places(draft.object, default):
            if default.parts == ("tolerations",):
                draft.append(path, default.value)
            else:
                draft.default(path, default.value, empty_is_absent=default.parts == ("priorityClassName",))
        in_api_server = policy.spec.in_api_server and default.name in named.get(policy.metadata.name, ())
        if len(draft.operations) > before or in_api_server:
            record.setdefault(policy.metadata.name, []).append(default.name)
    _write(draft, record)
    return record


def _write(draft: PatchDraft, record: Record) -> None:
    """The annotation says what was set here, whatever the author has copied from another JobSet."""
    if not isinstance(dig(draft.object, "metadata", "annotations") or {}, dict):
        return
    if record:
        draft.put(_ANNOTATION, msgspec.json.encode(record).decode())
    elif dig(draft.object, *_ANNOTATION.parts) is not None:
        draft.remove(_ANNOTATION)


def _places(obj: JSON, default: Default) -> Iterator[Path]:
    """Where a default belongs, without pods that have something of their own there."""
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
    """Whether some toleration is about that taint, or about every taint; or what stands there is no list."""
    own = pod.get("tolerations") or []
    return not isinstance(own, list) or any(dig(toleration, "key") in (key, None, "") for toleration in own)


def keep_defaults(draft: PatchDraft, old: JSON) -> None:
    """Set again what an update leaves out of the defaults that the stored JobSet has got, as it is stored.

    A client that applies or replaces an unchanged manifest leaves them out, and templates are immutable. An author who
    wants to be without one removes its name from the annotation as well.
    """
    text = dig(old, *_ANNOTATION.parts)
    if not (record := recorded(old if dig(draft.object, *_ANNOTATION.parts) is None else draft.object)):
        return
    stored = {dig(rjob, "name"): dig(rjob, *POD) for rjob in items(old, *_RJOBS.parts) if _is_named(rjob)}
    for name in islice((name for names in record.values() for name in names), MOST_KEPT):
        field, _, key = name.removesuffix("]").partition("[")
        if field in _OF_SET:
            path = Path((*_OF_SET[field], *filter(None, [key])))
            if (value := dig(old, *path.parts)) is not None:
                draft.default(path, value)
        elif field in _OF_PODS:
            for i, rjob in enumerate(items(draft.object, *_RJOBS.parts)):
                if isinstance(dig(rjob, *POD), dict) and _is_named(rjob):
                    _keep(draft, _RJOBS.at(i, *POD), stored.get(rjob["name"]), field, key)
    if text is not None:
        draft.default(_ANNOTATION, text)


def put_back(new: JSON, old: JSON) -> Iterator[FieldError]:
    """That a field of the set that an author has removed is kept, since the annotation that names it is still there.

    Nothing about an update without the annotation: it is a manifest that is replaced again, as its author wrote it.
    """
    named = ((policy, name) for policy, names in recorded(new).items() for name in names)
    for policy, name in islice(named, MOST_KEPT):
        field, _, key = name.removesuffix("]").partition("[")
        path = Path((*_OF_SET.get(field, ()), *filter(None, [key])))
        if field in _OF_SET and dig(new, *path.parts) is None and dig(old, *path.parts) is not None:
            yield PUT_BACK.at(path, policy=policy, name=name)


_OF_SET = {
    "labels": ("metadata", "labels"),
    "ttlSecondsAfterFinished": ("spec", "ttlSecondsAfterFinished"),
    "activeDeadlineSeconds": ("spec", "activeDeadlineSeconds"),
}
_OF_PODS = {"priorityClassName", "nodeSelector", "tolerations"}


def _is_named(rjob: Any) -> bool:
    return isinstance(dig(rjob, "name"), str)


def _keep(draft: PatchDraft, path: Path, stored: Any, field: str, key: str) -> None:
    """Set again one default of one template."""
    if field != "tolerations":
        parts = (field, key) if key else (field,)
        if (value := dig(stored, *parts)) is not None:
            draft.default(path.at(*parts), value, empty_is_absent=not key)
        return
    pod = dig(draft.object, *path.parts)
    if not _tolerates(pod, key):
        for toleration in items(stored, "tolerations"):
            if dig(toleration, "key") == key:
                draft.append(path.at("tolerations"), toleration)
