"""Namespaces as policies read them: their labels, and the annotations that a policy names. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from api.keys import NAMESPACE_NAME
from kube.model.field import SPEC
from kube.model.meta import Base
from policy.fields import records
from policy.judged import Namespace
from policy.limits import Limit
from policy.types import JobSetPolicy


class _Meta(Base, frozen=True, kw_only=True):
    name: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class NamespaceMetadata(Base, frozen=True, kw_only=True):
    """A namespace of which only metadata was sent."""

    metadata: _Meta


class KnownNamespace(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a namespace that policies read. Only annotations whose keys are among `asked` are present."""

    read: Namespace
    asked: frozenset[str]
    resource_version: str

    @property
    def name(self) -> str:
        return self.read.name

    @property
    def namespace(self) -> str:
        return ""

    @property
    def uid(self) -> str:
        """The name: namespaces are identified by name here, since nothing is written to them."""
        return self.read.name

    @property
    def metadata(self) -> "KnownNamespace":
        return self


def keeping(kept_keys: Callable[[], frozenset[str]]) -> Callable[[NamespaceMetadata], KnownNamespace]:
    """A transform that keeps those annotations of a namespace whose keys are wanted at that moment."""

    def reduce(sent: NamespaceMetadata) -> KnownNamespace:
        meta, wanted = sent.metadata, kept_keys()
        annotations = {key: meta.annotations[key] for key in wanted if key in meta.annotations}
        return KnownNamespace(
            read=Namespace(meta.name, meta.labels, annotations), asked=wanted, resource_version=meta.resource_version
        )

    return reduce


def annotation_keys(policies: Iterable[JobSetPolicy]) -> frozenset[str]:
    """Keys of the annotations of namespaces that hold limits of these policies."""
    found = (record for policy in policies for _, record in records(policy.spec.rules, SPEC))
    keys = (record.from_namespace_annotation for record in found if isinstance(record, Limit))
    return frozenset(filter(None, keys))


DEFAULT: Final = "default"
"""The namespace of manifests that name none."""


def namespace_of(name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Namespace:
    """A namespace with the label of its name that the API server sets."""
    return Namespace(name, {**({NAMESPACE_NAME: name} if name else {}), **labels}, dict(annotations))
