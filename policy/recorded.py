"""The defaults that JobSets have got from policies, as their annotation says. Pure, without the rules of policies."""

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
    """The defaults that the annotation names; nothing if it cannot be read, for its author may write it."""
    try:
        return _record.decode(text) if isinstance(text, str) else {}
    except (msgspec.MsgspecError, ValueError):
        return {}


def recorded_defaults(obj: Any) -> Record:
    """The defaults that a JobSet says it has got; nothing if that cannot be read."""
    return record_of(dig(obj, "metadata", "annotations", ANNOTATION))


def set_by(annotations: Mapping[str, str], default: str) -> str:
    """The policy that has given a JobSet the default of this name, as its annotation says; empty if none has.

    The author of the JobSet may have written the annotation: what no policy can be called is left out.
    """
    record = record_of(annotations.get(ANNOTATION))
    return next((name for name, defaults in record.items() if default in defaults and not dns1123_subdomain(name)), "")
