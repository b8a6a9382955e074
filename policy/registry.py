"""All rules of policies, by their field in `Rules`. Pure."""

from collections.abc import Mapping

import msgspec

from policy.rule_types import Rules
from policy.rules import containers, failures, images, management, metadata, placement, resources, times, totals
from policy.rules.words import PolicyRule

_BY_NAME = {
    rule.name: rule
    for module in (containers, failures, images, management, metadata, placement, resources, times, totals)
    for rule in module.RULES
}

RULES: Mapping[str, PolicyRule] = {field.name: _BY_NAME[field.encode_name] for field in msgspec.structs.fields(Rules)}
"""In the order of the API."""
