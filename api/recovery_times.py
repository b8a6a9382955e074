"""`status.recovery`: how long a JobSet ran, and how much time its failures cost. See docs/concepts/recovery-times.md.

`make generate` turns these records into a part of the CRD.
"""

from typing import Annotated

from api.policies import ATOMIC, INT32, INT64
from kube.model.meta import Base, doc


class AttemptTimes(Base, frozen=True, kw_only=True):
    """How long one start or recovery took, and how long the attempt ran after it. Not in the Go JobSet."""

    attempt: Annotated[int, doc("Number of the attempt, counted as in executionAttempts.", **INT32)] = 0
    since: Annotated[
        str,
        doc(
            "When the event happened that made the start or recovery necessary: a failure, or the creation or resume of"
            " the set. RFC 3339, seconds. The other times count from here.",
            format="date-time",
        ),
    ] = ""
    detected_after_seconds: Annotated[
        int | None,
        doc("Seconds until the restart was decided. Absent for a start, a resume and a planned restart.", **INT32),
    ] = None
    drained_after_seconds: Annotated[
        int | None, doc("Seconds until the old Jobs and pods were gone. Absent if none had to go.", **INT32)
    ] = None
    created_after_seconds: Annotated[
        int | None, doc("Seconds until all Jobs that might start existed. Absent if none was created.", **INT32)
    ] = None
    ready_after_seconds: Annotated[
        int | None, doc("Seconds until all of these Jobs were ready or done. Absent until then.", **INT32)
    ] = None
    running_seconds: Annotated[
        int, doc("Seconds that the attempt ran after that, until `recovery.since`.", **INT32)
    ] = 0


class Recovery(Base, frozen=True, kw_only=True):
    """How long the set ran, how long it did not, and what its recoveries took. Not in the Go JobSet."""

    running_seconds: Annotated[
        int, doc("Seconds in which every Job that might start was ready or done, until `since`.", **INT64)
    ] = 0
    lost_seconds: Annotated[
        int, doc("All other seconds until `since`, except those for which the set was suspended.", **INT64)
    ] = 0
    spare_seconds: Annotated[
        int,
        doc(
            "Seconds for which spares (idle Jobs that hold nodes for pods that lose theirs) were ready, summed over the"
            " spares. They are no part of the other two sums.",
            **INT64,
        ),
    ] = 0
    goodput: Annotated[
        str, doc("Share of runningSeconds in runningSeconds and lostSeconds, rounded down: `99.5%`.")
    ] = ""
    running: Annotated[bool, doc("Whether the set runs since `since`. If not, the seconds since then are lost.")] = (
        False
    )
    since: Annotated[
        str,
        doc(
            "Time until which the seconds are counted: RFC 3339, seconds. Absent while suspended and after the end.",
            format="date-time",
        ),
    ] = ""
    attempts: Annotated[
        tuple[AttemptTimes, ...],
        doc("The last starts and recoveries, oldest first, at most 10.", maxItems=10, **ATOMIC),
    ] = ()
