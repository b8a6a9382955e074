"""Checks type and metadata, which the API server checks before the spec.

In a cluster no webhook gets an object that breaks these rules, so the engine of the webhook does not check them.
Refused values are left out of the object that the other checks get. Pure.
"""

from collections.abc import Iterator
from typing import Any

from api.keys import API_VERSION, GROUP, KIND
from kube.model.field import ErrorType, FieldError, Layer, Path, Rule
from kube.model.meta import JSON
from kube.model.validation import byte_length, dns1123_label, dns1123_subdomain, label_value, qualified_name

MAX_ANNOTATIONS = 256 * 1024
"""The maximum size of all annotations of an object in bytes, keys included."""
_METADATA = Path(("metadata",))


def _rule(name: str, kind: ErrorType, message: str, fix: str, source: str = "API: object metadata") -> Rule:
    return Rule(name, kind, message, fix, source, Layer.SCHEMA)


_RESOURCE = "docs/reference/api.md#resource"
API_VERSION_RULE = _rule(
    "api-version",
    ErrorType.NOT_SUPPORTED,
    f'JobSets are served as "{API_VERSION}"',
    f"write `apiVersion: {API_VERSION}`",
    _RESOURCE,
)
KIND_RULE = _rule(
    "kind", ErrorType.NOT_SUPPORTED, f'the kind of such an object is "{KIND}"', f"write `kind: {KIND}`", _RESOURCE
)
NAME_REQUIRED = _rule(
    "metadata-name-required",
    ErrorType.REQUIRED,
    "name or generateName is required",
    "give the JobSet a name, such as `name: training`",
)
NAME = _rule("metadata-name", ErrorType.INVALID, "{complaint}", "use lower case letters, digits and '-'")
NAMESPACE = _rule(
    "metadata-namespace",
    ErrorType.INVALID,
    'the namespace asked for with -n is "{asked}"',
    "leave out one of them",
    "kubectl: -n must agree with the manifest",
)
TEXT = _rule("metadata-type", ErrorType.TYPE_INVALID, "must be {wanted}", "{fix}")
KEY = _rule(
    "metadata-key",
    ErrorType.INVALID,
    "{complaint}",
    "a key is NAME or PREFIX/NAME, where PREFIX is a DNS name such as example.com",
)
LABEL_VALUE = _rule("metadata-label-value", ErrorType.INVALID, "{complaint}", "put free text into an annotation")
ANNOTATIONS_TOO_LONG = _rule(
    "metadata-annotations-size",
    ErrorType.TOO_LONG,
    f"may not be more than {MAX_ANNOTATIONS} bytes",
    "keep large texts in a ConfigMap",
)
STAND_IN = "x"
"""Replaces an invalid name, so that names that are derived from it are not reported, too."""


def check_object(obj: JSON, namespace: str = "") -> tuple[list[FieldError], JSON]:
    """The API server's errors about type and metadata, and the object without the refused values.

    `namespace`: the namespace of the command line, for a manifest without one.
    """
    errors = list(_type_faults(obj))
    metadata = obj.get("metadata") or {}
    if not isinstance(metadata, dict):
        errors.append(
            TEXT.at(_METADATA, metadata, wanted="a mapping", fix="write `metadata:` and `name: NAME` under it")
        )
        metadata = {"name": STAND_IN}
    other_fields: JSON = {key: value for key, value in metadata.items() if key not in {"labels", "annotations"}}
    if name_faults := list(_name_faults(metadata)):
        errors += name_faults
        other_fields["name"] = STAND_IN
    namespace_path = _METADATA.at("namespace")
    if not isinstance(other_fields.get("namespace", ""), str | None):
        errors.append(_not_a_text(namespace_path, other_fields.pop("namespace")))
    elif stated := other_fields.get("namespace"):
        errors += [NAME.at(namespace_path, stated, complaint=complaint) for complaint in dns1123_label(stated)]
    for key in ("labels", "annotations"):
        faults, valid_pairs = _checked_pairs(key, metadata.get(key))
        errors += faults
        other_fields |= {key: valid_pairs} if valid_pairs else {}
    if namespace and (other_fields.get("namespace") or namespace) != namespace:
        errors.append(NAMESPACE.at(namespace_path, other_fields["namespace"], asked=namespace))
    elif namespace:
        other_fields["namespace"] = namespace
    return errors, {**obj, "apiVersion": API_VERSION, "kind": KIND, "metadata": other_fields}


def _type_faults(obj: JSON) -> Iterator[FieldError]:
    if obj.get("apiVersion") != API_VERSION:
        yield API_VERSION_RULE.at(Path(("apiVersion",)), obj.get("apiVersion"))
    if obj.get("kind") != KIND:
        yield KIND_RULE.at(Path(("kind",)), obj.get("kind"))


def _name_faults(metadata: JSON) -> Iterator[FieldError]:
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if name is None and prefix is None:
        yield NAME_REQUIRED.at(_METADATA.at("name"))
    for key, value in (("name", name), ("generateName", prefix)):
        if not isinstance(value, str | None):
            yield _not_a_text(_METADATA.at(key), value)
    if isinstance(name, str) and (name or not prefix):
        yield from _name_errors(_METADATA.at("name"), name, name)
    elif isinstance(prefix, str) and not name:
        yield from _name_errors(_METADATA.at("generateName"), prefix, f"{prefix}x")


def _name_errors(path: Path, value: str, text: str) -> Iterator[FieldError]:
    if not value:
        yield NAME_REQUIRED.at(path)
        return
    for complaint in dns1123_subdomain(text):
        yield NAME.at(path, value, complaint=complaint)


def _checked_pairs(field: str, pairs: Any) -> tuple[list[FieldError], dict[str, str]]:
    """Faults of labels or annotations, and the pairs whose value is a text. `field`: their field of the metadata."""
    path = _METADATA.at(field)
    if pairs is None:
        return [], {}
    if not isinstance(pairs, dict):
        fix = "write one `key: value` a line"
        return [TEXT.at(path, pairs, wanted="a mapping of texts", fix=fix)], {}
    errors: list[FieldError] = []
    texts: dict[str, str] = {}
    for key, value in pairs.items():
        errors += [KEY.at(path.at(key), key, complaint=complaint) for complaint in qualified_name(key)]
        if isinstance(value, str):
            texts[key] = value
        elif value is not None:
            errors.append(_not_a_text(path.at(key), value))
    if field == "labels":
        for key, value in texts.items():
            errors += [LABEL_VALUE.at(path.at(key), value, complaint=complaint) for complaint in label_value(value)]
    elif sum(byte_length(key) + byte_length(value) for key, value in texts.items()) > MAX_ANNOTATIONS:
        errors.append(ANNOTATIONS_TOO_LONG.at(path))
    return errors, texts


def _not_a_text(path: Path, value: Any) -> FieldError:
    """The error about a value that has to be a text."""
    is_number = isinstance(value, int | float)
    return TEXT.at(path, value, wanted="a text", fix="quote it" if is_number else "write a text")


def is_jobset(obj: JSON) -> bool:
    """Whether an object is a JobSet, or is probably meant to be one: its API group, or its fields if it has no kind."""
    if obj.get("kind") == KIND:
        return True
    if str(obj.get("apiVersion", "")).partition("/")[0] == GROUP:
        return obj.get("kind") != f"{KIND}List"
    spec = obj.get("spec")
    return not obj.get("kind") and isinstance(spec, dict) and "replicatedJobs" in spec
