"""The metadata and conditions of every cached object.

Only fields that the control plane reads are typed; decoding drops all other fields. Dropping them is safe, because this
project never writes a typed object back: writes are patches or JSON built by hand.
"""

import functools
import math
import sys
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec.structs import force_setattr

JSON = dict[str, Any]
"""A JSON object that is not decoded into a record, such as a pod template or a patch."""

MAX_INT32 = 2**31 - 1

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation of `kubectl apply` that repeats the manifest, its name included."""


SINCE_GO = "x-since-go"
"""Keyword of a field's schema, for generators: whether the Go JobSet has the field. Absent: true."""


def doc(text: str, *, in_go_jobset: bool = True, **schema: Any) -> msgspec.Meta:
    """A field's description and the schema keywords for the CRD. `in_go_jobset`: whether the Go JobSet has the field.

    The generated schema has the keywords, the decoder ignores them: an object stored under another version of the CRD
    must still be readable, so that it cannot stop a watch.
    """
    keywords = schema if in_go_jobset else {**schema, SINCE_GO: False}
    return msgspec.Meta(description=text, extra_json_schema=keywords or None)


def seconds_between(start: str, end: str) -> float:
    """Seconds from one time to another, both RFC 3339 with a time zone; negative if `end` is before `start`."""
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def age(moment: str, now: str, *, unknown: float = math.inf) -> float:
    """Seconds from `moment` to `now`, negative if `moment` is later; `unknown` if one of them is not a time."""
    try:
        return seconds_between(moment, now)
    except (ValueError, TypeError):
        return unknown


class Base(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Immutable record with the wire's camelCase names; absent fields take their defaults."""


NO_TEXTS: dict[str, str] = {}
"""Empty labels or annotations, which all records share: records are never changed."""


def share_texts(texts: dict[str, str]) -> dict[str, str]:
    """A copy with interned keys and values, so that objects share equal texts: Jobs of a JobSet differ in few labels.

    A text is kept as long as an object uses it.
    """
    if not texts:
        return NO_TEXTS
    intern = sys.intern
    return {intern(key): intern(value) for key, value in texts.items()}


class OwnerReference(Base, frozen=True, kw_only=True):
    """metav1.OwnerReference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


_Owners = tuple[OwnerReference, ...]


@functools.lru_cache(maxsize=256)
def _shared_owners(owners: _Owners) -> _Owners:
    """The same tuple for all equal owner references, so that the children of an owner share it."""
    for owner in owners:
        for field in ("api_version", "kind", "name", "uid"):
            force_setattr(owner, field, sys.intern(getattr(owner, field)))
    return owners


class Owner(NamedTuple):
    """The owner that controls an object; `str` gives it in words."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.kind else "nobody"


NO_OWNER = Owner("", "")


class Identity(Base, frozen=True, kw_only=True):
    """The part of metav1.ObjectMeta that identifies an object and its owner.

    Services and priority classes keep no other metadata.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: _Owners = ()

    def __post_init__(self) -> None:
        force_setattr(self, "namespace", sys.intern(self.namespace))
        force_setattr(self, "owner_references", _shared_owners(self.owner_references))

    @property
    def precondition(self) -> JSON:
        """Metadata that makes the API server refuse a patch if the object has changed or was replaced."""
        return {"uid": self.uid, "resourceVersion": self.resource_version}

    def controller(self) -> OwnerReference | None:
        """The one owner with `controller: true`, if there is one."""
        for ref in self.owner_references:
            if ref.controller:
                return ref
        return None

    def controlled_by(self, uid: str) -> bool:
        """Whether the object of that UID is the controlling owner."""
        ref = self.controller()
        return ref is not None and ref.uid == uid

    @property
    def owner(self) -> Owner:
        """Kind and name of the controlling owner."""
        ref = self.controller()
        return NO_OWNER if ref is None else Owner(ref.kind, ref.name)


class ObjectMeta(Identity, frozen=True, kw_only=True):
    """The part of metav1.ObjectMeta that is read. Times are RFC 3339 strings as the API server wrote them."""

    generate_name: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.creation_timestamp is not None:
            force_setattr(self, "creation_timestamp", sys.intern(self.creation_timestamp))
        labels, annotations = share_texts(self.labels), share_texts(self.annotations)
        force_setattr(self, "labels", labels)
        force_setattr(self, "annotations", labels if annotations == labels else annotations)


class PartialObjectMetadata(Base, frozen=True, kw_only=True):
    """metav1.PartialObjectMetadata: an object of which only the metadata is read."""

    metadata: ObjectMeta


_REQUIRED = {"x-required": True}
_LABEL_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_REASON = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


class Condition(Base, frozen=True, kw_only=True):
    """metav1.Condition (and batch/v1 JobCondition, whose shape is a superset of what is read here)."""

    type: Annotated[str, doc("Type of the condition, in CamelCase.", maxLength=316, pattern=_LABEL_KEY)]
    status: Annotated[str, doc("One of True, False, Unknown.", enum=["True", "False", "Unknown"])]
    reason: Annotated[
        str,
        doc(
            "Machine-readable reason of the last transition.",
            maxLength=1024,
            minLength=1,
            pattern=_REASON,
            **_REQUIRED,
        ),
    ] = ""
    message: Annotated[str, doc("What happened, for a person.", maxLength=32768, **_REQUIRED)] = ""
    last_transition_time: Annotated[
        str, doc("When the status last changed: RFC 3339, seconds.", format="date-time", **_REQUIRED)
    ] = ""


def is_true(conditions: tuple[Condition, ...], kind: str) -> bool:
    """Whether the condition of that type has status True."""
    return any(c.type == kind and c.status == "True" for c in conditions)


def find(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of that type, whatever its status."""
    return next((c for c in conditions if c.type == kind), None)
