"""The objects of the YAML files in this directory, as Python values."""

import copy
from functools import cache
from pathlib import Path

import yaml

from manifests.naming import Object

ROOT = Path(__file__).parent
RBAC = "rbac/rbac.yaml"
OPTIONAL_RBAC = (
    "references/config-maps.yaml",
    "references/secrets.yaml",
    "policy/rbac.yaml",
    "policy-reports/rbac.yaml",
    "policy-in-api-server/rbac.yaml",
)
"""The files with rights that only one option needs."""


@cache
def _load(path: str) -> list[Object]:
    return list(yaml.load_all((ROOT / path).read_text(encoding="utf-8"), yaml.CSafeLoader))


def objects(*paths: str) -> list[Object]:
    """New copies of the objects in files of this directory, in order."""
    return copy.deepcopy([each for path in paths for each in _load(path)])


def every_rbac_object() -> list[Object]:
    """Service account, roles and bindings, including the rights of all options."""
    return objects(RBAC, *OPTIONAL_RBAC)
