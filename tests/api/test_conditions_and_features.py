"""How conditions change (docs/reference/status.md#conditions) and how feature gates are read (docs/reference/manager.md#feature-gates)."""

import pytest

from api.conditions import with_condition
from api.features import FeatureGateError, FeatureGates, parse_feature_gates
from kube.model.meta import Condition


def condition(kind="Suspended", status="True", reason="R", message="m", at="t1"):
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=at)


def test_a_change_of_status_moves_the_transition_time():
    changed = with_condition((condition(),), condition(status="False", reason="Q", at="t2"))
    assert changed == (condition(status="False", reason="Q", at="t2"),)


def test_the_same_again_is_no_change():
    assert with_condition((condition(),), condition(at="t2")) == (condition(),)


def test_gates_default_to_their_stage():
    gates = FeatureGates()
    assert (gates["RestartJob"], gates["TLSOptions"]) == (False, True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"Nope": True}, "unknown feature gate 'Nope': known are ElasticJobSet, "),
        ({"restartjobs": True}, "unknown feature gate 'restartjobs': did you mean \"RestartJob\"?"),
        ({"TLSOptions": False}, "locked to true"),
        ({"A": True, "TLSOptions": False}, "'A': .*; feature gate TLSOptions is GA"),
    ],
)
def test_wrong_gates_are_named(settings, words):
    with pytest.raises(FeatureGateError, match=words):
        FeatureGates(settings)


def test_gate_lists_are_read():
    assert parse_feature_gates(" RestartJob=true, ElasticJobSet=False,") == {"RestartJob": True, "ElasticJobSet": False}
    assert parse_feature_gates("") == {}


@pytest.mark.parametrize("text", ["RestartJob", "RestartJob=yes", "=true=false"])
def test_what_is_no_gate_list_is_refused(text):
    with pytest.raises(FeatureGateError, match="write NAME=true or NAME=false"):
        parse_feature_gates(text)


def test_all_malformed_feature_gates_are_named_at_once():
    with pytest.raises(
        FeatureGateError, match=r"^'RestartJob', 'a=1' are not feature gate settings: write NAME=true or"
    ):
        parse_feature_gates("RestartJob,InPlaceRestart=true,a=1")
