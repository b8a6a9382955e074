"""Policies for the benchmark, in place of policies that a process watches in a cluster."""

from dev.bench.admission import samples
from policy.exception_types import JobSetPolicyException, read_exception
from policy.judged import Namespace
from policy.kinds import PolicyId
from policy.types import read_policy

RULES_OF_EACH = len(samples.policy("")["spec"]["rules"])


class Policies:
    """`number` equal policies with rules and defaults, and as many exceptions. All match, and none is violated.

    An object is both the source and the metrics of `PolicyChecks`.
    """

    def __init__(self, number: int = 0) -> None:
        names = [f"limits-{i}" for i in range(number)]
        self.in_force = tuple(read_policy(samples.policy(name)) for name in names)
        self._exceptions = tuple(read_exception(samples.exception(name)) for name in names)
        self._namespace = Namespace(samples.NAMESPACE, {"example.com/tenant": "true", "example.com/gpus": "64"})

    async def namespace(self, name: str) -> Namespace:  # noqa: ARG002 -- there is one
        return self._namespace

    def exceptions(self, namespace: str) -> tuple[JobSetPolicyException, ...]:  # noqa: ARG002 -- there is one
        return self._exceptions

    def count_decision(self, policy: PolicyId, rule: str, action: str, count: int = 1) -> None:
        """Nothing is violated."""

    def record_exception_use(self, namespace: str, name: str, uid: str) -> None:
        """Nothing is excepted."""
