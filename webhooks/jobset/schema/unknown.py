"""Unknown fields, which the CRD's schema does not have, and the fields that their author likely meant.

The API server drops unknown fields unless validation is strict, so a manifest does less than its author thinks. This
module is for manifests before they are sent: the API server has pruned the objects that a webhook gets.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from kube.model.field import ErrorType, FieldError, Layer, Parts, Path, Rule, quote
from kube.model.meta import JSON
from kube.model.suggest import Comparison, did_you_mean, nearest
from webhooks.jobset.schema.words import INT_OR_STRING, type_name

MAX_UNKNOWN = 500
"""The most unknown fields that are reported for one object."""
_SOURCE = "CRD schema"
_CERTAIN_LIKENESS = 0.85
"""The similarity from which an unknown name is a misspelling, even if another object has a field of this name."""

_MESSAGE = 'unknown field "{field}"'
UNKNOWN = Rule("schema-unknown-field", ErrorType.INVALID, _MESSAGE, "{guess}", _SOURCE, Layer.SCHEMA)
MISPLACED = Rule("schema-misplaced-field", ErrorType.INVALID, _MESSAGE, "it belongs to {place}", _SOURCE, Layer.SCHEMA)

_METADATA_FIELDS = (
    "name", "namespace", "labels", "annotations", "generateName", "finalizers", "ownerReferences", "creationTimestamp",
    "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink",
    "uid",
)  # fmt: skip
_NAME_BY_FORMER_NAME = {"jobs": "replicatedJobs"}
"""Present names of fields by their names in v1alpha1."""
_TRAINING_KIND_BY_FIELD = {
    "pytorchReplicaSpecs": "a PyTorchJob", "mpiReplicaSpecs": "an MPIJob", "tfReplicaSpecs": "a TFJob",
    "xgbReplicaSpecs": "an XGBoostJob", "runPolicy": "a training job such as PyTorchJob",
}  # fmt: skip
"""Fields in the spec of other training jobs, and the kind that has them. They resemble no field of a JobSet."""
_CONVERT_HINT = "it belongs to {kind}: `jobset init --from FILE` makes a JobSet of a PyTorchJob, an MPIJob or a Job"
_Location = tuple[str, ...]
"""The path of a node in the schema: member names, `*` for the items of a list or the values of a map."""


class UnknownFields:
    """Finds the unknown fields of objects of one schema."""

    def __init__(self, schema: JSON) -> None:
        metadata = {"type": "object", "properties": {name: {} for name in _METADATA_FIELDS}}
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
        """One finding for each unknown field, at most 500. Fields inside an unknown field are not reported."""
        return list(islice(self._walk(obj, self._schema, ()), MAX_UNKNOWN))

    def with_right_names(self, obj: Any) -> tuple[Any, list[tuple[FieldError, str]]]:
        """The object with misspelled fields renamed, and for each of these fields a finding and its right name.

        A field is renamed if the object has no field of the right name, and that field accepts the value's type. Paths
        of findings have the right names. Checks at most 500 unknown fields.
        """
        respelling = _Respelling(self._right_name)
        return respelling.respell(obj, self._schema, Path()), respelling.findings

    def _right_name(self, name: str, value: JSON, properties: JSON, path: Path) -> tuple[FieldError, str] | None:
        """The finding about an unknown member of `value`, and its right name; None if it keeps its name."""
        right_name = _likely_name(name, properties)
        if not right_name or right_name in value or not _accepts_type(value[name], properties[right_name]):
            return None
        finding = self._finding(name, value[name], properties, path)
        return (finding, right_name) if finding.rule is UNKNOWN else None

    def _walk(self, value: Any, node: JSON, path: Parts) -> Iterator[FieldError]:
        if isinstance(value, list) and "items" in node:
            for i, item in enumerate(value):
                yield from self._walk(item, node["items"], (*path, i))
        elif isinstance(value, dict) and node.get("type") == "object":
            properties, other_members = node.get("properties", {}), node.get("additionalProperties")
            training_fields = [
                name for name in _TRAINING_KIND_BY_FIELD if name in value and _is_of_training_job(name, properties)
            ]
            for name, member in value.items():
                child = properties.get(name, other_members)
                if child is not None:
                    yield from self._walk(member, child, (*path, name))
                elif name not in training_fields[1:]:  # one field is enough to recognise the kind
                    yield self._finding(name, member, properties, Path(path))

    def _finding(self, name: str, value: Any, properties: JSON, path: Path) -> FieldError:
        """The finding about an unknown field of an object at `path` whose schema has these `properties`."""
        likely_name = _likely_name(name, properties)
        is_former = bool(likely_name) and _NAME_BY_FORMER_NAME.get(name) == likely_name
        is_misspelling = is_former or Comparison(name).likeness(likely_name) >= _CERTAIN_LIKENESS
        if not is_misspelling and (location := self._nearest_holder(name, value, path)):
            finding = MISPLACED.at(path.at(name), value, field=name, place=location)
        else:
            if _is_of_training_job(name, properties):
                guess = _CONVERT_HINT.format(kind=_TRAINING_KIND_BY_FIELD[name])
            elif likely_name:
                guess = f"did you mean {quote(likely_name)}?"
            else:
                guess = did_you_mean(name, properties, intro="the fields here are")
            finding = UNKNOWN.at(path.at(name), value, field=name, guess=guess or "remove it")
        return replace(finding, verbatim=finding.detail)

    def _nearest_holder(self, name: str, value: Any, path: Path) -> str:
        """The path of the nearest object whose field of this name accepts the value's type; empty if there is none."""
        own_location = tuple("*" if isinstance(part, int) else part for part in path.parts)
        fitting_fields = [
            each for each in self._locations.get(name, ()) if _accepts_type(value, each[1]) and each[0] != own_location
        ]
        if not fitting_fields:
            return ""
        location, _ = min(
            fitting_fields, key=lambda each: _distance(own_location, each[0], in_enum=value in each[1].get("enum", ()))
        )
        common = _common_length(own_location, location)
        text = str(Path(path.parts[:common]))
        for part in location[common:]:
            text += "[*]" if part == "*" else f".{part}" if text else part
        return text or "the top level"


