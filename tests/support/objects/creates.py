"""What the engine says about a JobSet that is created."""

from typing import Any

from api.features import FeatureGates
from app.engine import engine
from kube.model.field import FieldError
from tests.support.objects.jobsets import JSON


def create_errors(js: JSON, gates: FeatureGates) -> tuple[FieldError, ...]:
    return engine(gates).findings_about_new(js, defaults=False).errors


def rules(*items: JSON, **fields: Any) -> JSON:
    return {"rules": [{"name": f"r{i}", "action": "FailJobSet", **item} for i, item in enumerate(items)], **fields}
