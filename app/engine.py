"""The checks of admission, put together: the same for the manager, the command line and the benchmark."""

from functools import cache

from api.features import FeatureGates
from manifests.definition import crd
from webhooks.jobset.engine import Engine
from webhooks.jobset.schema import Schema


def engine(gates: FeatureGates) -> Engine:
    """The checks for these feature gates."""
    return Engine(gates, _schema())


@cache
def _schema() -> Schema:
    return Schema(crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
