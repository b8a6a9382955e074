"""The stage that writes how often JobSetPolicies and their exceptions decided a review into the status of each."""

import random
from typing import TYPE_CHECKING

from app.manager.options import Deps
from policy.kinds import GATE

if TYPE_CHECKING:
    from controllers.policy.counts import PolicyCounts
    from controllers.policy.uses import ExceptionUses


class _Record:
    """A `webhooks.metrics.PolicyMetrics`, which is told each decision and keeps it until the next write."""

    def __init__(self, counts: "PolicyCounts", uses: "ExceptionUses") -> None:
        self.count_decision = counts.count_decision
        self.record_exception_use = uses.record_exception_use


def record_decisions(deps: Deps) -> None:
    """Start to write the decisions of this process and of its workers. Does nothing without the feature gate."""
    if not deps.options.gates[GATE]:
        return
    from controllers.policy.counts import PolicyCounts  # noqa: PLC0415 (all rules, which are of no use without the gate)
    from controllers.policy.regular import PeriodicWriter  # noqa: PLC0415 (the same)
    from controllers.policy.uses import ExceptionUses  # noqa: PLC0415 (the same)
    from policy.status_types import ANYONE, API_SERVER  # noqa: PLC0415 (the same)

    settings = deps.options.settings
    reviews_from = API_SERVER if settings.tls.client_ca_file else ANYONE
    counts = PolicyCounts(deps.client, reviews_from, jitter=random.random)
    uses = ExceptionUses(deps.client, reviews_from)
    every = settings.policies.status_interval
    writer = PeriodicWriter([counts, uses], every=every, jitter=random.random)
    deps.metrics.webhooks.tell(_Record(counts, uses))
    deps.supervisor.start(writer.run(), "policy-status")
    deps.supervisor.on_drained(writer.flush)
