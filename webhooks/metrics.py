"""Where admission counts. Without what serves it: who counts for other processes need not import that."""

from typing import Protocol

from policy.kinds import PolicyId


class WebhookMetrics(Protocol):
    """Where requests are counted. `code` is that of the answer inside the review; times in seconds.

    `on_refusal` is called once for each rule that a refused object breaks.
    """

    def on_start(self, path: str) -> None: ...

    def on_refusal(self, path: str, rule: str) -> None: ...

    def on_finish(self, path: str, code: int, seconds: float) -> None: ...


class PolicyMetrics(Protocol):
    """Where decisions are counted, once for each review, policy, rule and action; and who hears of exceptions."""

    def count_decision(self, policy: PolicyId, rule: str, action: str, count: int = 1) -> None: ...

    def used(self, namespace: str, name: str, uid: str) -> None:
        """A rule that a JobSet breaks does not count because of this exception. Not called for dry runs."""
