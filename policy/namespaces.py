"""Records of namespaces with their labels and the annotations that policies name. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from api.keys import NAMESPACE_NAME
from kube.model.field import SPEC
from kube.model.meta import Identity, PartialObjectMetadata
from policy.fields import records
from policy.judged import Namespace
from policy.limits import Limit
from policy.types import JobSetPolicy


class KnownNamespace(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a namespace that policies read. It has only annotations whose keys are in `annotation_keys`."""

    metadata: Identity
    namespace: Namespace
    annotation_keys: frozenset[str]


class NamespaceMetadata(PartialObjectMetadata, frozen=True, kw_only=True):
    """A namespace of which only the metadata is read."""

    def known(self, annotation_keys: frozenset[str]) -> KnownNamespace:
        """The fields of the namespace that policies read, with the annotations that have these keys."""
        meta = self.metadata
        return KnownNamespace(
            metadata=Identity(name=meta.name, uid=meta.uid, resource_version=meta.resource_version),
            namespace=Namespace(
                meta.name, meta.labels, {key: text for key, text in meta.annotations.items() if key in annotation_keys}
            ),
            annotation_keys=annotation_keys,
        )


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
