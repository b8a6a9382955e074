"""Fields of elastic ReplicatedJobs, whose number of Jobs may change while the JobSet runs (docs/concepts/elastic.md).

A user can change `replicas` within bounds. If nodes are missing, the JobSet can continue with fewer Jobs, and get them
back later. `make generate` turns these records into a part of the CRD.
"""

from typing import Annotated, Final

from kube.model.meta import Base, doc

GATE: Final = "JobSetElasticReplicas"
"""The feature gate of these fields."""


class Elastic(Base, frozen=True, kw_only=True):
    """Bounds of the number of Jobs of a ReplicatedJob. Not in the Go JobSet."""

    min: Annotated[int, doc("The fewest Jobs with which its program can work.", minimum=1, format="int32")]
    max: Annotated[int, doc("The most Jobs that `replicas` may ask for.", minimum=1, format="int32")]


class WhenNoCapacity(Base, frozen=True, kw_only=True):
    """When elastic ReplicatedJobs continue with fewer Jobs. Not in the Go JobSet."""

    shrink_after_seconds: Annotated[
        int,
        doc(
            "Seconds for which a pod that came in place of another has been unschedulable before its ReplicatedJob"
            " continues without that Job.",
            minimum=1,
            format="int32",
        ),
    ]


class ReducedReplicas(Base, frozen=True, kw_only=True):
    """A ReplicatedJob that runs with fewer Jobs than `replicas`. Not in the Go JobSet."""

    name: Annotated[str, doc("Name of the ReplicatedJob.")]
    replicas: Annotated[int, doc("Jobs that it has now.", format="int32")]
    since: Annotated[str, doc("Since when: RFC 3339, seconds.", format="date-time")] = ""
    held: Annotated[int, doc("Jobs of the missing ones for which placeholders hold room now.", format="int32")] = 0
    held_since: Annotated[
        str, doc("When `held`, or which placeholders there are, last changed: RFC 3339, seconds.", format="date-time")
    ] = ""
