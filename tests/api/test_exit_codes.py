"""What exit codes mean, as rules of a Job."""

import copy

import pytest

from api.exit_codes import PERMANENT, RETRYABLE, exit_codes_of, job_spec_with, pod_failure_rules
from api.policies import ExitCodePolicy

OWN = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "Count", "onExitCodes": {"operator": "In", "values": [137]}},
]


def rule(action, *codes, **named):
    return {"action": action, "onExitCodes": {**named, "operator": "In", "values": list(codes)}}


def test_an_empty_policy_is_the_table_of_the_training_operators():
    assert exit_codes_of(ExitCodePolicy()) == ((1, 2, 126, 127, 128, 139), (130, 137, 138, 143))
    assert not {*PERMANENT} & {*RETRYABLE}
    assert pod_failure_rules({}, ExitCodePolicy()) == [
        rule("FailJob", 1, 2, 126, 127, 128, 139),
        rule("Ignore", 130, 137, 138, 143),
    ]


@pytest.mark.parametrize(
    ("policy", "rules"),
    [
        (ExitCodePolicy(permanent=(9, 3)), [rule("FailJob", 3, 9)]),
        (ExitCodePolicy(retryable=(9, 3, 9)), [rule("Ignore", 3, 9)]),
        (ExitCodePolicy(permanent=(3,), retryable=(4,)), [rule("FailJob", 3), rule("Ignore", 4)]),
        (
            ExitCodePolicy(permanent=(3,), retryable=(4,), container_name="main"),
            [rule("FailJob", 3, containerName="main"), rule("Ignore", 4, containerName="main")],
        ),
    ],
)
def test_a_list_that_is_left_out_beside_the_other_is_empty(policy, rules):
    assert pod_failure_rules({}, policy) == rules


def test_rules_of_the_template_come_first_in_their_order_and_unknown_fields_stay():
    spec = {"backoffLimit": 2, "podFailurePolicy": {"rules": OWN, "future": 1}}
    before = copy.deepcopy(spec)
    made = job_spec_with(spec, ExitCodePolicy(permanent=(3,)))
    assert made == {"backoffLimit": 2, "podFailurePolicy": {"rules": [*OWN, rule("FailJob", 3)], "future": 1}}
    assert spec == before, "the template is shared with the cache"


@pytest.mark.parametrize("own", [{}, {"podFailurePolicy": None}, {"podFailurePolicy": {"rules": None}}])
def test_a_template_without_rules_gets_those_of_the_policy(own):
    assert job_spec_with(own, ExitCodePolicy(permanent=(3,)))["podFailurePolicy"]["rules"] == [rule("FailJob", 3)]


@pytest.mark.parametrize("own", [{}, {"podFailurePolicy": None}, {"podFailurePolicy": {"rules": OWN}}])
def test_without_a_policy_the_template_is_as_it_was(own):
    assert job_spec_with(own, None) is own
    assert pod_failure_rules(own, None) == ((own.get("podFailurePolicy") or {}).get("rules") or [])
