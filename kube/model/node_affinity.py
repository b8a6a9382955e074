"""Which nodes pods may use, in the words of core/v1: tolerations and required node affinity. Pure."""

import msgspec

from kube.model.meta import Base


class Toleration(Base, frozen=True, kw_only=True):
    """core/v1 Toleration. An empty key with operator Exists tolerates all taints, an empty effect all effects."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, key: str, value: str, effect: str) -> bool:
        if (self.effect and self.effect != effect) or (self.key and self.key != key):
            return False
        return self.operator == "Exists" or self.value == value


class Requirement(Base, frozen=True, kw_only=True):
    """core/v1 NodeSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.key} {self.operator}" + (f" [{', '.join(self.values)}]" if self.values else "")

    def is_met(self, value: str | None) -> bool:
        """Whether the value of a label meets the requirement; None: the node lacks the label."""
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        try:
            number, limit = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return number > limit if self.operator == "Gt" else number < limit


class Term(Base, frozen=True, kw_only=True):
    """core/v1 NodeSelectorTerm: all requirements have to be met. `match_fields` are about metadata.name only."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    def __str__(self) -> str:
        return " and ".join(map(str, (*self.match_expressions, *self.match_fields)))

    def is_met(self, name: str, labels: dict[str, str]) -> bool:
        """Whether a node with this name and labels meets the term. No node meets an empty term."""
        return (
            all(requirement.is_met(labels.get(requirement.key)) for requirement in self.match_expressions)
            and all(requirement.is_met(name) for requirement in self.match_fields)
            and bool(self.match_expressions or self.match_fields)
        )


class _NodeSelector(Base, frozen=True, kw_only=True):
    node_selector_terms: tuple[Term, ...] = ()


class NodeAffinity(Base, frozen=True, kw_only=True):
    """core/v1 NodeAffinity, the required part."""

    required: _NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms; a node has to meet one of them."""
        return () if self.required is None else self.required.node_selector_terms

    def is_met(self, name: str, labels: dict[str, str]) -> bool:
        """Whether the affinity allows a node with this name and labels."""
        return self.required is None or any(term.is_met(name, labels) for term in self.terms)
