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
    return checks.create(js) if old is None else checks.update(old, js)


def rules(found: Findings) -> list[str]:
    return [error.rule.id for error in (*found.errors, *found.warnings) if error.rule is not None]


@pytest.mark.parametrize("suspend", [True, False])
def test_a_set_whose_jobs_another_controller_suspends_has_no_suspend(suspend):
    assert rules(checked(annotated(keys.SKIP_SUSPEND, suspend=suspend))) == ["suspend-left-to-others"]
    assert rules(checked(annotated(keys.SKIP_SUSPEND))) == []
    assert rules(checked(annotated(keys.DELETE_ON_SUSPEND, suspend=suspend))) == []


def test_an_update_can_neither_suspend_it_nor_add_the_annotation_to_a_suspended_set():
    left, halted = annotated(keys.SKIP_SUSPEND), annotated(keys.SKIP_SUSPEND, suspend=True)
    plain, both = annotated(keys.SKIP_SUSPEND, "false", suspend=True), annotated(keys.SKIP_SUSPEND, "false")
    assert rules(checked(halted, left)) == ["suspend-left-to-others"]
    assert rules(checked(halted, plain)) == ["suspend-left-to-others"]
    assert rules(checked(left, both)) == []
    assert rules(checked(halted, halted)) == [], "what is stored stays writable"


@pytest.mark.parametrize("key", BOTH)
def test_without_effect_the_annotation_gets_a_warning(key):
    assert rules(checked(annotated(key), gate=False)) == ["suspension-options-gate"]
    assert rules(checked(annotated(key, "yes"))) == ["suspension-option-value"]
    assert rules(checked(annotated(key, "false"), gate=False)) == []
