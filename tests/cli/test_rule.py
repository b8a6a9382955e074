"""`jobset rule`: what a rule says and why. Its examples are judged by the rules themselves."""

import pytest

from api.features import FeatureGates
from app.engine import engine
from authoring.rule_catalogue import all_rules
from cli.rule.explanations import explanations
from kube.model.field import FieldError, Layer, Severity
from tests.support.corpus.rule_examples import IN_PARTS, with_part

ENGINE = engine(FeatureGates({"AllAlpha": True}))
RULES = {rule.id: rule for rule in all_rules()}


def warned(place: str, text: str) -> tuple[FieldError, ...]:
    found = ENGINE.findings_about_new(with_part(place, text))
    assert [*map(str, found.errors)] == []
    return found.warnings


@pytest.mark.parametrize("name", IN_PARTS)
def test_the_bad_example_gets_the_warning_and_the_good_one_none(name: str):
    row = explanations()[name]
    [warning] = warned(row.at, row.bad)
    assert warning.rule is RULES[name]
    path = str(warning.path)
    assert path.startswith(row.at) or row.at.startswith(path), "it is in the part, or around it"
    assert warned(row.at, row.good) == ()


def test_every_warning_about_the_object_is_explained():
    of_policies = ("policy-", "name-twice", "service-shared", "stored-", "references-", "repeated-", "placeholders")
    elsewhere = {"suspension-options-gate", "field-put-back"}  # with a gate off, and in updates
    warnings = {
        name
        for name, rule in RULES.items()
        if rule.severity is Severity.WARNING and rule.layer is Layer.WEBHOOK and not name.startswith(of_policies)
    }
    assert warnings - {*explanations()} - elsewhere == set()
    assert {*explanations()} <= {*RULES}


def test_a_rule_is_explained(command):
    code, out, err = command("rule", "address-of-no-pod")
    assert (code, err) == (0, "")
    for text in (
        "address-of-no-pod (warning)",
        "What:     no pod of this set has the address <address>",
        "Why:      The address of a pod is",
        "Since:    0.1.0",
        "    - {name: MASTER_ADDR, value: train-0-0.train}",
        "    - {name: MASTER_ADDR, value: train-workers-0-0.train}",
        "jobset.sigs.k8s.io/ignore-warnings",
    ):
        assert text in out


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_rule_can_be_asked_for(command, name: str):
    code, out, _ = command("rule", name)
    assert code == 0
    assert out.startswith(f"{name} (")
    assert "Found by:" in out


def test_without_an_id_all_are_listed(command):
    code, out, _ = command("rule")
    assert (code, len(out.splitlines())) == (0, len(RULES))


def test_a_rule_that_does_not_exist(command):
    code, out, err = command("rule", "varable-later")
    assert (code, out) == (2, "")
    assert err == "jobset rule: there is no rule 'varable-later'; did you mean variable-later?\n"
