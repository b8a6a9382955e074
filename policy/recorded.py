"""Reads the annotation of a JobSet that records its defaults from policies. Pure. Imports no rule of policies."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kube.model.jsontree import dig
from kube.model.validation import dns1123_subdomain
from policy.kinds import GROUP

ANNOTATION: Final = f"{GROUP}/defaults"
"""Annotation of a JobSet with the defaults that policies have set, as JSON such as `{"tenants": ["labels[team]"]}`."""

DEADLINE: Final = "activeDeadlineSeconds"
"""Name of the default for the field of this name, which needs a feature gate."""

Record = Mapping[str, list[str]]
"""The names of defaults by the name of their policy."""
_record_decoder = msgspec.json.Decoder(dict[str, list[str]])


def record_of(text: Any) -> Record:
    """The defaults in the value of the annotation; empty if the value is invalid, since authors may write anything."""
    try:
        return _record_decoder.decode(text) if isinstance(text, str) else {}
    except (msgspec.MsgspecError, ValueError):
        return {}


def recorded_defaults(obj: Any) -> Record:
    """The defaults in the annotation of a JobSet; empty if the annotation is absent or invalid."""
    return record_of(dig(obj, "metadata", "annotations", ANNOTATION))


def policy_that_set(annotations: Mapping[str, str], default: str) -> str:
    """The name of the policy that has set a default, as the annotation of a JobSet says; empty if no policy has set it.

    The author of the JobSet may have written the annotation, so invalid names of policies are ignored.
    """
    record = record_of(annotations.get(ANNOTATION))
    return next((name for name, defaults in record.items() if default in defaults and not dns1123_subdomain(name)), "")
