"""The checks of admission, put together: the same for the manager, the command line and the benchmark."""

from functools import cache

from api.features import FeatureGates
from api.meta import JSON
from manifests.definition import crd
from webhooks.jobset.engine import Engine
from webhooks.jobset.schema import Schema


def engine(gates: FeatureGates) -> Engine:
    """The checks for these feature gates."""
    return Engine(gates, _schema())


@cache
def crd_schema() -> JSON:
    """The `openAPIV3Schema` of the CRD."""
    schema: JSON = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@cache
def _schema() -> Schema:
    return Schema(crd_schema())
