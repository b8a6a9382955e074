"""Metrics of admission as protocols, so that worker processes do not import the metrics library."""

from typing import Protocol

from policy.kinds import PolicyId


class WebhookMetrics(Protocol):
    """Counts requests. `path` is the URL path of the webhook, and `code` the code of the answer inside the review.

    `on_refusal` is called once for each rule that a refused object breaks.
    """

    def on_start(self, path: str) -> None: ...

    def on_refusal(self, path: str, rule: str) -> None: ...

    def on_finish(self, path: str, code: int, seconds: float) -> None: ...


class PolicyMetrics(Protocol):
    """Counts each decision once for each review, policy, rule and action, and records uses of exceptions."""

    def count_decision(self, policy: PolicyId, rule: str, action: str, count: int = 1) -> None: ...

    def record_exception_use(self, namespace: str, name: str, uid: str) -> None:
        """Count an exception that has allowed a JobSet to break a rule. Not called for dry runs."""
