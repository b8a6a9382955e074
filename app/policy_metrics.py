"""What JobSetPolicies have decided, for a bounded number of policies."""

from prometheus_client import CollectorRegistry, Counter

MOST_POLICIES = 200
"""Policies that have series of their own."""

OTHER_POLICIES = "(others)"
"""No name that a policy could have."""


class PolicyHooks:
    """`webhooks.jobset.policies.PolicyMetrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._decisions = Counter(
            "jobset_policy_decisions_total",
            "Reviews in which a rule of a JobSetPolicy led to an action",
            ("policy", "rule", "action"),
            registry=registry,
        )
        self._policies: set[str] = set()

    def decided(self, policy: str, rule: str, action: str, count: int = 1) -> None:
        """Administrators name policies. Those beyond the first `MOST_POLICIES` of this process are counted together."""
        if len(self._policies) < MOST_POLICIES:
            self._policies.add(policy)
        self._decisions.labels(policy if policy in self._policies else OTHER_POLICIES, rule, action).inc(count)
