"""Annotations by which Jobs are suspended otherwise: what they forbid, and when they have no effect."""

import pytest

from api import keys
from api.features import FeatureGates
from api.suspension import GATE
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, stored
from webhooks.jobset.engine import Findings

BOTH = [keys.SKIP_SUSPEND, keys.DELETE_ON_SUSPEND]


def annotated(key: str, value: str = "true", **spec: object) -> JSON:
    js = stored(jobset(**spec))
    js["metadata"]["annotations"] = {key: value}
    return js


def checked(js: JSON, old: JSON | None = None, *, gate: bool = True) -> Findings:
    checks = engine(FeatureGates({GATE: gate}))
    return checks.findings_about_new(js) if old is None else checks.findings_about_update(old, js)


def rules(found: Findings) -> list[str]:
    return [error.rule.id for error in (*found.errors, *found.warnings) if error.rule is not None]


@pytest.mark.parametrize("suspend", [True, False])
def test_a_set_whose_jobs_another_controller_suspends_has_no_suspend(suspend):
    assert rules(checked(annotated(keys.SKIP_SUSPEND, suspend=suspend))) == ["suspend-left-to-others"]
    assert rules(checked(annotated(keys.SKIP_SUSPEND))) == []
    assert rules(checked(annotated(keys.DELETE_ON_SUSPEND, suspend=suspend))) == []


@pytest.mark.parametrize("key", BOTH)
def test_without_effect_the_annotation_gets_a_warning(key):
    assert rules(checked(annotated(key), gate=False)) == ["suspension-options-gate"]
    assert rules(checked(annotated(key, "yes"))) == ["suspension-option-value"]
    assert rules(checked(annotated(key, "false"), gate=False)) == []
