"""Pods that wait, in a model of one namespace: the answer to a plan's `PendingPodQuery`."""

from dataclasses import replace
from typing import Any

from controllers.planning.actions import PendingPodQuery, PodQuery
from controllers.planning.observed import Observed, PendingPod
from controllers.planning.start_timeout import next_check, start_limits
from tests.support.model.world import World


class StartChecks(World):
    """`waiting`: the first pod that waits, by the name of its Job. `checks` counts the queries that were answered."""

    def __init__(self, js: Any, **gates: bool) -> None:
        super().__init__(js, **gates)
        self.next_start_check, self.checks = "", 0

    def waiting(self) -> dict[str, PendingPod]:
        raise NotImplementedError

    def observe(self) -> Observed:
        return replace(super().observe(), next_start_check=self.next_start_check)

    def answer(self, observed: Observed, pod_query: PodQuery) -> Observed:
        if not isinstance(pod_query, PendingPodQuery):
            return super().answer(observed, pod_query)
        assert observed.pending_pods is None, "an answered query is asked again"
        found = {self.jobs[name]["metadata"]["uid"]: pod for name, pod in self.waiting().items() if name in self.jobs}
        self.next_start_check = next_check(found.values(), start_limits(observed.jobset.failure_policy), self.now)
        self.checks += 1
        return replace(observed, pending_pods=found)
