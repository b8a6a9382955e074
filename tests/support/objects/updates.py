"""Updates of stored JobSets, and what the engine says about them."""

import copy
from typing import Any

from api.features import FeatureGates
from app.engine import engine

JSON = dict[str, Any]
DEFAULT = FeatureGates()
RJOB = ("replicatedJobs", 0)
JOB = (*RJOB, "template", "spec")
POD = (*JOB, "template", "spec")


def errors(old: JSON, new: JSON, gates: FeatureGates = DEFAULT) -> list[str]:
    """Path and rule of each fault."""
    return [f"{error.path}: {error.detail}" for error in engine(gates).findings_about_update(old, new).errors]


def changed(js: JSON, *keys: str | int, to: Any) -> JSON:
    """A copy of a stored JobSet with another value at `spec.<keys>`."""
    new = copy.deepcopy(js)
    node = new["spec"]
    for key in keys[:-1]:
        node = node.setdefault(key, {}) if isinstance(key, str) else node[key]
    node[keys[-1]] = to
    return new
