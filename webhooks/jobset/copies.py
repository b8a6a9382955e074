"""Writes fields that the Go JobSet lacks into an annotation, for copies of a JobSet in other clusters. Pure.

See docs/reference/validation.md#copies-in-worker-clusters.

MultiKueue copies the spec with the types of the Go JobSet, and all labels and annotations, so an annotation has to
carry these fields. It is written for every set in a queue, because Kueue sets managedBy only after this webhook.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from api.keys import MULTIKUEUE, MULTIKUEUE_ORIGIN, OWN_FIELDS_COPY, QUEUE_NAME
from api.own_fields import OWN_FIELDS, own_field_locations
from kube.model.field import Path
from kube.model.jsontree import dig, items
from kube.model.meta import JSON
from kube.model.semantic import semantically_equal
from webhooks.json_patch import PatchDraft
from webhooks.work import STEPS_PER_PATH, Work

ANNOTATION = Path(("metadata", "annotations", OWN_FIELDS_COPY))
MAX_BYTES = 64 * 1024
"""Bytes of the annotation. The API server allows 256 KiB for all annotations of an object."""
_LISTS = tuple(dict.fromkeys(keys[: keys.index("*")] for keys in OWN_FIELDS if "*" in keys))
"""The lists below `spec` whose items may have such fields."""
_STEPS_PER_ITEM = 20
"""Steps of work for an item of these lists, whether or not it has such fields."""
_encoder = msgspec.json.Encoder(order="sorted")


def restore_own_fields(draft: PatchDraft) -> None:
    """Set the fields of a new copy that are in its annotation and not in its spec."""
    values = _annotation_values(draft.object) or {}
    for name, path, _ in copied_locations(draft.object.get("spec"), draft.work, absent=True) if values else ():
        if values.get(name) is not None:
            draft.set_value(path, values[name])


def write_own_fields(draft: PatchDraft, *, is_new: bool) -> None:
    """Write the annotation of a set in a queue. Remove it without such fields, outside of queues, or if it is too long.

    An annotation of a new copy that differs from the fields of the copy stays, so that the rules refuse the copy.
    """
    obj = draft.object
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("annotations") or {}, dict):
        return
    if (
        is_new
        and is_copy(obj)
        and first_difference(_annotation_values(obj), own_values(obj.get("spec"), draft.work)) is not None
    ):
        return
    text = ""
    if dig(obj, "spec", "managedBy") == MULTIKUEUE or dig(meta, "labels", QUEUE_NAME) is not None:
        values = own_values(obj.get("spec"), draft.work)
        text = _encoder.encode(values).decode() if values else ""
    if text and len(text.encode()) <= MAX_BYTES:
        draft.set_value(ANNOTATION, text)
    elif dig(obj, *ANNOTATION.parts) is not None:
        draft.remove(ANNOTATION)


def is_copy(obj: JSON) -> bool:
    """Whether MultiKueue has copied the object, with its annotation, from another cluster."""
    has_origin = dig(obj, "metadata", "labels", MULTIKUEUE_ORIGIN) is not None
    return has_origin and dig(obj, *ANNOTATION.parts) is not None


def _annotation_values(obj: JSON) -> Mapping[str, Any] | None:
    return read_values(dig(obj, *ANNOTATION.parts))


def read_values(text: Any) -> Mapping[str, Any] | None:
    """The values in the text of an annotation, by readable path; None if the text is invalid."""
    if not isinstance(text, str) or len(text) > MAX_BYTES:
        return None
    try:
        values = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def own_values(spec: Any, work: Work) -> Mapping[str, Any]:
    """The values of the fields that the Go JobSet does not have, by readable path."""
    return {name: value for name, _, value in copied_locations(spec, work)}


def first_difference(values: Mapping[str, Any] | None, other_values: Mapping[str, Any]) -> str | None:
    """The readable path of the first value that `other_values` lack or have differently; None if there is none.

    If `values` is None, which stands for an invalid annotation, the result is a text that says so.
    """
    if values is None:
        return "it cannot be read"
    return next(
        (
            name
            for name, value in values.items()
            if name not in other_values or not semantically_equal(value, other_values[name])
        ),
        None,
    )


def copied_locations(spec: Any, work: Work, *, absent: bool = False) -> Iterator[tuple[str, Path, Any]]:
    """Readable name, path and value of the fields that the Go JobSet does not have (`api.own_field_locations`)."""
    work.spend(_STEPS_PER_ITEM * sum(len(items(spec, *keys)) for keys in _LISTS))
    for name, path, _, value in own_field_locations(spec, absent=absent):
        work.spend(STEPS_PER_PATH)
        yield name, path, value
