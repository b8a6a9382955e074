"""Defaults of a JobSet as JSON-patch operations. Pure; never raises, and refuses nothing.

See docs/reference/defaulting.md.

The defaults are set in the original JSON, so that unknown fields are kept. Null is the same as absent. A value that
does not fit the schema is not changed: the API server refuses it.

Defaults are set on update as well, because a client-side apply of an unchanged manifest sends the list of
ReplicatedJobs without them. On update a default is set only where the stored object has a value: a set that was stored
without the value (past this webhook) runs without it, and a default would change the meaning of the set.

Fields of a copy from another cluster are restored first, and the annotation for such copies is written (`copies.py`).
`policy_defaults.py` sets the defaults of policies.

Names that the schema requires are set in any case, and null metadata of templates becomes `{}`. Other nulls are removed
on update (`_null_paths`), since the schema refuses them.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from api.jobset import MAX_CLAIM_POLICIES, MAX_DEPENDS_ON
from api.spares import MAX_GROUPS, is_filled_in, spare_template
from kube.model.field import SPEC, Path
from kube.model.jsontree import dig, json_bytes
from kube.model.meta import JSON
from webhooks.jobset.copies import is_copy, restore_own_fields, write_own_fields
from webhooks.json_patch import PatchDraft
from webhooks.work import STEPS_PER_PATH, Work

_POLICY_DEFAULTS: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("successPolicy",), {"operator": "All"}),
    (("startupPolicy",), {"startupPolicyOrder": "AnyOrder"}),
    (("network", "enableDNSHostnames"), True),
    (("network", "publishNotReadyAddresses"), True),
)
_MIN_SUCCEEDED_DEFAULTS: tuple[tuple[tuple[str, ...], Any], ...] = ((("successPolicy", "operator"), "All"),)
"""With minSucceeded, the operator has only one possible value."""
_TEMPLATE_DEFAULTS: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("template", "spec", "completionMode"), "Indexed"),
    (("template", "spec", "template", "spec", "restartPolicy"), "OnFailure"),
)
MAX_NULLS = 10_000
"""The most nulls that are removed from one object. An apply leaves about four for each ReplicatedJob."""
MAX_NULL_PATH = 1000
"""The most characters of the path of an object whose nulls are removed. The patch repeats the path for each null."""
_METADATA_PATHS = (("template", "metadata"), ("template", "spec", "template", "metadata"))
_CONTAINERS = (dict, list)
"""The types of objects and lists: a tuple, since a union would be created again for each check of a value."""
_EMPTY_TEXT_IS_ABSENT = frozenset({"restartPolicy", "name"})


def with_defaults(new: JSON, old: JSON | None = None, work: Work | None = None) -> tuple[JSON, list[JSON]]:
    """The defaulted object and the patch operations; `old` is the stored object on update, None on create.

    Items of a list beyond the schema's limit are not read: the schema refuses them anyway.
    """
    draft = PatchDraft(new, work or Work())
    if old is None and is_copy(new):
        restore_own_fields(draft)
    for path, value in _defaults(draft.object.get("spec"), None if old is None else old.get("spec") or {}):
        draft.set_default(path, value, empty_is_absent=bool(value) and path.parts[-1] in _EMPTY_TEXT_IS_ABSENT)
    if old is not None:
        for path in islice(_null_paths(draft.object.get("spec"), draft.work), MAX_NULLS):
            draft.remove(path)
    for path, template in _spare_templates(draft.object, old):
        draft.set_value(path, template)
    write_own_fields(draft, is_new=old is None)
    return draft.object, draft.operations


def _spare_templates(new: JSON, old: JSON | None) -> Iterator[tuple[Path, Any]]:
    """Templates for spares with an incomplete template: the stored one, or one made from the template of the target."""
    rjobs, stored = dig(new, "spec", "replicatedJobs"), objects_by_name(dig(old, "spec", "replicatedJobs"))
    rjobs_by_name = objects_by_name(rjobs)
    spares = ((i, rjob) for i, rjob in _objects(rjobs) if isinstance(rjob.get("spareFor"), str))
    for i, rjob in islice(spares, MAX_GROUPS):
        name = rjob.get("name")
        stored_rjob, target = stored.get(name if isinstance(name, str) else ""), rjobs_by_name.get(rjob["spareFor"])
        if is_filled_in(rjob.get("template")):
            continue
        path = SPEC.at("replicatedJobs", i, "template")
        if stored_rjob is not None and stored_rjob.get("spareFor") == rjob["spareFor"]:
            yield path, stored_rjob.get("template")
        elif target is not None and not target.get("spareFor") and is_filled_in(target.get("template")):
            yield path, spare_template(target["template"], rjob.get("template"))


def _null_paths(spec: Any, work: Work) -> Iterator[Path]:
    """Paths of members that are null.

    The API server drops nulls from a request, but not from the result of a server-side apply: if a client has applied
    labels, and then applies `labels: {}`, the result is `labels: null`, which the schema refuses.
    """
    text = json_bytes(spec)
    if text is not None and b"null" not in text:
        return
    pending: list[tuple[Path, int, Any]] = [(SPEC, 0, spec)] if isinstance(spec, _CONTAINERS) else []
    while pending:
        path, length, node = pending.pop()
        work.spend(STEPS_PER_PATH + len(node))
        members = node.items() if isinstance(node, dict) else enumerate(node)
        for key, member in list(members):
            if isinstance(member, _CONTAINERS):
                member_length = length + 1 + len(str(key))
                if member_length <= MAX_NULL_PATH:
                    pending.append((path.at(key), member_length, member))
            elif member is None and isinstance(node, dict):
                yield path.at(key)


def _defaults(spec: Any, old: Any) -> Iterator[tuple[Path, Any]]:
    yield from _defaults_if_stored(SPEC, _POLICY_DEFAULTS, old)
    if dig(spec, "successPolicy", "minSucceeded") is not None:
        yield from _defaults_if_stored(SPEC, _MIN_SUCCEEDED_DEFAULTS, old)
    yield from _empty_names(spec)
    stored = None if old is None else objects_by_name(dig(old, "replicatedJobs"))
    for i, rjob in _objects(dig(spec, "replicatedJobs")):
        if isinstance(rjob.get("template"), dict):
            yield from _empty_metadata(SPEC.at("replicatedJobs", i), rjob)
            name = rjob.get("name")
            stored_rjob = None if stored is None else stored.get(name if isinstance(name, str) else "")
            yield from _defaults_if_stored(SPEC.at("replicatedJobs", i), _TEMPLATE_DEFAULTS, stored_rjob)
    for i, _ in _objects(dig(spec, "failurePolicy", "rules")):
        yield SPEC.at("failurePolicy", "rules", i, "name"), f"failurePolicyRule{i}"
    for i, _ in _objects(dig(spec, "volumeClaimPolicies"), MAX_CLAIM_POLICIES):
        stored_policy = None if old is None else dig(old, "volumeClaimPolicies", i)
        retention = ((("retentionPolicy",), {"whenDeleted": "Delete"}),)
        yield from _defaults_if_stored(SPEC.at("volumeClaimPolicies", i), retention, stored_policy)


def _empty_names(spec: Any) -> Iterator[tuple[Path, Any]]:
    """An empty text for each name that the schema requires, as the Go JobSet's webhook leaves them.

    So a ReplicatedJob without a name is stored, and the rules report a reference without a name.
    """
    for i, rjob in _objects(dig(spec, "replicatedJobs")):
        path = SPEC.at("replicatedJobs", i)
        yield path.at("name"), ""
        for k, _ in _objects(rjob.get("dependsOn"), MAX_DEPENDS_ON):
            yield path.at("dependsOn", k, "name"), ""
    if isinstance(dig(spec, "coordinator"), dict):
        yield SPEC.at("coordinator", "replicatedJob"), ""


def _empty_metadata(base_path: Path, rjob: JSON) -> Iterator[tuple[Path, Any]]:
    """`{}` for metadata of templates that is null (see `_null_paths`), as if a client had applied `metadata: {}`."""
    for keys in _METADATA_PATHS:
        parent = dig(rjob, *keys[:-1])
        if isinstance(parent, dict) and parent.get("metadata", {}) is None:
            yield base_path.at(*keys), {}


def _defaults_if_stored(
    base_path: Path, defaults: tuple[tuple[tuple[str, ...], Any], ...], old: Any
) -> Iterator[tuple[Path, Any]]:
    """The defaults; on update (`old` is not None) only the defaults of fields that the stored object has."""
    for keys, value in defaults:
        if old is None or dig(old, *keys) is not None:
            yield base_path.at(*keys), value


def _objects(items: Any, limit: int | None = None) -> Iterator[tuple[int, JSON]]:
    """The objects among the first `limit` items of a list, with their indexes."""
    first_items = islice(items, limit) if isinstance(items, list) else ()
    return ((i, item) for i, item in enumerate(first_items) if isinstance(item, dict))


def objects_by_name(items: Any) -> Mapping[Any, JSON]:
    """The objects of a list whose `name` is a text, by this name."""
    return {item["name"]: item for _, item in _objects(items) if isinstance(item.get("name"), str)}
