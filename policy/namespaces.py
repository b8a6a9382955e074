"""Records of namespaces with their labels and the annotations that policies name. Pure."""

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
    """The metadata of a namespace."""

    metadata: _Meta


class KnownNamespace(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a namespace that policies read. It has only annotations whose keys are in `asked`."""

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
        """The name of the namespace. It is enough to identify a namespace that is only read."""
        return self.read.name

    @property
    def metadata(self) -> "KnownNamespace":
        return self


def keeping(kept_keys: Callable[[], frozenset[str]]) -> Callable[[NamespaceMetadata], KnownNamespace]:
    """A function that drops all annotations of a namespace but those whose keys `kept_keys` returns at the time."""

    def reduce(namespace: NamespaceMetadata) -> KnownNamespace:
        meta, keys = namespace.metadata, kept_keys()
        annotations = {key: meta.annotations[key] for key in keys if key in meta.annotations}
        return KnownNamespace(
            read=Namespace(meta.name, meta.labels, annotations), asked=keys, resource_version=meta.resource_version
        )

    return reduce


def annotation_keys(policies: Iterable[JobSetPolicy]) -> frozenset[str]:
    """The keys of annotations of namespaces in which limits of these policies are written."""
    all_records = (record for policy in policies for _, record in records(policy.spec.rules, SPEC))
    keys = (record.from_namespace_annotation for record in all_records if isinstance(record, Limit))
    return frozenset(filter(None, keys))


DEFAULT: Final = "default"
"""The namespace of manifests without a namespace."""


def namespace_of(name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Namespace:
    """A namespace with these labels and with the label of its name, which the API server sets."""
    return Namespace(name, {**({NAMESPACE_NAME: name} if name else {}), **labels}, dict(annotations))
