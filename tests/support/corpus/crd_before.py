"""The CRD as it was before stages, exit codes, success by share, budgets of rules and gangs: the new one without them.

A digest, taken of the definition that was committed then, holds that nothing else has changed.
"""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

from api import failure_actions
from manifests import crd
from tests.support.corpus.crd_fields import added

JSON = dict[str, Any]
DIGEST = "5a376d5bbb6aa519731e7dafc5d4ce37d5c274b5c0eb29ee5cdfa0f298c183d7"
"""Of the committed definition without its descriptions."""
ACTIONS = (
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
)
"""Failure actions that it knew."""
NEW_ACTIONS = failure_actions.ACTIONS.keys() - set(ACTIONS)
COLUMNS = ("Ready", "Stage", "Attempts", "Failure", "Managed-By")


def crd_before() -> JSON:
    """The definition that knows none of the new fields, values, rules and columns, and sets no limit to `replicas`.

    Of the rules in CEL, those on `spec` (two) and on the success policy (one) stand behind the one that was there.
    """
    definition: JSON = copy.deepcopy(crd())
    [version] = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    for field in added():
        *parents, name = field.split(".")
        del _at(schema, parents)["properties"][name]
    action = _at(schema, ["spec", "failurePolicy", "rules[]", "action"])
    action["enum"] = [name for name in action["enum"] if name not in NEW_ACTIONS]
    del _at(schema, ["spec", "replicatedJobs[]", "replicas"])["maximum"]
    del schema["properties"]["spec"]["x-kubernetes-validations"][1:]
    del _at(schema, ["spec", "successPolicy"])["x-kubernetes-validations"][1:]
    columns = version["additionalPrinterColumns"]
    version["additionalPrinterColumns"] = [column for column in columns if column["name"] not in COLUMNS]
    for name in ("shortNames", "categories"):
        del definition["spec"]["names"][name]
    return definition


def without_new_fields(obj: JSON) -> JSON:
    """A JobSet without the new fields of its spec; a new action becomes one that was there."""
    obj = copy.deepcopy(obj)
    for rule in _all(obj, ["spec", "failurePolicy", "rules[]"]):
        if rule.get("action") in NEW_ACTIONS:
            rule["action"] = "RestartJob"
    for field in added():
        *parents, name = field.split(".")
        for node in _all(obj, parents):
            node.pop(name, None)
    return obj


def digest(definition: JSON) -> str:
    """Of a definition, whatever it says in its descriptions."""
    text = json.dumps(_undescribed(definition["spec"]), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _undescribed(node: Any) -> Any:
    if isinstance(node, dict):
        kept = {key: value for key, value in node.items() if not (key == "description" and isinstance(value, str))}
        return {key: _undescribed(value) for key, value in kept.items()}
    return [_undescribed(item) for item in node] if isinstance(node, list) else node


def _at(schema: JSON, names: list[str]) -> JSON:
    for name in names:
        schema = schema["properties"][name.removesuffix("[]")]
        if name.endswith("[]"):
            schema = schema["items"]
    return schema


def _all(obj: Any, names: list[str]) -> list[JSON]:
    nodes = [obj]
    for name in names:
        nodes = [node.get(name.removesuffix("[]")) for node in nodes]
        if name.endswith("[]"):
            nodes = [item for items in nodes for item in items or ()]
        nodes = [node for node in nodes if isinstance(node, dict)]
    return nodes
