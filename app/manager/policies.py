"""The stage of policies: what admission has decided is written into their status."""

import random

from app.manager.options import Deps
from controllers.policy.counts import PolicyCounts
from controllers.policy.regular import Regularly
from controllers.policy.uses import ExceptionUses
from policy.types import GATE


class _Record:
    """`app.policy_metrics.Listener`: remembers what has to be written."""

    def __init__(self, counts: PolicyCounts, uses: ExceptionUses) -> None:
        self.decided = counts.decided
        self.used = uses.used


def record_decisions(deps: Deps) -> None:
    """Write what this process, and those that report to it, decide; nothing without the feature gate."""
    if not deps.options.gates[GATE]:
        return
    counts, uses = PolicyCounts(deps.client, jitter=random.random), ExceptionUses(deps.client)
    every = deps.options.settings.policies.status_interval
    regularly = Regularly([counts, uses], every=every, jitter=random.random)
    deps.metrics.webhooks.tell(_Record(counts, uses))
    deps.supervisor.start(regularly.run(), "policy-status")
    deps.supervisor.on_drained(regularly.flush)
