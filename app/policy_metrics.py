"""Metrics of the decisions of JobSetPolicies, for a bounded number of policies."""

from prometheus_client import CollectorRegistry, Counter

from policy.kinds import PolicyId
from webhooks.metrics import PolicyMetrics

MAX_POLICIES = 200
"""Largest number of policies that have series of their own."""

OTHER_POLICIES = "(others)"
"""The label that counts all other policies. It is not a valid name of a policy."""


class PolicyHooks:
    """Implements `webhooks.metrics.PolicyMetrics` and `controllers.policy.controller.ExceptionMetrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._decisions = Counter(
            "jobset_policy_decisions_total",
            "Reviews in which a rule of a JobSetPolicy led to an action",
            ("policy", "rule", "action"),
            registry=registry,
        )
        self._exceptions = Counter(
            "jobset_policy_exceptions_total",
            "Exceptions from a JobSetPolicy that were used for the first time, or have ended",
            ("policy", "action"),
            registry=registry,
        )
        self._labeled_policies: set[str] = set()
        self._listeners: list[PolicyMetrics] = []

    def tell(self, listener: PolicyMetrics) -> None:
        """Also report every decision to this listener, including the decisions of workers."""
        self._listeners.append(listener)

    def count_decision(self, policy: PolicyId, rule: str, action: str, count: int = 1) -> None:
        """Count a decision. Policies beyond the first `MAX_POLICIES` of this process are counted together."""
        self._decisions.labels(self._label(policy.name), rule, action).inc(count)
        for listener in self._listeners:
            listener.count_decision(policy, rule, action, count)

    def record_exception_use(self, namespace: str, name: str, uid: str) -> None:
        """Tell the listeners that an exception was used. Users name exceptions, so a metric would not be bounded."""
        for listener in self._listeners:
            listener.record_exception_use(namespace, name, uid)

    def exception(self, policy: str, action: str) -> None:
        """Count an exception from a stored policy that was used for the first time, or has ended."""
        self._exceptions.labels(self._label(policy), action).inc()

    def _label(self, policy: str) -> str:
        if len(self._labeled_policies) < MAX_POLICIES:
            self._labeled_policies.add(policy)
        return policy if policy in self._labeled_policies else OTHER_POLICIES
