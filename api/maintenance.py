"""`failurePolicy.maintenance`: moves a JobSet to other nodes before its nodes are taken down for maintenance.

A node in maintenance has a taint that the user names, or evicts pods of the JobSet (docs/concepts/node-maintenance.md).
`make generate` turns these records into a part of the CRD.
"""

from typing import Annotated, Final

from kube.model.meta import Base, doc

MAX_LEFT_NODES: Final = 32
"""The status names at most this many nodes in maintenance. If there are more, a set does not move in place."""


class MaintenanceNotice(Base, frozen=True, kw_only=True):
    """What workers are told before the set leaves a node, and how long they have. Not in the Go JobSet."""

    wait_seconds: Annotated[
        int,
        doc(
            "Seconds from the first taint or eviction until the set moves; less if all agents have reported that their"
            " workers are ready for it, or an evicted pod has ended. Without agents none after an eviction.",
            minimum=0,
            maximum=86400,
            format="int32",
        ),
    ]
    signal: Annotated[
        str,
        doc(
            "With restartStrategy InPlaceRestart: signal that agents in main container mode send to those processes of"
            " their workers that handle it. Absent: none.",
            enum=["SIGHUP", "SIGUSR1", "SIGUSR2"],
        ),
    ] = ""


class Maintenance(Base, frozen=True, kw_only=True):
    """By which taints of a node the set leaves it, in a restart that does not count. Not in the Go JobSet.

    The eviction of a pod has the same effect.
    """

    taint_keys: Annotated[
        tuple[Annotated[str, doc("Key of a taint.", minLength=1, maxLength=317)], ...],
        doc(
            "Keys of taints, whatever their value and effect, such as node.kubernetes.io/unschedulable, which"
            " `kubectl cordon` brings about.",
            maxItems=16,
            **{"x-kubernetes-list-type": "set"},
        ),
    ]
    notice: Annotated[
        MaintenanceNotice | None, doc("Time for a checkpoint before the move. Absent: the set moves at once.")
    ] = None
