"""What is said about the commonest mistakes in policies and exceptions: the fix is what to paste."""

from typing import Any

import pytest

from api.jobset_policy.registry import RULES
from app.check.policies import policy_faults
from app.engine import exception_schema
from tests.support.policies import exception, manifest


@pytest.mark.parametrize(
    ("rules", "fix"),
    [
        ({"maxRestarts": 3}, "write it as an object: {max: 3}"),
        ({"maxTotals": {"pods": 8}}, "write it as an object: {max: 8}"),
        ({"requiredRequests": ["cpu", "nvidia.com/gpu"]}, "write it as an object: {resources: [cpu, nvidia.com/gpu]}"),
        ({"imageRegistries": []}, "write it as an object: {allowed: [...]}"),
        ({"imageRegistries": ["a: b"]}, "write it as an object: {allowed: [...]}"),
        ({"ttl": {"max": "7d"}}, "write 604800 for 7d"),
        ({"activeDeadline": {"max": "long"}}, "write 3600 for 1h"),
        ({"maxJobs": "3"}, "write its fields on lines of their own under it, indented"),
    ],
)
def test_the_fix_of_a_rule_is_what_to_write(rules: dict[str, Any], fix: str):
    (fault,) = policy_faults(manifest(**rules))[0]
    assert fault.fix == fix


def test_a_long_list_of_allowed_values_is_cut_between_two_of_them():
    (fault,) = exception_schema().faults(exception(rules=["priorityClass"]))
    shown, _, rest = fault.detail.partition(", and ")
    assert shown.endswith('"')
    assert "..." not in fault.detail
    assert rest == f"{len(RULES) - shown.count(', ') - 1} more"
    assert fault.fix == 'did you mean "priorityClasses"?'
