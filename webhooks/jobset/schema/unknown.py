"""Unknown fields: those that the CRD's schema does not have, and what was likely meant.

The API server drops such fields unless validation is strict, so that a manifest with one does less than its author
thinks. For use before sending: an object in a webhook has been pruned already.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from kube.model.field import ErrorType, FieldError, Layer, Path, Rule, quote
from kube.model.meta import JSON
from kube.model.suggest import Comparison, did_you_mean, nearest
from webhooks.jobset.schema.words import INT_OR_STRING, type_name

MAX_UNKNOWN = 500
_SOURCE = "CRD schema"
_CERTAIN = 0.85
"""Similarity of two names at which one counts as a misspelling of the other."""

_MESSAGE = 'unknown field "{field}"'
UNKNOWN = Rule("schema-unknown-field", ErrorType.INVALID, _MESSAGE, "{guess}", _SOURCE, Layer.SCHEMA)
MISPLACED = Rule("schema-misplaced-field", ErrorType.INVALID, _MESSAGE, "it belongs to {place}", _SOURCE, Layer.SCHEMA)

_METADATA = (
    "name", "namespace", "labels", "annotations", "generateName", "finalizers", "ownerReferences", "creationTimestamp",
    "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink",
    "uid",
)  # fmt: skip
_FORMER = {"jobs": "replicatedJobs"}
"""Names in v1alpha1."""
_TRAINING = {
    "pytorchReplicaSpecs": "a PyTorchJob", "mpiReplicaSpecs": "an MPIJob", "tfReplicaSpecs": "a TFJob",
    "xgbReplicaSpecs": "an XGBoostJob", "runPolicy": "a training job such as PyTorchJob",
}  # fmt: skip
"""Fields in the spec of other training jobs, which resemble none of ours, with the kind that has them."""
_CONVERT = "it belongs to {kind}: `jobset init --from FILE` makes a JobSet of a PyTorchJob, an MPIJob or a Job"
_Parts = tuple[str | int, ...]
_Location = tuple[str, ...]
"""The path of a node in the schema: member names, `*` for the items of a list or the values of a map."""


class UnknownFields:
    """Finds the unknown fields of objects of one schema."""

    def __init__(self, schema: JSON) -> None:
        metadata = {"type": "object", "properties": {name: {} for name in _METADATA}}
        self._schema = {**schema, "properties": {**schema["properties"], "metadata": metadata}}
        self._locations: Mapping[str, list[tuple[_Location, JSON]]] = defaultdict(list)
        self._index(schema, ())

    def _index(self, node: JSON, location: _Location) -> None:
        for name, child in node.get("properties", {}).items():
            self._locations[name].append((location, child))
            self._index(child, (*location, name))
        for key in ("items", "additionalProperties"):
            if key in node:
                self._index(node[key], (*location, "*"))

    def find(self, obj: Any) -> list[FieldError]:
        """One finding per unknown field, at most 500; fields inside an unknown one are not reported."""
        return list(islice(self._walk(obj, self._schema, ()), MAX_UNKNOWN))

    def respelt(self, obj: Any) -> tuple[Any, list[tuple[FieldError, str]]]:
        """The object with misspelt fields renamed as they were meant, and a finding with the name for each.

        A field gets the suggested name if that one is absent and accepts its type. Paths of findings have the right
        names. Checks at most 500 unknown fields.
        """
        respelling = _Respelling(self._right_name)
        return respelling.respell(obj, self._schema, Path()), respelling.found

    def _right_name(self, name: str, value: JSON, known: JSON, path: Path) -> tuple[FieldError, str] | None:
        close = _meant(name, known)
        if not close or close in value or not _fits(value[name], known[close]):
            return None
        finding = self._finding(name, value[name], known, path)
        return (finding, close) if finding.rule is UNKNOWN else None

    def _walk(self, value: Any, node: JSON, path: _Parts) -> Iterator[FieldError]:
        if isinstance(value, list) and "items" in node:
            for i, item in enumerate(value):
                yield from self._walk(item, node["items"], (*path, i))
        elif isinstance(value, dict) and node.get("type") == "object":
            known, extra = node.get("properties", {}), node.get("additionalProperties")
            training = [name for name in _TRAINING if name in value and _is_of_training(name, known)]
            for name, member in value.items():
                child = known.get(name, extra)
                if child is not None:
                    yield from self._walk(member, child, (*path, name))
                elif name not in training[1:]:  # one field is enough to recognise the kind
                    yield self._finding(name, member, known, Path(path))

    def _finding(self, name: str, value: Any, known: JSON, path: Path) -> FieldError:
        close = _meant(name, known)
        sure = (bool(close) and _FORMER.get(name) == close) or Comparison(name).likeness(close) >= _CERTAIN
        if not sure and (location := self._belongs(name, value, path)):
            found = MISPLACED.at(path.at(name), value, field=name, place=location)
        else:
            if _is_of_training(name, known):
                guess = _CONVERT.format(kind=_TRAINING[name])
            elif close:
                guess = f"did you mean {quote(close)}?"
            else:
                guess = did_you_mean(name, known, intro="the fields here are")
            found = UNKNOWN.at(path.at(name), value, field=name, guess=guess or "remove it")
        return replace(found, verbatim=found.detail)

    def _belongs(self, name: str, value: Any, path: Path) -> str:
        """The nearest object that has such a field, for a value of this type; empty if there is none."""
        own = tuple("*" if isinstance(part, int) else part for part in path.parts)
        fitting = [each for each in self._locations.get(name, ()) if _fits(value, each[1]) and each[0] != own]
        if not fitting:
            return ""
        location, _ = min(fitting, key=lambda each: _distance(own, each[0], chosen=value in each[1].get("enum", ())))
        common = _common(own, location)
        text = str(Path(path.parts[:common]))
        for part in location[common:]:
            text += "[*]" if part == "*" else f".{part}" if text else part
        return text or "the top level"


def _is_of_training(name: str, known: JSON) -> bool:
    return name in _TRAINING and "replicatedJobs" in known


def _meant(name: str, known: JSON) -> str:
    """The known name that was likely meant; empty for none."""
    former = _FORMER.get(name, "")
    if former in known or _is_of_training(name, known):
        return former
    return nearest(name, known)


class _Respelling:
    """Renames the misspelt fields of one object.

    `meant`: the finding about a member and its name, None if it is kept.
    """

    def __init__(self, meant: Callable[[str, JSON, JSON, Path], tuple[FieldError, str] | None]) -> None:
        self.found: list[tuple[FieldError, str]] = []
        self._right_name = meant
        self._looks = MAX_UNKNOWN

    def respell(self, value: Any, node: JSON, path: Path) -> Any:
        if isinstance(value, list) and "items" in node:
            return [self.respell(item, node["items"], path.at(i)) for i, item in enumerate(value)]
        if not isinstance(value, dict) or node.get("type") != "object":
            return value
        known, extra = node.get("properties", {}), node.get("additionalProperties")
        respelt: JSON = {}
        for name, member in value.items():
            own, child = name, known.get(name, extra)
            if child is None and self._looks:
                self._looks -= 1
                meant = self._right_name(name, value, known, path)
                if meant and meant[1] not in respelt:
                    self.found.append(meant)
                    own = meant[1]
                    child = known[own]
            respelt[own] = member if child is None else self.respell(member, child, path.at(own))
        return respelt


def _fits(value: Any, node: JSON) -> bool:
    found = type_name(value)
    return found in {"null", node.get("type")} or (INT_OR_STRING in node and found in {"integer", "string"})


def _common(own: _Location, there: _Location) -> int:
    """Number of leading parts that two paths have in common."""
    pairs = zip(own, there, strict=False)
    return next((i for i, (mine, other) in enumerate(pairs) if mine != other), min(len(own), len(there)))


def _distance(own: _Location, other: _Location, *, chosen: bool) -> tuple[int, bool, int]:
    """Steps from one path to the other. `chosen`: whether the value is one of the field's enum there.

    With equal distance, those count as nearer, then the one with fewer steps up.
    """
    up = len(own) - _common(own, other)
    return up + len(other) - _common(own, other), not chosen, up
