"""The actions of a failure policy: what the controller does when a Job of a JobSet has failed.

Each rule of `spec.failurePolicy` names an action. An action either fails the JobSet, or recreates some of its Jobs,
which is a restart. `failurePolicy.maxRestarts` limits the restarts by those actions that count towards it. The Go
JobSet has all actions except RestartReplicatedJob (KEP-262, KEP-467).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from api.features import FeatureGates


class Scope(Enum):
    """Which Jobs an action recreates: none, the failed Job, all of its ReplicatedJob, or all of the JobSet."""

    NOTHING = "nothing"
    JOB = "Job"
    REPLICATED_JOB = "ReplicatedJob"
    JOBSET = "JobSet"


@dataclass(frozen=True, slots=True)
class FailureAction:
    """One action.

    - `name`: the value of the field `action` of a rule.
    - `scope`: which Jobs the action recreates. With NOTHING, the action fails the JobSet.
    - `counts_restarts`: whether a restart by the action counts towards `failurePolicy.maxRestarts`.
    - `description`: what the action does, for the CRD and the API reference.
    - `gate`: the feature gate that the action needs; empty if it needs none.
    - `in_go_jobset`: whether the Go JobSet also has the action.
    """

    name: str
    scope: Scope
    counts_restarts: bool
    description: str
    gate: str = ""
    in_go_jobset: bool = True

    @property
    def reach(self) -> int:
        """A number from 0 to 3 that grows with the Jobs that the action deletes. FailJobSet has the highest number."""
        return (Scope.JOB, Scope.REPLICATED_JOB, Scope.JOBSET, Scope.NOTHING).index(self.scope)

    @property
    def restarts_part(self) -> bool:
        """Whether the action recreates some Jobs of the JobSet and does not touch its other Jobs."""
        return self.scope is Scope.JOB or self.scope is Scope.REPLICATED_JOB

    @property
    def is_uncounted_restart(self) -> bool:
        """Whether the action recreates Jobs without counting towards maxRestarts."""
        return self.scope is not Scope.NOTHING and not self.counts_restarts

    @property
    def counted_name(self) -> str:
        """The name of the action that recreates the same Jobs and counts towards maxRestarts. It may be this action."""
        return self.name.removesuffix("AndIgnoreMaxRestarts")

    def is_enabled(self, gates: FeatureGates) -> bool:
        """Whether the action needs no feature gate, or its gate is on."""
        return not self.gate or gates[self.gate]


FAIL_JOBSET = FailureAction("FailJobSet", Scope.NOTHING, counts_restarts=False, description="fail at once")
RESTART_JOBSET = FailureAction(
    "RestartJobSet", Scope.JOBSET, counts_restarts=True, description="recreate every Job, counted against maxRestarts"
)
RESTART_JOBSET_UNCOUNTED = FailureAction(
    "RestartJobSetAndIgnoreMaxRestarts",
    Scope.JOBSET,
    counts_restarts=False,
    description="recreate every Job, not counted",
)
RESTART_JOB = FailureAction(
    "RestartJob",
    Scope.JOB,
    counts_restarts=True,
    gate="RestartJob",
    description="recreate the failed Job alone, counted",
)
RESTART_JOB_UNCOUNTED = FailureAction(
    "RestartJobAndIgnoreMaxRestarts",
    Scope.JOB,
    counts_restarts=False,
    gate="RestartJob",
    description="recreate the failed Job alone, not counted",
)
RESTART_REPLICATED_JOB = FailureAction(
    "RestartReplicatedJob",
    Scope.REPLICATED_JOB,
    counts_restarts=True,
    gate="RestartJob",
    description="recreate all Jobs of its ReplicatedJob, counted as one RestartJob",
    in_go_jobset=False,
)
MAX_REPLICAS_TO_RESTART = 1024
"""An action that recreates only some Jobs works for ReplicatedJobs of at most this many Jobs.

The status has a counter of restarts for each of these Jobs.
"""

ACTIONS: Mapping[str, FailureAction] = {
    action.name: action
    for action in (
        FAIL_JOBSET,
        RESTART_JOBSET,
        RESTART_JOBSET_UNCOUNTED,
        RESTART_JOB,
        RESTART_JOB_UNCOUNTED,
        RESTART_REPLICATED_JOB,
    )
}
"""The actions by name."""


def action_of(name: str) -> FailureAction:
    """The action with this name. An unknown name, which the CRD refuses, means the default action RestartJobSet."""
    return ACTIONS.get(name, RESTART_JOBSET)


def describe_actions() -> str:
    """A description of all actions, one sentence for each."""
    gates = {action.name: f" (feature gate {action.gate})" if action.gate else "" for action in ACTIONS.values()}
    notes = {action.name: "" if action.in_go_jobset else "; not in the Go JobSet" for action in ACTIONS.values()}
    return " ".join(f"{name}{gates[name]}: {action.description}{notes[name]}." for name, action in ACTIONS.items())
