"""The CustomResourceDefinitions, derived from the records in api/jobset.py and policy/.

See docs/reference/api.md and docs/policy/README.md.

A field's type, requiredness, description and keywords come from its record. Some keywords are only for this module, and
are not part of the schema: `x-required` (the schema requires a field for which the decoder has a default), `x-since-go`
(the Go JobSet lacks the field), and `x-openapi` or `x-openapi-items` (the field is a Kubernetes type, see embedded.py).
"""

import inspect
from typing import Any, cast

import msgspec
from msgspec import inspect as mi

from api.jobset import JobSet
from api.keys import API_VERSION, KIND, PLURAL
from kube.model.meta import SINCE_GO, Condition, ObjectMeta
from manifests.embedded import INT_OR_STRING, Schema, embedded_schema
from manifests.naming import Object, obj
from policy import kinds

_COLUMNS: list[Object] = [
    {"name": "TerminalState", "type": "string", "jsonPath": ".status.terminalState"},
    {"name": "Restarts", "type": "string", "jsonPath": ".status.restarts"},
    {"name": "Completed", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Completed")].status'},
    {"name": "Suspended", "type": "string", "jsonPath": ".spec.suspend"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    # After the columns of the Go JobSet, which keep their places. Priority 1: only with -o wide.
    {"name": "Ready", "type": "string", "jsonPath": ".status.readyJobs"},
    {"name": "Stage", "type": "string", "jsonPath": ".status.currentStage"},
    {"name": "Attempts", "type": "integer", "jsonPath": ".status.executionAttempts", "priority": 1},
    {"name": "Failure", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Failed")].reason', "priority": 1},
    {"name": "Managed-By", "type": "string", "jsonPath": ".spec.managedBy", "priority": 1},
    {"name": "Spares", "type": "integer", "jsonPath": ".status.spares[0].ready", "priority": 1},
    {"name": "Spares-Missing", "type": "integer", "jsonPath": ".status.spares[0].missing", "priority": 1},
    {"name": "Spares-Used", "type": "integer", "jsonPath": ".status.spares[0].used", "priority": 1},
]
_POLICY_COLUMNS: list[Object] = [
    {"name": "Actions", "type": "string", "jsonPath": ".spec.validationActions"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Denied", "type": "integer", "jsonPath": ".status.denied"},
    {"name": "Warned", "type": "integer", "jsonPath": ".status.warned"},
    {"name": "Violations", "type": "integer", "jsonPath": ".status.audit.violations"},
    {"name": "Reviews-From", "type": "string", "jsonPath": ".status.reviewsFrom"},
    {"name": "Last-Seen", "type": "date", "jsonPath": ".status.lastSeen"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
_EXCEPTION_COLUMNS: list[Object] = [
    {"name": "Policy", "type": "string", "jsonPath": ".spec.policy"},
    {"name": "Rules", "type": "string", "jsonPath": ".spec.rules"},
    {"name": "Expires", "type": "string", "jsonPath": ".spec.expiresAt"},
    {"name": "State", "type": "string", "jsonPath": '.status.conditions[?(@.type=="InForce")].reason'},
    {"name": "First-Used", "type": "date", "jsonPath": ".status.firstUsed"},
    {"name": "Reviews-From", "type": "string", "jsonPath": ".status.reviewsFrom"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
# Only other controllers (spec.managedBy) write observedGeneration, so the record `Condition` has no such field.
_OBSERVED_GENERATION: Schema = {
    "type": "integer",
    "format": "int64",
    "minimum": 0,
    "description": "Generation of the object that the condition is about.",
}

ABSENT_IN_GO = "Not in the Go JobSet."


def _schema_without_keywords(node: mi.Type) -> Schema:
    """The schema of a type that has no keywords of its own. The only union with two types is integer or string."""
    if isinstance(node, mi.StructType):
        return _struct_schema(node)
    if isinstance(node, mi.UnionType):
        types = [t for t in node.types if not isinstance(t, mi.NoneType)]
        return schema_of(types[0]) if len(types) == 1 else dict(INT_OR_STRING)
    if isinstance(node, mi.VarTupleType):
        return {"type": "array", "items": schema_of(node.item_type)}
    if isinstance(node, mi.DictType):
        return {"type": "object"}
    scalars = {mi.StrType: "string", mi.IntType: "integer", mi.BoolType: "boolean"}
    return {"type": scalars[type(node)]}


def _keywords(node: mi.Type) -> dict[str, Any]:
    return dict(node.extra_json_schema or {}) if isinstance(node, mi.Metadata) else {}


def schema_of(node: mi.Type) -> Schema:
    """The structural schema of a type as `msgspec.inspect` describes it."""
    if not isinstance(node, mi.Metadata):
        return _schema_without_keywords(node)
    keywords = _keywords(node)
    keywords.pop("x-required", None)
    if root := keywords.pop("x-openapi", None):
        return embedded_schema(root) | keywords
    schema = _schema_without_keywords(node.type)
    if root := keywords.pop("x-openapi-items", None):
        schema["items"] = embedded_schema(root)
    return schema | keywords


def _struct_schema(node: mi.StructType) -> Schema:
    if node.cls is ObjectMeta:
        return {"type": "object"}
    schema: Schema = {"type": "object", "description": inspect.cleandoc(node.cls.__doc__ or "")}
    if node.fields:  # the API server keeps no empty list
        schema["properties"] = {field.encode_name: schema_of(field.type) for field in node.fields}
    if node.cls is Condition:
        schema["properties"]["observedGeneration"] = _OBSERVED_GENERATION
    required = [field.encode_name for field in node.fields if field.required or "x-required" in _keywords(field.type)]
    if required:
        schema["required"] = required
    return schema


def _object_schema(record: type[msgspec.Struct], api_version: str, kind: str) -> Schema:
    """The schema of an object with apiVersion and kind."""
    root = schema_of(mi.type_info(record))
    type_fields = {
        "apiVersion": {"type": "string", "description": f"Group and version of the object: {api_version}."},
        "kind": {"type": "string", "description": f"Kind of the object: {kind}."},
    }
    root["properties"] = type_fields | root["properties"]
    return cast("Schema", msgspec.json.decode(msgspec.json.encode(root)))


def jobset_schema() -> Schema:
    """The schema of JobSets, with `x-since-go` at the fields that the Go JobSet does not have."""
    return _object_schema(JobSet, API_VERSION, KIND)


def _replace_go_marks(node: Any) -> Any:
    """The schema for an API server, in which a sentence of the description replaces `x-since-go`."""
    if isinstance(node, list):
        return list(map(_replace_go_marks, node))
    if not isinstance(node, dict):
        return node
    described = {key: _replace_go_marks(value) for key, value in node.items() if key != SINCE_GO}
    return described | {"description": f"{node['description']} {ABSENT_IN_GO}"} if SINCE_GO in node else described


def crd() -> Object:
    """CustomResourceDefinition `jobsets.jobset.x-k8s.io`, with one version and without a conversion webhook."""
    root = _replace_go_marks(jobset_schema())
    root.pop("required", None)
    definition = _definition(API_VERSION, KIND, PLURAL, "Namespaced", root, _COLUMNS)
    definition["spec"]["names"]["shortNames"] = ["js"]
    return definition


def policy_crd() -> Object:
    """CustomResourceDefinition `jobsetpolicies.policy.jobset.x-k8s.io`, which is optional in a cluster."""
    from policy import types as policy  # noqa: PLC0415 (all rules, which JobSets alone do not need)

    root = _object_schema(policy.JobSetPolicyObject, kinds.API_VERSION, kinds.KIND) | {"required": ["spec"]}
    return _definition(kinds.API_VERSION, kinds.KIND, kinds.PLURAL, "Cluster", root, _POLICY_COLUMNS)


def exception_crd() -> Object:
    """CustomResourceDefinition `jobsetpolicyexceptions.policy.jobset.x-k8s.io`, installed with the CRD of policies."""
    from policy import exception_types as exception  # noqa: PLC0415 (the same)

    kind, plural = kinds.EXCEPTION_KIND, kinds.EXCEPTION_PLURAL
    root = _object_schema(exception.JobSetPolicyException, kinds.API_VERSION, kind) | {"required": ["spec"]}
    return _definition(kinds.API_VERSION, kind, plural, "Namespaced", root, _EXCEPTION_COLUMNS)


def _definition(api_version: str, kind: str, plural: str, scope: str, root: Schema, columns: list[Object]) -> Object:
    group, version = api_version.split("/")
    version_body = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }
    spec = {
        "group": group,
        "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
        "scope": scope,
        "conversion": {"strategy": "None"},
        "versions": [version_body],
    }
    name = f"{plural}.{group}"
    return obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, spec=spec)
