"""The defaults that JobSets have got from policies, from their annotation. Pure, without the rules of policies."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kube.model.jsontree import dig
from kube.model.validation import dns1123_subdomain
from policy.kinds import GROUP

ANNOTATION: Final = f"{GROUP}/defaults"
"""Annotation of a JobSet: which defaults it got from which policy, as JSON: `{"tenants": ["labels[team]"]}`."""

DEADLINE: Final = "activeDeadlineSeconds"

Record = Mapping[str, list[str]]
"""Names of defaults by the name of their policy, as in the annotation."""
_record = msgspec.json.Decoder(dict[str, list[str]])


def record_of(text: Any) -> Record:
    """The defaults that the annotation names; nothing if it is invalid: the author may write it."""
    try:
        return _record.decode(text) if isinstance(text, str) else {}
    except (msgspec.MsgspecError, ValueError):
        return {}


def recorded_defaults(obj: Any) -> Record:
    """The defaults in the annotation of a JobSet; nothing if it is invalid."""
    return record_of(dig(obj, "metadata", "annotations", ANNOTATION))


def set_by(annotations: Mapping[str, str], default: str) -> str:
    """The policy in the annotation of a JobSet that has set the default of this name; empty if none has.

    The author of the JobSet may have written the annotation, so invalid names of policies are ignored.
    """
    record = record_of(annotations.get(ANNOTATION))
    return next((name for name, defaults in record.items() if default in defaults and not dns1123_subdomain(name)), "")
