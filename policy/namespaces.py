"""Namespaces as policies read them: their labels, and the annotations that a policy names. Pure."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from kube.model.meta import Base
from policy.judged import Namespace
from policy.rule_types import Limit
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
    """A namespace as far as policies read it. Annotations are there only if their keys are among `asked`."""

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
        """Namespaces are known by their names here; nothing is written that a UID would have to guard."""
        return self.read.name

    @property
    def metadata(self) -> "KnownNamespace":
        return self


def keeping(asked: Callable[[], frozenset[str]]) -> Callable[[NamespaceMetadata], KnownNamespace]:
    """A transform that keeps, of a namespace's annotations, those whose keys are asked for at that moment."""

    def kept(sent: NamespaceMetadata) -> KnownNamespace:
        meta, wanted = sent.metadata, asked()
        annotations = {key: meta.annotations[key] for key in wanted if key in meta.annotations}
        return KnownNamespace(
            read=Namespace(meta.name, meta.labels, annotations), asked=wanted, resource_version=meta.resource_version
        )

    return kept


def annotation_keys(policies: Iterable[JobSetPolicy]) -> frozenset[str]:
    """Keys of the annotations of namespaces that hold limits of these policies."""
    limits = (limit for policy in policies for limit in _limits(policy.spec.rules))
    return frozenset(limit.from_namespace_annotation for limit in limits if limit.from_namespace_annotation)


def _limits(value: object) -> Iterator[Limit]:
    """The limits in a rule, and in what it holds."""
    if isinstance(value, tuple):
        for item in value:
            yield from _limits(item)
    elif isinstance(value, msgspec.Struct):
        if isinstance(value, Limit):
            yield value
        for name in value.__struct_fields__:
            yield from _limits(getattr(value, name))
