"""`spec.executionPolicy` of a JobSet: runs its ReplicatedJobs in stages, one after another.

A stage has one or several ReplicatedJobs, and starts when the stage before it has reached a state such as Succeeded.
Then the stage is released. `make generate` turns this record into a part of the CRD.
"""

from typing import Annotated

from api.policies import INT32
from kube.model.meta import Base, doc

NOT_FAILED = "a failed Job sets off the failure policy, so nothing can wait for it: wait for Succeeded, Ready or Active"
NOT_SUSPENDED = "a suspended JobSet starts nothing, so no stage can follow on it: wait for Succeeded, Ready or Active"
STAGE_STATES = ("Succeeded", "Ready", "Active")
_STAGE_STATE_RULES = [
    {"rule": "self != 'Failed'", "message": NOT_FAILED},
    {"rule": "self != 'Suspended'", "message": NOT_SUSPENDED},
    {
        "rule": "self in ['Succeeded', 'Ready', 'Active', 'Failed', 'Suspended']",
        "message": "must be Succeeded, Ready or Active",
    },
]


class ExecutionPolicy(Base, frozen=True, kw_only=True):
    """Runs the ReplicatedJobs as stages, one after the other in list order. Not in the Go JobSet."""

    execution_policy_order: Annotated[
        str,
        doc(
            "AnyOrder: all start at once. InOrder: nothing of a stage is created before the stage ahead of it has"
            " reached replicatedJobsStatus; not together with startupPolicy InOrder or dependsOn. Default AnyOrder"
            " (CRD).",
            enum=["AnyOrder", "InOrder"],
            default="AnyOrder",
        ),
    ] = "AnyOrder"
    replicated_jobs_status: Annotated[
        str,
        doc(
            "What every Job of a stage has to be before the next stage is released. Succeeded: completed. Ready: all"
            " its pods ready or done. Active: has pods, or is done. Default Succeeded (CRD).",
            default="Succeeded",
            maxLength=64,
            **{"x-kubernetes-validations": _STAGE_STATE_RULES},
        ),
    ] = "Succeeded"
    sequential_replicated_jobs: Annotated[
        int | None,
        doc(
            "Number of ReplicatedJobs, from the first, that are a stage each; those after them start together as the"
            " last stage. Absent: every ReplicatedJob is a stage of its own.",
            minimum=1,
            **INT32,
        ),
    ] = None