def _is_of_training_job(name: str, properties: JSON) -> bool:
    """Whether `name`, in an object whose schema has these `properties`, is a field of another training job."""
    return name in _TRAINING_KIND_BY_FIELD and "replicatedJobs" in properties


def _likely_name(name: str, properties: JSON) -> str:
    """The name among `properties` that the author likely meant; empty if there is none."""
    present_name = _NAME_BY_FORMER_NAME.get(name, "")
    if present_name in properties or _is_of_training_job(name, properties):
        return present_name
    return nearest(name, properties)


class _Respelling:
    """Renames the misspelled fields of one object. `right_name`: see `UnknownFields`."""

    def __init__(self, right_name: Callable[[str, JSON, JSON, Path], tuple[FieldError, str] | None]) -> None:
        self.findings: list[tuple[FieldError, str]] = []
        self._right_name = right_name
        self._checks_left = MAX_UNKNOWN

    def respell(self, value: Any, node: JSON, path: Path) -> Any:
        if isinstance(value, list) and "items" in node:
            return [self.respell(item, node["items"], path.at(i)) for i, item in enumerate(value)]
        if not isinstance(value, dict) or node.get("type") != "object":
            return value
        properties, other_members = node.get("properties", {}), node.get("additionalProperties")
        respelled: JSON = {}
        for name, member in value.items():
            new_name, child = name, properties.get(name, other_members)
            if child is None and self._checks_left:
                self._checks_left -= 1
                correction = self._right_name(name, value, properties, path)
                if correction and correction[1] not in respelled:
                    self.findings.append(correction)
                    new_name = correction[1]
                    child = properties[new_name]
            respelled[new_name] = member if child is None else self.respell(member, child, path.at(new_name))
        return respelled


def _accepts_type(value: Any, node: JSON) -> bool:
    """Whether a node accepts the type of a value."""
    kind = type_name(value)
    return kind in {"null", node.get("type")} or (INT_OR_STRING in node and kind in {"integer", "string"})


def _common_length(own_location: _Location, other: _Location) -> int:
    """Number of leading parts that two locations have in common."""
    pairs = zip(own_location, other, strict=False)
    return next(
        (i for i, (part, other_part) in enumerate(pairs) if part != other_part), min(len(own_location), len(other))
    )


def _distance(own_location: _Location, other: _Location, *, in_enum: bool) -> tuple[int, bool, int]:
    """Sort key of the distance from one location to another: the steps, then `in_enum`, then the steps up.

    `in_enum`: whether the field at `other` has the value in its enum, which makes the field nearer.
    """
    steps_up = len(own_location) - _common_length(own_location, other)
    return steps_up + len(other) - _common_length(own_location, other), not in_enum, steps_up
